"""That the timers of a session stand still while a person answers in the model's place: its KV is not given up for that.

Called when that begins and ends, on every server, because the session is in the engine that made the last answer. An engine
forgets it when it starts anew; so it is told again once it is ready, and once per hour.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from app.background import Background
from app.identifiers import is_id
from app.replicas.bus import Bus, News, Topic
from app.responses.prompt import session_key
from engine.client import EngineClient
from engine.errors import EngineNotReady
from engine.snapshot import SessionState

HeldConversations = Callable[[Collection[str]], Awaitable[set[str]]]
"""Those of these conversations that a person answers."""


class SessionHolding:
    """Owns the work that is under way."""

    def __init__(self, engine: EngineClient, bus: Bus, held: HeldConversations) -> None:
        self._engine = engine
        self._bus = bus
        self._held = held
        self._background = Background()
        bus.on(Topic.HELD, self._heard)

    async def close(self) -> None:
        """End what is under way."""
        await self._background.close()

    def tell(self, user_id: str, conversation_id: str, *, is_held: bool) -> None:
        """A person answers from now on, or does not any more."""
        self._bus.publish(Topic.HELD, user_id=user_id, conversation_id=conversation_id, is_held=is_held)
        self._begin(user_id, conversation_id, is_held=is_held)

    async def reconcile(self) -> None:
        """Hold what SQL says, and nothing else."""
        try:
            await self._engine.wait_ready()
            await self._reconcile()
        except EngineNotReady:
            # It has failed or is being stopped, and both are told elsewhere.
            return

    async def _reconcile(self) -> None:
        snapshot = await self._engine.snapshot()
        # Timers of an active one do not run, and those of another are not held where one does.
        keys = [status.key for status in snapshot.sessions if is_id(status.key.name)]
        held = await self._held([key.name for key in keys])
        stopped = {
            status.key
            for status in snapshot.sessions
            if status.state is not SessionState.ACTIVE and status.seconds_to_timeout is None
        }
        for key in keys:
            if key.name in held:
                await self._engine.hold_session(key)
            elif key in stopped:
                await self._engine.release_session(key)

    def _heard(self, news: News) -> None:
        self._begin(news["user_id"], news["conversation_id"], is_held=news["is_held"])

    def _begin(self, user_id: str, conversation_id: str, *, is_held: bool) -> None:
        self._background.begin(self._hold(user_id, conversation_id, is_held=is_held))

    async def _hold(self, user_id: str, conversation_id: str, *, is_held: bool) -> None:
        key = session_key(user_id, conversation_id)
        try:
            await (self._engine.hold_session(key) if is_held else self._engine.release_session(key))
        except EngineNotReady:
            # It has no sessions; when it is ready it is told.
            return
