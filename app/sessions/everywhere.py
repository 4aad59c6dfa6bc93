"""Live sessions of all servers of a deployment: each knows its own engine's, and is asked for them by the others over the bus.

Used by the two session services. A server that does not answer in time is left out: its sessions are seen and ended when it can
be reached, and nothing that was said depends on it. Alone there is nobody to ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import structlog

from app.clock import Now
from app.engine_view import EngineView
from app.identifiers import ConversationId, new_id
from app.replicas.bus import Bus, News, Topic
from app.replicas.ending import ended
from engine.client import EngineClient
from engine.errors import EngineNotReady, FilesNotDeleted
from engine.snapshot import SessionStatus
from engine.types import SessionKey

logger = structlog.stdlib.get_logger(__name__)

ANSWER_S = 1.0
"""How long another server is waited for. One that works answers within milliseconds."""

ACT_S = 5.0
"""The same for what has to be removed from a disk."""

Kick = Callable[[ConversationId], None]
"""Close what watches a conversation, and stop its answers. On the loop; it must not block and must not raise."""


@dataclass(frozen=True, slots=True)
class Located:
    """A session, the server that has it, and when that looked."""

    server: str
    taken_at: datetime
    status: SessionStatus


class SessionsEverywhere:
    """Owns the questions that are under way, and what others have asked."""

    def __init__(self, bus: Bus, owner: str, engine: EngineClient, view: EngineView, kick: Kick, *, now: Now) -> None:
        self._bus = bus
        self._owner = owner
        self._engine = engine
        self._view = view
        self._kick = kick
        self._now = now
        self._asked: dict[str, asyncio.Queue[News]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """From now on others may ask."""
        self._bus.on(Topic.SESSIONS_ASKED, self._begin)
        self._bus.on(Topic.SESSIONS_TOLD, self._told)

    async def close(self) -> None:
        """End what is under way."""
        await ended(self._tasks)

    async def listed(self, user_id: str | None = None) -> list[Located]:
        """Those of one person, or of all. Raises EngineNotReady where this server's own are not known."""
        found = await self._own(user_id)
        for told in await self._ask(ANSWER_S, "list", user_id=user_id):
            try:
                taken_at = msgspec.convert(told["taken_at"], datetime)
                statuses = msgspec.convert(told["sessions"], list[SessionStatus])
            except (KeyError, msgspec.ValidationError) as problem:
                # Another version's.
                logger.warning("sessions_unreadable", error=str(problem))
                continue
            found += (Located(told["server"], taken_at, status) for status in statuses)
        return found

    async def evict(self, located: Located) -> bool:
        """Move one to its next tier, on the server that has it. Raises EngineNotReady."""
        if located.server == self._owner:
            return await self._evict_own(located.status.key)
        key = msgspec.to_builtins(located.status.key)
        return any(told.get("result") for told in await self._ask(ACT_S, "evict", to=located.server, key=key))

    async def drop(self, key: SessionKey, *, kick: bool = False) -> bool:
        """Forget one on every server; with `kick` whoever watches it is disconnected first. Whether any had it.

        Raises EngineNotReady, or FilesNotDeleted where one server could not remove its files.
        """
        others = asyncio.create_task(self._ask(ACT_S, "kick" if kick else "drop", key=msgspec.to_builtins(key)))
        try:
            is_dropped = await self._drop_own(key, kick=kick)
        finally:
            told = await others
        if any(answer.get("files_left") for answer in told):
            raise FilesNotDeleted
        return is_dropped or any(answer.get("result") for answer in told)

    async def _own(self, user_id: str | None) -> list[Located]:
        snapshot = await self._view.snapshot()
        taken_at = self._view.taken_at(self._now())
        return [
            Located(self._owner, taken_at, status)
            for status in snapshot.sessions
            if user_id in (None, status.key.namespace.name)
        ]

    async def _evict_own(self, key: SessionKey) -> bool:
        try:
            return await self._engine.evict_session(key)
        finally:
            self._view.forget()

    async def _drop_own(self, key: SessionKey, *, kick: bool) -> bool:
        if kick and not key.namespace.part:
            self._kick(ConversationId(key.name))
        try:
            return await self._engine.drop_session(key)
        finally:
            self._view.forget()

    # --- asking ------------------------------------------------------------------------------------------------------

    async def _ask(self, patience_s: float, what: str, to: str | None = None, **details: Any) -> list[News]:
        """What the others say, or the one that is meant; what has not come in time is left out."""
        expected = await self._bus.num_others()
        if not expected:
            return []
        ask_id, answers = new_id(), asyncio.Queue[News]()
        self._asked[ask_id] = answers
        told: list[News] = []
        try:
            self._bus.publish(Topic.SESSIONS_ASKED, ask_id=ask_id, what=what, to=to, **details)
            async with asyncio.timeout(patience_s):
                while len(told) < (1 if to else expected):
                    told.append(await answers.get())
        except TimeoutError:
            logger.info("sessions_not_told", what=what, expected=expected, told=len(told))
        finally:
            del self._asked[ask_id]
        return told

    def _told(self, news: News) -> None:
        if (answers := self._asked.get(news["ask_id"])) is not None:
            answers.put_nowait(news)

    # --- being asked -------------------------------------------------------------------------------------------------

    def _begin(self, news: News) -> None:
        if news["to"] in (None, self._owner):
            task = asyncio.create_task(self._answer(news))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, news: News) -> None:
        told: News = {"sessions": [], "taken_at": self._now().isoformat()}
        try:
            told |= await self._done(news)
        except EngineNotReady:
            # Then it has none either.
            pass
        except FilesNotDeleted:
            told["files_left"] = True
        except Exception:
            logger.exception("sessions_not_told")
        self._bus.publish(Topic.SESSIONS_TOLD, ask_id=news["ask_id"], server=self._owner, **told)

    async def _done(self, news: News) -> News:
        if news["what"] == "list":
            own = await self._own(news["user_id"])
            taken_at = own[0].taken_at if own else self._now()
            return {
                "taken_at": taken_at.isoformat(),
                "sessions": [msgspec.to_builtins(located.status) for located in own],
            }
        key = msgspec.convert(news["key"], SessionKey)
        if news["what"] == "evict":
            return {"result": await self._evict_own(key)}
        return {"result": await self._drop_own(key, kick=news["what"] == "kick")}
