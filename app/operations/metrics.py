"""The numbers of `/metrics`: what is counted, in which units, and from where.

Made once per app and held by its context. Callers report what happened, at the moment it happened:

    metrics.engine_events(events)               the engine's listener, once per step, with that step's events
    metrics.response_ended(status, seconds)     whoever writes an answer's end: its MessageStatus, and the time since accepted
    metrics.rejected(reason)                    whoever refuses an answer: queue_full, queue_tokens_full, draining …
    metrics.socket_opened() / socket_closed()   the connection
    metrics.http_request(method, path, status)  the request log
    metrics.event_loop_lagged(seconds)          the loop's watch
    metrics.conversation_removed(reason, …)     retention, with what was freed

What `admin/stats` tells of the last minute is kept beside (`recent_…`). What the engine knows by itself is read from its snapshot
when somebody asks (`engine_metrics`). It must never carry a label whose values users can multiply: no user, no conversation, no
raw path. Called on the event loop only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from app.operations.engine_metrics import EngineCollector
from app.operations.recent import RecentSamples
from engine.snapshot import PagesByTier
from engine.types import EngineEvent, EngineStats, Finished, RequestId, TextDelta, Usage

CONTENT_TYPE = CONTENT_TYPE_LATEST

# From what a GPU does at best to what a queue on a small CPU does at worst.
SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
LONG_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})


class Metrics:
    """Owns one registry. `engine_stats` gives the engine's snapshot; `clock` is monotonic, in seconds."""

    def __init__(self, engine_stats: Callable[[], EngineStats], clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self.recent_ttft_s = RecentSamples()
        self.recent_inter_token_s = RecentSamples()
        self.recent_loop_lag_s = RecentSamples()
        self._last_text: dict[RequestId, tuple[float, int]] = {}
        self._time_to_first_token = self._histogram(
            "time_to_first_token_seconds", "From the engine taking a request to its first token", LONG_SECONDS
        )
        self._inter_token_latency = self._histogram(
            "inter_token_latency_seconds", "Between two tokens of one answer, as they leave the engine", SHORT_SECONDS
        )
        self._queue_time = self._histogram(
            "request_queue_time_seconds", "From the engine taking a request to its first step", LONG_SECONDS
        )
        self._prefill_time = self._histogram(
            "request_prefill_time_seconds", "From the first step to the whole prompt computed", LONG_SECONDS
        )
        self._decode_time = self._histogram(
            "request_decode_time_seconds", "From the first token to the last", LONG_SECONDS
        )
        self._e2e_latency = self._histogram(
            "e2e_request_latency_seconds", "From the message being accepted to its answer being stored", LONG_SECONDS
        )
        self._prompt_tokens = self._counter("prompt_tokens_total", "Tokens of the prompts of ended answers")
        self._generation_tokens = self._counter("generation_tokens_total", "Tokens of ended answers")
        self._responses = self._counter("responses_total", "Ended answers by how they ended", "status")
        self._rejections = self._counter("rejections_total", "Answers refused before they were queued", "reason")
        self._http_requests = self._counter("http_requests_total", "HTTP requests by route", "method", "path", "status")
        self._removed_conversations = self._counter(
            "retention_conversations_total", "Conversations removed because their time was over", "reason"
        )
        self._removed_messages = self._counter("retention_messages_total", "Messages removed with them")
        self._removed_text = self._counter("retention_text_characters_total", "Characters of their texts")
        self._removed_logs = self._counter("retention_log_bytes_total", "Bytes of their event logs")
        self._removed_pages = self._counter("retention_kv_pages_total", "Pages of KV the engine kept of them", "tier")
        self._sockets = Gauge("kvasir_sockets", "Open WebSockets", registry=self.registry)
        self._loop_lag = self._histogram(
            "event_loop_lag_seconds", "How late the event loop was for a timer, sampled all the time", SHORT_SECONDS
        )
        self.registry.register(EngineCollector(engine_stats))

    def engine_events(self, events: Sequence[EngineEvent]) -> None:
        """One step's events, in order. Every request ends with a `Finished`, so nothing is remembered for ever."""
        now = self._clock()
        for event in events:
            if isinstance(event, TextDelta):
                self._text_arrived(event, now)
            elif isinstance(event, Finished):
                self._last_text.pop(event.request_id, None)
                self._request_finished(event.usage)

    def response_ended(self, status: str, seconds: float) -> None:
        """An answer has reached its end, `seconds` after its message was accepted."""
        self._responses.labels(status).inc()
        self._e2e_latency.observe(seconds)

    def rejected(self, reason: str) -> None:
        """An answer was refused. `reason` is from a closed set of codes."""
        self._rejections.labels(reason).inc()

    def socket_opened(self) -> None:
        """A WebSocket was accepted."""
        self._sockets.inc()

    def socket_closed(self) -> None:
        """A WebSocket that was accepted is closed."""
        self._sockets.dec()

    def http_request(self, method: str, path: str, status: int) -> None:
        """One HTTP request was answered. `path` is the route's template, never the path that was asked for."""
        self._http_requests.labels(method if method in KNOWN_METHODS else "other", path, str(status)).inc()

    def conversation_removed(
        self, reason: str, *, messages: int, text_chars: int, log_bytes: int, pages: PagesByTier
    ) -> None:
        """A conversation whose time was over is gone, and all this with it."""
        self._removed_conversations.labels(reason).inc()
        self._removed_messages.inc(messages)
        self._removed_text.inc(text_chars)
        self._removed_logs.inc(log_bytes)
        for tier, count in (("device", pages.device), ("host", pages.host), ("disk", pages.disk)):
            self._removed_pages.labels(tier).inc(count)

    def event_loop_lagged(self, seconds: float) -> None:
        """One sample of how late a timer fired."""
        self._loop_lag.observe(seconds)
        self.recent_loop_lag_s.add(seconds, self._clock())

    def exposition(self) -> bytes:
        """All of it in Prometheus' text format, to be sent as CONTENT_TYPE."""
        return generate_latest(self.registry)

    def _text_arrived(self, event: TextDelta, now: float) -> None:
        before = self._last_text.get(event.request_id)
        self._last_text[event.request_id] = (now, event.output_tokens)
        if before is None:
            return
        then, tokens_before = before
        new_tokens = event.output_tokens - tokens_before
        for _ in range(new_tokens):
            # Text may stand for several tokens (half a character waits for its other half): their time is shared out.
            self._inter_token_latency.observe((now - then) / new_tokens)
            self.recent_inter_token_s.add((now - then) / new_tokens, now)

    def _request_finished(self, usage: Usage) -> None:
        for milliseconds, histogram in (
            (usage.ttft_ms, self._time_to_first_token),
            (usage.queue_ms, self._queue_time),
            (usage.prefill_ms, self._prefill_time),
            (usage.decode_ms, self._decode_time),
        ):
            if milliseconds is not None:
                histogram.observe(milliseconds / 1000)
        if usage.ttft_ms is not None:
            self.recent_ttft_s.add(usage.ttft_ms / 1000, self._clock())
        self._prompt_tokens.inc(usage.input_tokens)
        self._generation_tokens.inc(usage.output_tokens)

    def _histogram(self, name: str, help_text: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(f"kvasir_{name}", help_text, buckets=buckets, registry=self.registry)

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(f"kvasir_{name}", help_text, labels, registry=self.registry)
