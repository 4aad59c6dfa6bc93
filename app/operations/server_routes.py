"""`/api/v1/admin/server` and `/api/v1/admin/drain`: what this process is, and whether it takes new work."""

from __future__ import annotations

from litestar import Response, Router, delete, get, post
from litestar.di import NamedDependency

from app.accounts.identity import Identity
from app.operations.drain import Drain, DrainBody
from app.operations.server_facts import ServerBody, ServerFacts
from app.problems import problem_responses
from app.route_guards import admins_only

NO_STORE = {"Cache-Control": "no-store"}


@get("/server", summary="Read what this server is", responses=problem_responses(401, 403))
async def read_server(server_facts: NamedDependency[ServerFacts]) -> Response[ServerBody]:
    """For administrators: version, model, kernels, start, and every setting with its origin; secrets are masked."""
    return Response(server_facts.body(), headers=NO_STORE)


@get("/drain", summary="Read whether this server is drained", responses=problem_responses(401, 403))
async def read_drain(drain: NamedDependency[Drain]) -> Response[DrainBody]:
    """For administrators."""
    return Response(drain.status(), headers=NO_STORE)


@post("/drain", summary="Drain this server", status_code=200, responses=problem_responses(401, 403))
async def begin_drain(caller: NamedDependency[Identity], drain: NamedDependency[Drain]) -> Response[DrainBody]:
    """For administrators. `/readyz` answers 503, new answers are refused (503 `draining`), running ones finish, and what is
    stored can be read. Of several servers, only the one that answers this. Idempotent, and audited."""
    return Response(await drain.begin(caller), headers=NO_STORE)


@delete("/drain", summary="Put this server back into service", status_code=200, responses=problem_responses(401, 403))
async def end_drain(caller: NamedDependency[Identity], drain: NamedDependency[Drain]) -> Response[DrainBody]:
    """For administrators. New answers are taken again. Idempotent, and audited."""
    return Response(await drain.end(caller), headers=NO_STORE)


def router() -> Router:
    """The routes, for one application."""
    return Router(
        "/admin",
        route_handlers=[read_server, read_drain, begin_drain, end_drain],
        guards=[admins_only],
        tags=["Administration"],
    )
