"""What people see of their own sessions, and do with them. Called by routes.

The namespace is made from who asks, so what is somebody else's is not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import NotFound, Unavailable
from app.identifiers import UserId, is_id
from app.sessions.everywhere import SessionsEverywhere
from app.sessions.schemas import SessionBody, SessionList
from engine.errors import EngineNotReady, FilesNotDeleted
from engine.types import Namespace, SessionKey

RETRY_NOT_READY_S = 2
RETRY_FILES_S = 60
"""A disk that does not answer needs a person."""


class SessionService:
    """Owns nothing: sessions are the engines'."""

    def __init__(self, everywhere: SessionsEverywhere) -> None:
        self._everywhere = everywhere

    async def own(self, user_id: UserId) -> SessionList:
        """The caller's live sessions, the one used last first. Raises Unavailable while the engine is not ready."""
        with engine_refusals():
            located = await self._everywhere.listed(user_id)
        namespace = Namespace.user(user_id)
        found = [one.status for one in located if one.status.key.namespace == namespace]
        return SessionList([SessionBody.of(status) for status in sorted(found, key=lambda status: status.idle_s)])

    async def drop(self, user_id: UserId, session_id: str) -> None:
        """Forget one now, in memory and on disk; an answer that is being made ends as cancelled. Raises NotFound."""
        if not is_id(session_id):
            raise _no_session()
        with engine_refusals():
            is_dropped = await self._everywhere.drop(SessionKey(Namespace.user(user_id), session_id))
        if not is_dropped:
            raise _no_session()


def _no_session() -> NotFound:
    return NotFound("there is no such session")


@contextmanager
def engine_refusals() -> Iterator[None]:
    """What the engine cannot do now, in the words of the edge. Raises Unavailable."""
    try:
        yield
    except EngineNotReady as problem:
        raise Unavailable(
            f"the model does not run: {problem}", retry_after_s=RETRY_NOT_READY_S, code="engine_not_ready"
        ) from None
    except FilesNotDeleted as problem:
        raise Unavailable(str(problem), retry_after_s=RETRY_FILES_S, code="files_not_deleted") from None
