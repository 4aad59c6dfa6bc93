"""Tells people that a live session of theirs is about to leave its place, so that who wants to go on does so while that is quick.

Runs as a task of the context. It looks only while somebody is connected, and says it once per time a session runs out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from app.engine_view import EngineView
from app.identifiers import UserId, is_id
from app.realtime.hub import Hub
from app.replicas.bus import Bus, News, Topic
from engine.errors import EngineNotReady
from engine.snapshot import SessionState, SessionStatus
from engine.types import NamespaceKind, SessionKey

logger = structlog.stdlib.get_logger(__name__)

LOOK_S = 5.0
"""Seldom enough to cost the engine nothing, and several times within the shortest notice that is of use."""

Tell = Callable[[UserId, str, dict[str, Any]], None]
"""Send a `session.expiring` about a conversation to every socket of a person."""


def expiry_told(hub: Hub, bus: Bus) -> Tell:
    """Tells every socket of a person, here and on other servers."""

    def hear(news: News) -> None:
        hub.tell_user(news["user_id"], "session.expiring", news["data"], news["conversation_id"])

    def tell(user_id: UserId, conversation_id: str, data: dict[str, Any]) -> None:
        hub.tell_user(user_id, "session.expiring", data, conversation_id)
        bus.publish(Topic.EXPIRING, user_id=user_id, conversation_id=conversation_id, data=data)

    bus.on(Topic.EXPIRING, hear)
    return tell


class Expiry:
    """Owns who has been told. `notice_s` is how long before its time a session is announced; 0 announces nothing."""

    def __init__(self, view: EngineView, is_anybody_there: Callable[[], bool], tell: Tell, *, notice_s: float) -> None:
        self._view = view
        self._is_anybody_there = is_anybody_there
        self._tell = tell
        self._notice_s = notice_s
        self._told: set[SessionKey] = set()

    def __len__(self) -> int:
        return len(self._told)

    async def watch(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Until cancelled."""
        if not self._notice_s:
            return
        while True:
            await sleep(LOOK_S)
            try:
                await self.look()
            except EngineNotReady:
                # It loads, or has ended: then there are no sessions either.
                self._told.clear()
            except Exception:
                logger.exception("expiry_not_announced")

    async def look(self) -> None:
        """Announce what runs out soon and was not announced yet. Raises EngineNotReady."""
        if not self._is_anybody_there():
            self._told.clear()
            return
        snapshot = await self._view.snapshot()
        leaving = {status.key: status for status in snapshot.sessions if self._leaves_soon(status)}
        for key, status in leaving.items():
            if key not in self._told:
                self._tell(UserId(key.namespace.name), key.name, expiring_data(status))
        # One that a new turn has renewed is told again the next time.
        self._told = set(leaving)

    def _leaves_soon(self, status: SessionStatus) -> bool:
        key, left_s = status.key, status.seconds_to_timeout
        is_conversation = key.namespace.kind is NamespaceKind.USER and not key.namespace.part and is_id(key.name)
        return is_conversation and left_s is not None and left_s <= self._notice_s


def expiring_data(status: SessionStatus) -> dict[str, Any]:
    """The data of a `session.expiring` frame. From the last tier it goes for good, and the conversation is read again."""
    return {
        "session_id": status.key.name,
        "state": status.state.value,
        "seconds_to_timeout": round(status.seconds_to_timeout or 0.0, 1),
        "is_last_tier": status.state is SessionState.DISK,
        "tokens": status.tokens,
    }
