"""`/api/v1/admin/sessions…`: everybody's live sessions."""

from __future__ import annotations

from typing import Annotated

from litestar import Response, Router, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from app.accounts.identity import Identity
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
from app.problems import problem_responses
from app.route_guards import admins_only
from app.sessions.admin_schemas import LiveSessionList
from app.sessions.admin_service import LiveSessionService
from engine.snapshot import SessionState

NO_STORE = {"Cache-Control": "no-store"}


@get("/", summary="List everybody's live sessions", responses=problem_responses(400, 401, 403, 503))
async def list_live_sessions(
    live_sessions: NamedDependency[LiveSessionService],
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
    user_id: Annotated[str | None, QueryParameter(description="Only those of this account")] = None,
    # Under another name in Python: the framework hands its own `state` to a parameter of that name.
    in_state: Annotated[
        SessionState | None, QueryParameter(name="state", description="Only those in this state")
    ] = None,
) -> Response[LiveSessionList]:
    """For administrators: whose they are, where their KV is, how large they are, and when they go to the next tier; the one used
    last first, at most a second old. Never a word of what was said."""
    page = await live_sessions.page(limit=limit, cursor=cursor, user_id=user_id, state=in_state)
    return Response(page, headers=NO_STORE)


@post(
    "/{session_id:str}/evict",
    summary="Evict a live session",
    status_code=204,
    responses=problem_responses(401, 403, 404, 409, 503),
)
async def evict_session(
    session_id: FromPath[str],
    caller: NamedDependency[Identity],
    live_sessions: NamedDependency[LiveSessionService],
) -> None:
    """For administrators. Its KV leaves for the next tier now, from the last one for good; nothing that was said is lost."""
    await live_sessions.evict(caller, session_id)


@delete("/{session_id:str}", summary="Kick a live session", responses=problem_responses(401, 403, 404, 503))
async def kick_session(
    session_id: FromPath[str],
    caller: NamedDependency[Identity],
    live_sessions: NamedDependency[LiveSessionService],
) -> None:
    """For administrators. Sockets that watch it close with 4009, its answer is cancelled, its KV is dropped in every tier. The
    conversation stays, and its owner may go on with it."""
    await live_sessions.kick(caller, session_id)


def router() -> Router:
    """The routes, for one application."""
    return Router(
        "/admin/sessions",
        route_handlers=[list_live_sessions, evict_session, kick_session],
        guards=[admins_only],
        tags=["Administration"],
    )
