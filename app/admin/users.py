"""`/api/v1/admin/users…`: everybody's accounts, for administrators."""

from __future__ import annotations

from typing import Annotated

from litestar import Response, Router, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, QueryParameter

from app.accounts.administration import Administration
from app.accounts.identity import Identity
from app.accounts.models import UserRole
from app.accounts.schemas import AccountBody, AccountCreate, AccountList, AccountPatch, PasswordReset
from app.admin.deletion import AccountDeletion
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
from app.problems import problem_responses
from app.route_guards import no_idempotency_key

NO_STORE = {"Cache-Control": "no-store"}


@get("/", summary="List accounts", responses=problem_responses(400, 401, 403))
async def list_users(
    administration: NamedDependency[Administration],
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
    role: Annotated[UserRole | None, QueryParameter(description="Only accounts of this role")] = None,
) -> Response[AccountList]:
    """All accounts, the newest first. Visitors of widgets only with `role=visitor`."""
    return Response(await administration.page(limit=limit, cursor=cursor, role=role), headers=NO_STORE)


@post(
    "/",
    summary="Make an account",
    guards=[no_idempotency_key],
    responses=problem_responses(400, 401, 403, 409, 413, 415),
)
async def create_user(
    data: JSONBody[AccountCreate], caller: NamedDependency[Identity], administration: NamedDependency[Administration]
) -> Response[AccountBody]:
    """A name is taken once: asking again after a lost answer is a 409."""
    body = await administration.create(caller, data.username, data.password, data.role)
    return Response(body, headers={**NO_STORE, "Location": f"/api/v1/admin/users/{body.id}"})


@get("/{user_id:str}", summary="Read an account", responses=problem_responses(401, 403, 404))
async def get_user(user_id: FromPath[str], administration: NamedDependency[Administration]) -> Response[AccountBody]:
    """One account."""
    return Response(await administration.get(user_id), headers=NO_STORE)


@patch(
    "/{user_id:str}",
    summary="Change an account",
    responses=problem_responses(400, 401, 403, 404, 409, 413, 415),
)
async def patch_user(
    user_id: FromPath[str],
    data: JSONBody[AccountPatch],
    caller: NamedDependency[Identity],
    administration: NamedDependency[Administration],
) -> Response[AccountBody]:
    """Changes the role, disables or enables. Either ends the account's sign-ins and closes its sockets, those of its keys too.
    The last administrator stays one."""
    return Response(await administration.update(caller, user_id, data), headers=NO_STORE)


@post(
    "/{user_id:str}/password",
    summary="Reset a password",
    status_code=204,
    guards=[no_idempotency_key],
    responses=problem_responses(400, 401, 403, 404, 409, 413, 415),
)
async def reset_password(
    user_id: FromPath[str],
    data: JSONBody[PasswordReset],
    caller: NamedDependency[Identity],
    administration: NamedDependency[Administration],
) -> None:
    """Gives the account this password, ends its sign-ins and closes their sockets; API keys hold on."""
    await administration.reset_password(caller, user_id, data.new_password)


@delete("/{user_id:str}", summary="Delete an account", responses=problem_responses(401, 403, 404, 409))
async def delete_user(
    user_id: FromPath[str], caller: NamedDependency[Identity], deletion: NamedDependency[AccountDeletion]
) -> None:
    """Removes the account with its conversations, their event logs and KV in every tier, its keys and sign-ins. What it has used
    stays in the sums, and the act in the audit log. Of a large account the answer comes before the end."""
    await deletion.of_another(caller, user_id)


def router() -> Router:
    """The routes, for the administrators' router."""
    return Router("/users", route_handlers=[list_users, create_user, get_user, patch_user, reset_password, delete_user])
