"""The engine's side of personas: their prompts are computed ahead, and what SQL does not have any more is dropped.

SQL decides. The engine is told after a change is durable, when it gets ready, and once per hour, because the command line changes
personas too. A prefix is a cache: without it an answer is the same, only its first token comes later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from app.background import Background
from app.database import Database
from app.engine_view import EngineView
from app.errors import AppError, InvalidInput, Unavailable
from app.keyed_locks import KeyedLocks
from app.personas import queries
from app.personas.schemas import PrefixBody
from engine.client import EngineClient
from engine.errors import EngineError, EngineNotReady, PromptTooLong, QueueFull, TemplateRefused
from engine.snapshot import PrefixState
from engine.types import EngineState, GenerationRequest, RequestId, Role, Turn

logger = structlog.stdlib.get_logger(__name__)

ChangedListener = Callable[[str], None]
"""Called on the loop after the change is durable. It must not block and must not raise."""

SHORTEST_QUESTION = Turn(Role.USER, "?")
"""A prompt that leaves no room for this leaves room for nothing."""


class PersonaPrefixes:
    """Owns what the engine was last told of each persona."""

    def __init__(self, database: Database, engine: EngineClient, view: EngineView) -> None:
        self._database = database
        self._engine = engine
        self._view = view
        self._told: dict[str, str] = {}
        self._locks = KeyedLocks()
        self._changes = Background()
        self._changed_listeners: list[ChangedListener] = []

    def on_changed(self, listener: ChangedListener) -> None:
        """Tell `listener` the name of every persona that is made, changed or deleted here."""
        self._changed_listeners.append(listener)

    async def refusal(self, system_prompt: str) -> AppError | None:
        """Why no conversation could begin with this, as far as the engine can say that now."""
        turns = (opening(system_prompt), SHORTEST_QUESTION)
        try:
            await self._engine.check(GenerationRequest(RequestId("check"), turns))
        except PromptTooLong as problem:
            return context_exceeded(problem)
        except TemplateRefused as problem:
            return InvalidInput(str(problem), code="template_refused")
        except QueueFull as full:
            return Unavailable(str(full), retry_after_s=full.retry_after_s, code="queue_full")
        except EngineNotReady:
            # Every conversation of it will be refused then, with the numbers.
            return None
        return None

    async def changed(self, name: str) -> None:
        """A persona was made, changed or deleted. Returns when the engine knows, or after a second."""
        for listener in self._changed_listeners:
            listener(name)
        await self.heard(name)

    async def heard(self, name: str) -> None:
        """The same, by somebody who has told all others."""
        await self._changes.do(self._tell(name))

    async def prepare(self) -> None:
        """Tell the engine of every persona, once it is ready."""
        try:
            await self._engine.wait_ready()
            kept = {status.name for status in (await self._engine.snapshot()).prefixes if status.name}
        except EngineNotReady:
            return
        async with self._database.read() as session:
            names = set(await queries.every_name(session))
        for name in sorted(names | kept):
            await self._tell(name)

    async def states(self, names: Iterable[str]) -> dict[str, PrefixBody]:
        """How far the engine is with each of them."""
        try:
            statuses = {status.name: status for status in (await self._view.snapshot()).prefixes}
        except EngineNotReady:
            state = PrefixState.BUILDING if self._engine.state is EngineState.LOADING else PrefixState.COLD
            return {name: PrefixBody(state) for name in names}
        return {
            name: PrefixBody.of(statuses[name]) if name in statuses else PrefixBody(PrefixState.COLD) for name in names
        }

    async def close(self) -> None:
        """End what is under way."""
        await self._changes.close()

    async def _tell(self, name: str) -> None:
        """What SQL says now: of several changes at once, the last one to be told is the truth."""
        try:
            async with self._locks.holding(name):
                async with self._database.read() as session:
                    system_prompt = await queries.system_prompt(session, name)
                if system_prompt is None:
                    self._told.pop(name, None)
                    await self._engine.drop_prefix(name)
                elif self._told.get(name) != system_prompt:
                    await self._engine.set_prefix(name, [opening(system_prompt)])
                    self._told[name] = system_prompt
        except EngineNotReady:
            # It is told when it gets ready.
            return
        except (AppError, EngineError) as problem:
            logger.warning("prefix_not_prepared", persona=name, error=str(problem))
        except Exception:
            logger.exception("prefix_not_prepared", persona=name)
        finally:
            self._view.forget()


def context_exceeded(problem: PromptTooLong) -> InvalidInput:
    """A prompt that can never fit, with its numbers."""
    return InvalidInput(
        str(problem),
        code="context_length_exceeded",
        members={"prompt_tokens": problem.prompt_tokens, "available_tokens": problem.available_tokens},
    )


def opening(system_prompt: str) -> Turn:
    """The first turn of every conversation of a persona."""
    return Turn(Role.SYSTEM, system_prompt)
