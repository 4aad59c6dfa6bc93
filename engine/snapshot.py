"""What the engine tells about its memory: sessions, pages and prefixes, as plain values for a dashboard.

Built in the engine thread when somebody asks (`EngineClient.snapshot`), read by `app`. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.types import NamespaceKind, Priority, SessionKey


class SessionState(StrEnum):
    """Where a session's KV is meant to be. ACTIVE: a turn is being answered. DEVICE, HOST, DISK: idle, and in that tier.

        ACTIVE ⇄ DEVICE → HOST → DISK → (gone)        a new turn makes any of them ACTIVE again

    It is a lease and no pin: single pages may have left earlier, under pressure.
    """

    ACTIVE = "active"
    DEVICE = "device"
    HOST = "host"
    DISK = "disk"


class PrefixState(StrEnum):
    """A persona's prefix. BUILDING: waits or is being computed. COLD: not kept, and computed with each use."""

    BUILDING = "building"
    READY = "ready"
    COLD = "cold"


class PageState(StrEnum):
    """One page of KV memory. RUNNING: held by an answer. LEASED: kept for a session. PREFIX: a persona's. CACHED: kept while
    nobody needs the place. FREE: holds nothing."""

    FREE = "free"
    RUNNING = "running"
    LEASED = "leased"
    PREFIX = "prefix"
    CACHED = "cached"


@dataclass(frozen=True, slots=True)
class PagesByTier:
    """Pages in each tier; a page that is in two is counted in both."""

    device: int = 0
    host: int = 0
    disk: int = 0


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """One live session. Ages are in seconds; `seconds_to_timeout` is the time to the next change of `state`, None while ACTIVE
    or held. `tokens` are those committed, `cached_tokens` and `ttft_ms` those of its last turn."""

    key: SessionKey
    state: SessionState
    priority: Priority
    turns: int
    tokens: int
    pages: PagesByTier
    cached_tokens: int
    ttft_ms: float | None
    idle_s: float
    seconds_to_timeout: float | None


@dataclass(frozen=True, slots=True)
class PrefixStatus:
    """One persona's prefix. `source` is `computed` or `disk`, None before it was ready."""

    name: str
    state: PrefixState
    tokens: int
    pages: int
    source: str | None


@dataclass(frozen=True, slots=True)
class PageStatus:
    """One page of the device, for the page map."""

    state: PageState
    namespace: NamespaceKind | None


@dataclass(frozen=True, slots=True)
class TierStatus:
    """What a tier holds and may hold, in bytes; `pages` whole pages in it."""

    pages: int = 0
    used_bytes: int = 0
    limit_bytes: int = 0


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """Everything at one moment between two steps."""

    sessions: tuple[SessionStatus, ...] = ()
    prefixes: tuple[PrefixStatus, ...] = ()
    pages: tuple[PageStatus, ...] = ()
    device: TierStatus = TierStatus()
    host: TierStatus = TierStatus()
    disk: TierStatus = TierStatus()
