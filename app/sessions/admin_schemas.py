"""Bodies of the administrators' session routes."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from app.identifiers import is_id
from app.sessions.everywhere import Located
from app.sessions.schemas import PagesBody
from engine.snapshot import SessionState, SessionStatus
from engine.types import SessionKey

ID_CHARS = 32


class SessionOwner(msgspec.Struct, frozen=True):
    """Whose it is. `username` is null where the account is gone; `part` names an end customer of an API key."""

    id: str
    username: str | None
    part: str | None


class LiveSessionBody(msgspec.Struct, frozen=True, kw_only=True):
    """One live session of anybody. `conversation_id` is null where it is not a conversation's."""

    id: Annotated[str, Meta(description="Names it in these routes")]
    user: SessionOwner
    conversation_id: str | None
    name: str
    state: SessionState
    priority: str
    turns: int
    tokens: int
    pages: PagesBody
    cached_tokens: int
    ttft_ms: float | None
    idle_s: float
    seconds_to_timeout: float | None
    last_used_at: datetime
    server: Annotated[str, Meta(description="Which server of the deployment has it")]

    @classmethod
    def of(cls, one: Located, username: str | None) -> LiveSessionBody:
        status, key = one.status, one.status.key
        is_conversation = not key.namespace.part and is_id(key.name)
        return cls(
            id=session_id(key),
            user=SessionOwner(key.namespace.name, username, key.namespace.part or None),
            conversation_id=key.name if is_conversation else None,
            name=key.name,
            state=status.state,
            priority=status.priority.value,
            turns=status.turns,
            tokens=status.tokens,
            pages=PagesBody.of(status.pages),
            cached_tokens=status.cached_tokens,
            ttft_ms=status.ttft_ms,
            idle_s=status.idle_s,
            seconds_to_timeout=status.seconds_to_timeout,
            last_used_at=last_used_at(status, one.taken_at),
            server=one.server,
        )


class LiveSessionList(msgspec.Struct, frozen=True):
    """`total` is how many there are, on all pages."""

    items: list[LiveSessionBody]
    total: int
    next_cursor: str | None


class LiveSessionCursor(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The last item of a page: when it was used last, in tenths of a second since 1970, its id, and the server that has it."""

    used_ds: Annotated[int, Meta(ge=0, le=2**53)]
    id: Annotated[str, Meta(max_length=ID_CHARS)]
    server: Annotated[str, Meta(max_length=64)]


def session_id(key: SessionKey) -> str:
    """A name for a session among those of everybody: clients choose some of their own, so those are not unique."""
    parts = (key.namespace.kind.value, key.namespace.name, key.namespace.part, key.name)
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:ID_CHARS]


def last_used_at(status: SessionStatus, taken_at: datetime) -> datetime:
    """When its last turn ended, to the tenth of a second: the same in every snapshot."""
    used_at = taken_at - timedelta(seconds=status.idle_s)
    return used_at.replace(microsecond=used_at.microsecond // 100_000 * 100_000)
