"""Bodies of the session routes."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from engine.snapshot import PagesByTier, SessionState, SessionStatus


class PagesBody(msgspec.Struct, frozen=True):
    """Pages of 16 tokens in each tier; one that is in two counts in both."""

    device: int
    host: int
    disk: int

    @classmethod
    def of(cls, pages: PagesByTier) -> PagesBody:
        return cls(pages.device, pages.host, pages.disk)


class SessionBody(msgspec.Struct, frozen=True):
    """The live side of a conversation, under its id. `active`: a turn is being answered; the others say where it waits."""

    id: str
    state: SessionState
    turns: Annotated[int, Meta(description="Turns since it is live")]
    tokens: Annotated[
        int, Meta(description="Tokens that the next turn need not compute again, as far as they are kept")
    ]
    pages: PagesBody
    cached_tokens: Annotated[int, Meta(description="Of its last turn's prompt")]
    ttft_ms: Annotated[float | None, Meta(description="Of its last turn")]
    idle_s: float
    seconds_to_timeout: Annotated[float | None, Meta(description="Until it goes to the next tier; null while active")]

    @classmethod
    def of(cls, status: SessionStatus) -> SessionBody:
        return cls(
            id=status.key.name,
            state=status.state,
            turns=status.turns,
            tokens=status.tokens,
            pages=PagesBody.of(status.pages),
            cached_tokens=status.cached_tokens,
            ttft_ms=status.ttft_ms,
            idle_s=status.idle_s,
            seconds_to_timeout=status.seconds_to_timeout,
        )


class SessionList(msgspec.Struct, frozen=True):
    """All of them: `next_cursor` is null."""

    items: list[SessionBody]
    next_cursor: str | None = None
