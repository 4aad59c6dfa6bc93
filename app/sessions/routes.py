"""`/api/v1/sessions…`: one's own live sessions."""

from __future__ import annotations

from litestar import Response, Router, delete, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from app.accounts.identity import Identity
from app.problems import problem_responses
from app.sessions.schemas import SessionList
from app.sessions.service import SessionService

NO_STORE = {"Cache-Control": "no-store"}


@get("/", summary="List live sessions", responses=problem_responses(401))
async def list_sessions(
    caller: NamedDependency[Identity], sessions: NamedDependency[SessionService]
) -> Response[SessionList]:
    """What the engine keeps of one's own conversations, the one used last first; at most a second old."""
    return Response(await sessions.own(caller.user_id), headers=NO_STORE)


@delete("/{session_id:str}", summary="Drop a live session", responses=problem_responses(401, 403, 404))
async def drop_session(
    session_id: FromPath[str], caller: NamedDependency[Identity], sessions: NamedDependency[SessionService]
) -> None:
    """Forgets what the engine keeps of a conversation, in memory and on disk. The conversation stays; an answer that is being
    made ends as cancelled, and the next turn is read from its beginning."""
    await sessions.drop(caller.user_id, session_id)


def router() -> Router:
    """The routes, for one application."""
    return Router("/sessions", route_handlers=[list_sessions, drop_session], tags=["Sessions"])
