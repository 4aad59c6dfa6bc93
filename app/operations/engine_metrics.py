"""What the engine knows of itself, as metrics: read from its snapshot at the moment of a scrape.

Registered by `app.operations.metrics`. Tokens of prompts are counted once per request, when it is first admitted; a preempted one
that is admitted again counts as reprefilled and not as queried (torch-spyre/sendnn-inference#1030).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.types import Counts, EngineStats


class EngineCollector(Collector):
    """One family per number. Every label is from a closed set of the engine's own."""

    def __init__(self, engine_stats: Callable[[], EngineStats]) -> None:
        self._engine_stats = engine_stats

    def describe(self) -> Iterator[Metric]:
        # Without this the registry would collect once at registration, before there is an engine to ask.
        return iter(())

    def collect(self) -> Iterator[Metric]:
        stats = self._engine_stats()
        yield from _work(stats)
        yield from _memory(stats)
        yield from _reuse(stats)


def _work(stats: EngineStats) -> Iterator[Metric]:
    yield GaugeMetricFamily("kvasir_requests_running", "Answers being computed", stats.running_requests)
    yield GaugeMetricFamily("kvasir_requests_waiting", "Answers waiting in the engine", stats.waiting_requests)
    yield GaugeMetricFamily(
        "kvasir_requests_waiting_tokens", "Prompt tokens of the answers waiting in the engine", stats.waiting_tokens
    )
    yield _counted(
        "kvasir_requests_waiting_by_priority", "Answers waiting, by class", "priority", stats.waiting_by_priority
    )
    yield GaugeMetricFamily(
        "kvasir_step_prompt_tokens",
        "Most prompt tokens that fitted beside the answers of the last step",
        stats.step_prompt_tokens,
    )
    yield CounterMetricFamily(
        "kvasir_batch_windows", "Times an idle engine waited for company", stats.batch_windows_total
    )
    yield CounterMetricFamily("kvasir_preemptions", "Answers put back into the queue", stats.preemptions_total)
    yield CounterMetricFamily("kvasir_engine_steps", "Steps of the engine", stats.steps_total)
    yield CounterMetricFamily("kvasir_prefilled_tokens", "Prompt tokens computed", stats.prefilled_tokens_total)
    yield CounterMetricFamily("kvasir_decoded_tokens", "Tokens sampled", stats.decoded_tokens_total)
    yield CounterMetricFamily("kvasir_drafted_tokens", "Tokens guessed ahead", stats.drafted_tokens_total)
    yield CounterMetricFamily(
        "kvasir_accepted_tokens", "Tokens guessed ahead that became part of an answer", stats.accepted_tokens_total
    )
    yield CounterMetricFamily(
        "kvasir_engine_stalls", "Times work waited while the engine idled: each is a bug", stats.stalls_total
    )


def _memory(stats: EngineStats) -> Iterator[Metric]:
    pages = GaugeMetricFamily("kvasir_pages", "Pages of KV, 16 tokens each", labels=("tier", "state"))
    for tier, state, count in stats.pages:
        pages.add_metric((tier, state), count)
    yield pages
    used = GaugeMetricFamily("kvasir_tier_bytes", "Bytes of KV in a tier", labels=("tier",))
    limits = GaugeMetricFamily("kvasir_tier_limit_bytes", "Bytes a tier may hold; 0 is off", labels=("tier",))
    for tier, used_bytes, limit_bytes in stats.tier_bytes:
        used.add_metric((tier,), used_bytes)
        limits.add_metric((tier,), limit_bytes)
    yield used
    yield limits
    yield _counted("kvasir_session_leases", "Live sessions", "state", stats.sessions)
    yield CounterMetricFamily(
        "kvasir_session_expired", "Sessions that nobody came back to in time", stats.sessions_expired_total
    )
    yield _counted("kvasir_prefixes", "Personas' prompts", "state", stats.prefixes)
    yield CounterMetricFamily(
        "kvasir_restore_verify_failures",
        "Pages that came back from a tier damaged, and were computed again",
        stats.restore_verify_failures_total,
    )
    yield CounterMetricFamily(
        "kvasir_transfers_timed_out", "Reads and writes of a tier that took too long", stats.transfers_timed_out_total
    )


def _reuse(stats: EngineStats) -> Iterator[Metric]:
    yield GaugeMetricFamily("kvasir_prefix_cache_enabled", "1 where earlier turns are used again", int(stats.reuse))
    yield CounterMetricFamily(
        "kvasir_prefix_cache_queries", "Prompt tokens that were looked up", stats.prefix_tokens_queried_total
    )
    hits = CounterMetricFamily(
        "kvasir_prefix_cache_hits", "Prompt tokens that were found, by where", labels=("source",)
    )
    for source in ("device", "host", "disk", "prefix"):
        hits.add_metric((source,), getattr(stats.prefix_tokens_hit, source))
    yield hits
    reprefilled = CounterMetricFamily(
        "kvasir_reprefill_tokens", "Prompt tokens that were not found, by why", labels=("reason",)
    )
    for reason, tokens in stats.reprefill_tokens_total:
        reprefilled.add_metric((reason,), tokens)
    yield reprefilled


def _counted(name: str, help_text: str, label: str, counts: Counts) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=(label,))
    for value, count in counts:
        family.add_metric((value,), count)
    return family
