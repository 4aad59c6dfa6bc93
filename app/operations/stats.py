"""One snapshot of the whole server for administrators, and the same once a second for as long as somebody watches.

What it says of pages and sessions the engine's thread puts together between two steps; the rest are counters. One is made per
second, however many ask. It holds numbers and nothing that anybody said.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from app.clock import Monotonic, Now
from app.engine_view import EngineView
from app.operations.health import Readiness
from app.operations.metrics import Metrics
from app.operations.page_map import page_map
from app.operations.recent import RecentRates, RecentSamples
from engine.client import EngineClient
from engine.errors import EngineNotReady
from engine.snapshot import EngineSnapshot
from engine.types import EngineState

TICK_S = 1.0
RATE_TICKS = 5
HIT_TICKS = 60
FRESH_S = 0.9
"""A little less than a second, so that who asks once a second gets a new one each time."""


class Quantiles(msgspec.Struct, frozen=True):
    """Of the last minute, in milliseconds; null where nothing was measured."""

    p50: float | None
    p99: float | None

    @classmethod
    def of(cls, samples: RecentSamples, now: float) -> Quantiles:
        found = samples.quantiles(now, 0.5, 0.99)
        return cls(None, None) if found is None else cls(*(round(value * 1000, 3) for value in found))


class QueueStats(msgspec.Struct, frozen=True):
    """Answers that wait in the engine."""

    waiting: int
    waiting_tokens: int
    by_priority: dict[str, int]


class RateStats(msgspec.Struct, frozen=True):
    """Tokens a second, over the last five."""

    prefill: float
    decode: float


class HitStats(msgspec.Struct, frozen=True):
    """Tokens of prompts that were looked up and found. `rate` is that of the last minute, null where nothing was looked up."""

    rate: float | None
    queried_tokens: int
    hit_tokens: dict[str, int]


class PageCount(msgspec.Struct, frozen=True):
    """Pages of a tier in a state. `namespace` is `user` or `public`, null where it is not known or there is none."""

    tier: str
    state: str
    namespace: str | None
    pages: int


class TierStats(msgspec.Struct, frozen=True):
    """A limit of 0 is a tier that is off."""

    used_bytes: int
    limit_bytes: int


class StatsBody(msgspec.Struct, frozen=True, kw_only=True):
    """The server at one moment."""

    taken_at: datetime
    uptime_s: float
    state: EngineState
    is_drained: Annotated[bool, Meta(description="An administrator has stopped new answers (`admin/drain`)")]
    model: str | None
    queue: QueueStats
    running: int
    tokens_per_s: RateStats
    ttft_ms: Quantiles
    inter_token_ms: Quantiles
    event_loop_lag_ms: Quantiles
    hits: HitStats
    pages: list[PageCount]
    page_map: Annotated[
        str,
        Meta(
            description="Every page of the device in its order: runs like 12f3R; f free, r running, l leased, p prefix,"
            " c cached; capitals are the public namespace's"
        ),
    ]
    tiers: dict[str, TierStats]
    sessions: dict[str, int]
    prefixes: dict[str, int]
    sockets: int
    event_streams: int
    preemptions: int


class StatsFeed:
    """Owns the last snapshot and what rates are made of. `tick_forever` runs for the life of the application."""

    def __init__(
        self,
        engine: EngineClient,
        view: EngineView,
        metrics: Metrics,
        connections: Callable[[], tuple[int, int]],
        readiness: Readiness,
        *,
        monotonic: Monotonic,
        now: Now,
    ) -> None:
        self._engine = engine
        self._view = view
        self._metrics = metrics
        self._connections = connections
        self._readiness = readiness
        self._monotonic = monotonic
        self._now = now
        self._began_s = monotonic()
        self._tokens = RecentRates(RATE_TICKS)
        self._hits = RecentRates(HIT_TICKS)
        self._lock = asyncio.Lock()
        self._last: StatsBody | None = None
        self._encoded = b""
        self._made_at_s = 0.0

    async def tick_forever(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Remember the totals once a second, until cancelled."""
        while True:
            self.tick()
            await sleep(TICK_S)

    def tick(self) -> None:
        """Remember the totals as they are."""
        stats, now = self._engine.stats(), self._monotonic()
        self._tokens.tick(now, stats.prefilled_tokens_total, stats.decoded_tokens_total)
        self._hits.tick(now, stats.prefix_tokens_queried_total, stats.prefix_tokens_hit.total)

    async def latest(self) -> StatsBody:
        """The server now, at most a second old."""
        async with self._lock:
            if self._last is None or self._monotonic() - self._made_at_s >= FRESH_S:
                self._last = await self._make()
                self._encoded = msgspec.json.encode(self._last)
                self._made_at_s = self._monotonic()
            return self._last

    async def encoded(self) -> bytes:
        """The same as JSON, encoded once for everybody."""
        await self.latest()
        return self._encoded

    async def _make(self) -> StatsBody:
        try:
            snapshot = await self._view.snapshot()
        except EngineNotReady:
            snapshot = EngineSnapshot()
        # Tens of thousands of pages: in a thread, so that no stream waits for it.
        drawn, counts = await asyncio.to_thread(_pages, snapshot)
        stats, now = self._engine.stats(), self._monotonic()
        model = self._engine.model
        prefill, decode = self._tokens.per_second() or (0.0, 0.0)
        queried, hit = self._hits.increases() or (0.0, 0.0)
        source = stats.prefix_tokens_hit
        sockets, event_streams = self._connections()
        return StatsBody(
            taken_at=self._now(),
            uptime_s=round(now - self._began_s, 1),
            state=self._engine.state,
            is_drained=self._readiness.is_paused,
            model=None if model is None else model.name,
            queue=QueueStats(stats.waiting_requests, stats.waiting_tokens, dict(stats.waiting_by_priority)),
            running=stats.running_requests,
            tokens_per_s=RateStats(round(prefill, 1), round(decode, 1)),
            ttft_ms=Quantiles.of(self._metrics.recent_ttft_s, now),
            inter_token_ms=Quantiles.of(self._metrics.recent_inter_token_s, now),
            event_loop_lag_ms=Quantiles.of(self._metrics.recent_loop_lag_s, now),
            hits=HitStats(
                round(hit / queried, 4) if queried else None,
                stats.prefix_tokens_queried_total,
                {"device": source.device, "host": source.host, "disk": source.disk, "prefix": source.prefix},
            ),
            pages=[
                *counts,
                *(PageCount(tier, state, None, count) for tier, state, count in stats.pages if tier != "device"),
            ],
            page_map=drawn,
            tiers={tier: TierStats(used, limit) for tier, used, limit in stats.tier_bytes},
            sessions=dict(stats.sessions),
            prefixes=dict(stats.prefixes),
            sockets=sockets,
            event_streams=event_streams,
            preemptions=stats.preemptions_total,
        )


def _pages(snapshot: EngineSnapshot) -> tuple[str, list[PageCount]]:
    counted = Counter((page.state, page.namespace) for page in snapshot.pages)
    counts = [
        PageCount("device", state.value, None if namespace is None else namespace.value, count)
        for (state, namespace), count in sorted(counted.items(), key=str)
    ]
    return page_map(snapshot.pages), counts
