"""The only door into the engine: a Protocol that a local engine, a remote cluster and the tests' fake all implement.

Called from the event loop. Nothing here blocks it: loading, tokenising and computing happen elsewhere, and what comes back
arrives as whole steps, one listener call for all the events of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from engine.snapshot import EngineSnapshot
from engine.types import (
    EngineEvent,
    EngineState,
    EngineStats,
    GenerationRequest,
    ModelInfo,
    Namespace,
    RequestId,
    SessionKey,
    Turn,
)

EventListener = Callable[[Sequence[EngineEvent]], None]
"""Called on the event loop, once per engine step, with that step's events in order. It must not block and must not raise."""


class EngineClient(Protocol):
    """What `app` may ask of an engine."""

    @property
    def state(self) -> EngineState: ...

    @property
    def failure(self) -> str | None:
        """One sentence for people when the state is FAILED, or LOADING and something is in the way."""

    @property
    def model(self) -> ModelInfo | None:
        """None until the engine is READY for the first time."""

    async def start(self, listener: EventListener) -> None:
        """Begin to load, and return at once. Events go to `listener` on the loop that called this."""

    async def wait_ready(self) -> None:
        """Return when requests are accepted. Raises EngineNotReady when the engine failed or was stopped, or is away for long."""

    async def check(self, request: GenerationRequest) -> int:
        """Tokens of the prompt this request makes, the template's own included; nothing is submitted.

        Submitted afterwards, the same object is not encoded a second time.

        Raises EngineNotReady, TemplateRefused, ConstraintRefused, QueueFull while very many are counted, or PromptTooLong when
        it can never be answered.
        """

    async def submit(self, request: GenerationRequest) -> None:
        """Take one request; its events end with exactly one `Finished`, whatever happens afterwards.

        Raises EngineNotReady, TemplateRefused, ConstraintRefused, PromptTooLong or QueueFull, and then sends no event at all.
        """

    def cancel(self, request_id: RequestId) -> None:
        """Ask a request to end. Idempotent: an unknown or finished request is ignored. A `Finished` follows within a step."""

    def stats(self) -> EngineStats:
        """A snapshot, from counters the engine publishes once per step."""

    async def snapshot(self) -> EngineSnapshot:
        """Every session with its pages and timers, the page map, the prefixes. Raises EngineNotReady."""

    async def evict_session(self, key: SessionKey) -> bool:
        """Move a session to the next tier now; from the last one it is gone. False where there is none, or it is ACTIVE."""

    async def hold_session(self, key: SessionKey) -> bool:
        """Stop a session's timers: a person answers in the model's place. Idempotent. False where there is none."""

    async def release_session(self, key: SessionKey) -> bool:
        """Its timers go on where they stood. Idempotent. False where there is none."""

    async def drop_session(self, key: SessionKey) -> bool:
        """Forget a session in every tier: when this returns no file and no page of it is left. Its turns are cancelled."""

    async def drop_namespace(self, namespace: Namespace) -> int:
        """Forget everything of a namespace, its parts included, in every tier; how many sessions that were."""

    async def set_prefix(self, name: str, turns: Sequence[Turn]) -> None:
        """Compute a persona's prefix ahead, in the background, or load it from disk. The same name again replaces it.

        `turns` is what every conversation of the persona begins with, its system prompt.
        """

    async def drop_prefix(self, name: str) -> None:
        """Forget a persona's prefix in every tier. An unknown name is ignored."""

    async def stop(self) -> None:
        """End the engine: every request still there gets its `Finished`, then threads and memory are given back."""
