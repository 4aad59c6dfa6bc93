"""`/healthz` (the process lives) and `/readyz` (it takes new work). Neither needs a sign-in and neither says more than that."""

from __future__ import annotations

import asyncio

import msgspec
import structlog
from litestar import Response, Router, get, head
from litestar.di import NamedDependency

from app.database import Database
from app.json_request import JsonRequest
from app.problems import problem_response, problem_responses
from app.replicas.opening import Replicas
from engine.client import EngineClient
from engine.types import EngineState

DATABASE_TIMEOUT_S = 2.0
"""A database that does not answer within this is as good as none for a load balancer."""


class Readiness:
    """Whether this process takes new work, and why not. `drain()` is called once, when it is told to end; `is_paused` is what an
    administrator has asked for, and may take back (`app.operations.drain`)."""

    def __init__(self, engine: EngineClient, database: Database, replicas: Replicas) -> None:
        self._engine = engine
        self._database = database
        self._replicas = replicas
        self.draining = False
        self.is_paused = False

    def drain(self) -> None:
        """From now on: not ready."""
        self.draining = True

    async def reasons(self) -> list[str]:
        """Why no new work is taken, for people; empty when it is."""
        reasons = []
        if self.draining:
            reasons.append("the server is shutting down")
        if self.is_paused:
            reasons.append("an administrator has drained this server")
        state = self._engine.state
        if state is EngineState.LOADING:
            reasons.append(
                f"the model is not there: {failure}" if (failure := self._engine.failure) else "the model is loading"
            )
        elif state is not EngineState.READY:
            reasons.append(f"the engine is {state}: {self._engine.failure or 'it was stopped'}")
        if not await self._database_answers():
            reasons.append("the database does not answer")
        return reasons

    def degraded(self) -> list[str]:
        """What works less well, though new work is taken: without Redis answers go on, and other servers see them late."""
        problem = self._replicas.problem()
        return [] if problem is None else ["Redis does not answer: other servers see this one's answers at their end"]

    async def _database_answers(self) -> bool:
        try:
            async with asyncio.timeout(DATABASE_TIMEOUT_S):
                await self._database.ping()
        except Exception as problem:
            # Whatever it is, the answer to the question is no; the log has the reason.
            structlog.get_logger("kvasir.health").warning("database does not answer", error=repr(problem))
            return False
        return True


class HealthBody(msgspec.Struct, frozen=True):
    status: str


class ReadyBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """`degraded` says what is away that the server can do without for a while."""

    status: str
    degraded: list[str] = []


@get("/healthz", summary="The process lives", opt={"public": True}, security=[{}])
async def healthz() -> HealthBody:
    """Always 200 while the process answers at all."""
    return HealthBody("ok")


@get(
    "/readyz",
    summary="The server takes new work",
    opt={"public": True},
    security=[{}],
    responses=problem_responses(503),
)
async def readyz(request: JsonRequest, readiness: NamedDependency[Readiness]) -> Response[ReadyBody] | Response[bytes]:
    """503 while the model loads, while the server shuts down or is drained, and without a database; `reasons` says which.
    Without Redis it is ready all the same, and `degraded` says so."""
    reasons = await readiness.reasons()
    if reasons:
        return problem_response(
            request, 503, "; ".join(reasons), headers={"Retry-After": "2"}, members={"reasons": reasons}
        )
    return Response(ReadyBody("ready", readiness.degraded()), headers={"Cache-Control": "no-store"})


@head("/healthz", opt={"public": True}, include_in_schema=False)
async def healthz_head() -> None:
    """The same for monitors that want no body."""


@head("/readyz", opt={"public": True}, include_in_schema=False)
async def readyz_head(readiness: NamedDependency[Readiness]) -> Response[None]:
    """The same for load balancers that want no body."""
    status, headers = (503, {"Retry-After": "2"}) if await readiness.reasons() else (200, {})
    return Response(None, status_code=status, headers={**headers, "Cache-Control": "no-store"})


def router() -> Router:
    """The routes, for one application."""
    return Router("/", route_handlers=[healthz, healthz_head, readyz, readyz_head], tags=["Operations"])
