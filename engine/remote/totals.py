"""What the remote engine counts for `/metrics`: what passed through it, and nothing that only the cluster knows. Pure.

Pages, tiers, steps and threads are the cluster's, and stay empty here: its own metrics have them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.types import CachedFrom, Counts, EngineEvent, EngineState, EngineStats, Finished, RequestId, TextDelta


@dataclass(slots=True)
class Totals:
    """Owns the counters. Tokens of an answer are counted as they come, those of a prompt at its end, when they are known."""

    prefilled: int = 0
    decoded: int = 0
    queried: int = 0
    cached: int = 0
    _decoded_of: dict[RequestId, int] = field(default_factory=dict)

    def count(self, event: EngineEvent) -> None:
        """One event on its way to the listener."""
        if isinstance(event, TextDelta):
            self.decoded += event.output_tokens - self._decoded_of.get(event.request_id, 0)
            self._decoded_of[event.request_id] = event.output_tokens
        elif isinstance(event, Finished):
            self.decoded += max(0, event.usage.output_tokens - self._decoded_of.pop(event.request_id, 0))
            if event.usage.ttft_ms is not None:
                self.queried += event.usage.input_tokens
                self.cached += event.usage.cached_tokens
                self.prefilled += event.usage.input_tokens - event.usage.cached_tokens

    def stats(
        self,
        state: EngineState,
        *,
        running: int,
        waiting: int,
        waiting_tokens: int,
        waiting_by_priority: Counts,
        sessions: Counts,
        sessions_expired: int,
        prefixes: Counts,
    ) -> EngineStats:
        """A snapshot."""
        return EngineStats(
            state,
            running_requests=running,
            waiting_requests=waiting,
            waiting_tokens=waiting_tokens,
            waiting_by_priority=waiting_by_priority,
            prefilled_tokens_total=self.prefilled,
            decoded_tokens_total=self.decoded,
            prefix_tokens_queried_total=self.queried,
            prefix_tokens_hit=CachedFrom(device=self.cached),
            sessions=sessions,
            sessions_expired_total=sessions_expired,
            prefixes=prefixes,
        )
