"""`/api/v1/retention` for oneself, and `/api/v1/admin/users/{id}/retention` for administrators."""

from __future__ import annotations

from litestar import Response, Router, get, put
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from app.accounts.identity import Identity
from app.conversations.retention_policies import RetentionBody, RetentionChange, RetentionPolicies
from app.problems import problem_responses
from app.route_guards import admins_only

NO_STORE = {"Cache-Control": "no-store"}


@get("/retention", summary="How long one's conversations are kept", responses=problem_responses(401))
async def get_own_retention(
    caller: NamedDependency[Identity], retention_policies: NamedDependency[RetentionPolicies]
) -> Response[RetentionBody]:
    """After so many days without a change a conversation is removed, with everything that is kept of it."""
    return Response(await retention_policies.of(caller.user_id), headers=NO_STORE)


@get(
    "/admin/users/{user_id:str}/retention",
    summary="How long a person's conversations are kept",
    guards=[admins_only],
    responses=problem_responses(401, 403, 404),
)
async def get_retention(
    user_id: FromPath[str], retention_policies: NamedDependency[RetentionPolicies]
) -> Response[RetentionBody]:
    """For administrators."""
    return Response(await retention_policies.of(user_id), headers=NO_STORE)


@put(
    "/admin/users/{user_id:str}/retention",
    summary="Decide how long a person's conversations are kept",
    guards=[admins_only],
    responses=problem_responses(400, 401, 403, 404, 413, 415),
)
async def put_retention(
    user_id: FromPath[str],
    data: JSONBody[RetentionChange],
    caller: NamedDependency[Identity],
    retention_policies: NamedDependency[RetentionPolicies],
) -> Response[RetentionBody]:
    """For administrators. Longer or shorter than the server's setting, or with null as that says. What is too old then is removed
    within the hour, except where an answer is being made."""
    return Response(await retention_policies.change(caller, user_id, data), headers=NO_STORE)


def router() -> Router:
    """The routes, for one application."""
    return Router("/", route_handlers=[get_own_retention, get_retention, put_retention], tags=["Retention"])
