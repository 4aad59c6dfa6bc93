"""The numbers of `/metrics`: each is checked against what was reported, in the text that Prometheus reads."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.operations.loop_lag import SAMPLE_S, watch_event_loop
from app.operations.metrics import Metrics
from engine.types import CachedFrom, EngineState, EngineStats, Finished, FinishReason, RequestId, TextDelta, Usage


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


STATS = EngineStats(
    EngineState.READY,
    running_requests=3,
    waiting_requests=2,
    waiting_tokens=700,
    preemptions_total=4,
    waiting_by_priority=(("interactive", 2), ("background", 0)),
    step_prompt_tokens=96,
    batch_windows_total=6,
    drafted_tokens_total=50,
    accepted_tokens_total=30,
    pages=(("device", "running", 40), ("device", "free", 60), ("disk", "leased", 7)),
    tier_bytes=(("device", 400, 1000), ("host", 0, 0)),
    prefix_tokens_queried_total=900,
    prefix_tokens_hit=CachedFrom(device=500, host=100, disk=30, prefix=64),
    reprefill_tokens_total=(("cold", 150), ("evicted", 56)),
    sessions=(("active", 2), ("disk", 9)),
    sessions_expired_total=5,
    prefixes=(("ready", 1),),
    restore_verify_failures_total=1,
    transfers_timed_out_total=2,
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> Metrics:
    return Metrics(lambda: STATS, clock)


def samples(metrics: Metrics) -> dict[str, float]:
    """`name{label=value}` to number, as a scraper sees them."""
    found = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()) if key != "le")
            if not sample.name.endswith("_bucket"):
                found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


def test_the_engines_snapshot_is_read_when_somebody_asks(metrics: Metrics) -> None:
    seen = samples(metrics)
    assert seen["kvasir_requests_running"] == 3
    assert seen["kvasir_requests_waiting"] == 2
    assert seen["kvasir_requests_waiting_tokens"] == 700
    assert seen["kvasir_requests_waiting_by_priority{priority=interactive}"] == 2
    assert seen["kvasir_requests_waiting_by_priority{priority=background}"] == 0
    assert seen["kvasir_step_prompt_tokens"] == 96
    assert seen["kvasir_batch_windows_total"] == 6
    assert seen["kvasir_preemptions_total"] == 4
    assert (seen["kvasir_drafted_tokens_total"], seen["kvasir_accepted_tokens_total"]) == (50, 30)


def test_memory_is_told_by_tier_and_by_what_holds_it(metrics: Metrics) -> None:
    seen = samples(metrics)
    assert seen["kvasir_pages{state=running,tier=device}"] == 40
    assert seen["kvasir_pages{state=free,tier=device}"] == 60
    assert seen["kvasir_pages{state=leased,tier=disk}"] == 7
    assert (seen["kvasir_tier_bytes{tier=device}"], seen["kvasir_tier_limit_bytes{tier=device}"]) == (400, 1000)
    assert seen["kvasir_tier_limit_bytes{tier=host}"] == 0
    assert (seen["kvasir_session_leases{state=active}"], seen["kvasir_session_leases{state=disk}"]) == (2, 9)
    assert seen["kvasir_session_expired_total"] == 5
    assert seen["kvasir_prefixes{state=ready}"] == 1
    assert (seen["kvasir_restore_verify_failures_total"], seen["kvasir_transfers_timed_out_total"]) == (1, 2)


def test_reuse_is_counted_in_tokens_with_where_from_and_why_not(metrics: Metrics) -> None:
    seen = samples(metrics)
    assert seen["kvasir_prefix_cache_enabled"] == 1
    assert seen["kvasir_prefix_cache_queries_total"] == 900
    hits = {
        source: seen[f"kvasir_prefix_cache_hits_total{{source={source}}}"]
        for source in ("device", "host", "disk", "prefix")
    }
    assert hits == {"device": 500, "host": 100, "disk": 30, "prefix": 64}
    assert seen["kvasir_reprefill_tokens_total{reason=cold}"] == 150
    assert seen["kvasir_reprefill_tokens_total{reason=evicted}"] == 56


def test_reuse_that_is_off_is_a_number_too() -> None:
    """ggml-org/llama.cpp#21831: a flag was accepted, and did nothing."""
    assert samples(Metrics(lambda: EngineStats(EngineState.READY, reuse=False)))["kvasir_prefix_cache_enabled"] == 0


def test_nothing_is_asked_of_the_engine_before_the_first_scrape() -> None:
    def not_yet() -> EngineStats:
        raise AssertionError("asked at registration")

    Metrics(not_yet)


def test_time_between_tokens_is_shared_among_the_tokens_of_one_piece_of_text(metrics: Metrics, clock: Clock) -> None:
    request = RequestId("r1")
    metrics.engine_events([TextDelta(request, "a", 1)])
    clock.now += 0.2
    metrics.engine_events([TextDelta(request, "b", 2)])
    clock.now += 0.6
    metrics.engine_events([TextDelta(request, "c", 5)])
    seen = samples(metrics)
    assert seen["kvasir_inter_token_latency_seconds_count"] == 4
    assert seen["kvasir_inter_token_latency_seconds_sum"] == pytest.approx(0.8)


def test_a_finished_request_gives_its_times_and_tokens_and_is_forgotten(metrics: Metrics, clock: Clock) -> None:
    request = RequestId("r1")
    usage = Usage(input_tokens=40, output_tokens=7, queue_ms=10, prefill_ms=200, ttft_ms=250, decode_ms=1500)
    metrics.engine_events([TextDelta(request, "a", 1), Finished(request, FinishReason.STOP, usage)])
    clock.now += 5
    metrics.engine_events([TextDelta(request, "another request with the same id", 1)])
    seen = samples(metrics)
    assert seen["kvasir_time_to_first_token_seconds_sum"] == pytest.approx(0.25)
    assert seen["kvasir_request_queue_time_seconds_sum"] == pytest.approx(0.01)
    assert seen["kvasir_request_prefill_time_seconds_sum"] == pytest.approx(0.2)
    assert seen["kvasir_request_decode_time_seconds_sum"] == pytest.approx(1.5)
    assert seen["kvasir_prompt_tokens_total"] == 40
    assert seen["kvasir_generation_tokens_total"] == 7
    assert seen["kvasir_inter_token_latency_seconds_count"] == 0


def test_times_that_were_never_reached_are_not_counted_as_zero(metrics: Metrics) -> None:
    metrics.engine_events([Finished(RequestId("r"), FinishReason.CANCELLED, Usage(input_tokens=9, queue_ms=5))])
    seen = samples(metrics)
    assert seen["kvasir_request_queue_time_seconds_count"] == 1
    assert seen["kvasir_time_to_first_token_seconds_count"] == 0
    assert seen["kvasir_request_decode_time_seconds_count"] == 0


def test_answers_sockets_refusals_and_requests_are_counted(metrics: Metrics) -> None:
    metrics.response_ended("completed", 2.5)
    metrics.rejected("queue_full")
    metrics.socket_opened()
    metrics.socket_opened()
    metrics.socket_closed()
    metrics.http_request("GET", "/api/v1/conversations/{id}", 200)
    metrics.event_loop_lagged(0.004)
    seen = samples(metrics)
    assert seen["kvasir_responses_total{status=completed}"] == 1
    assert seen["kvasir_e2e_request_latency_seconds_sum"] == 2.5
    assert seen["kvasir_rejections_total{reason=queue_full}"] == 1
    assert seen["kvasir_sockets"] == 1
    assert seen["kvasir_http_requests_total{method=GET,path=/api/v1/conversations/{id},status=200}"] == 1
    assert seen["kvasir_event_loop_lag_seconds_sum"] == pytest.approx(0.004)


def test_an_invented_method_cannot_multiply_the_series(metrics: Metrics) -> None:
    for invented in ("BREW", "POKE", "A" * 50):
        metrics.http_request(invented, "(no route)", 405)
    seen = samples(metrics)
    assert seen["kvasir_http_requests_total{method=other,path=(no route),status=405}"] == 3


def test_two_apps_in_one_process_do_not_share_their_numbers() -> None:
    one, other = Metrics(lambda: STATS), Metrics(lambda: STATS)
    one.socket_opened()
    assert samples(other)["kvasir_sockets"] == 0


async def test_the_loops_lag_is_what_a_timer_was_late() -> None:
    clock = Clock()
    lags: list[float] = []

    async def late_by_30_ms(seconds: float) -> None:
        if len(lags) == 2:
            raise asyncio.CancelledError
        clock.now += seconds + 0.03

    with pytest.raises(asyncio.CancelledError):
        await watch_event_loop(lags.append, late_by_30_ms, clock)
    assert lags == pytest.approx([0.03, 0.03])
    assert SAMPLE_S > 0


PROMISED = {
    "time to first token": ("kvasir_time_to_first_token_seconds", "histogram"),
    "inter-token": ("kvasir_inter_token_latency_seconds", "histogram"),
    "queue seconds": ("kvasir_request_queue_time_seconds", "histogram"),
    "prefill seconds": ("kvasir_request_prefill_time_seconds", "histogram"),
    "decode seconds": ("kvasir_request_decode_time_seconds", "histogram"),
    "end to end": ("kvasir_e2e_request_latency_seconds", "histogram"),
    "running": ("kvasir_requests_running", "gauge"),
    "waiting": ("kvasir_requests_waiting", "gauge"),
    "pages by tier": ("kvasir_pages", "gauge"),
    "prefix tokens queried": ("kvasir_prefix_cache_queries", "counter"),
    "prefix tokens hit by source": ("kvasir_prefix_cache_hits", "counter"),
    "preemptions": ("kvasir_preemptions", "counter"),
    "rejections by reason": ("kvasir_rejections", "counter"),
    "sockets": ("kvasir_sockets", "gauge"),
    "event-loop lag": ("kvasir_event_loop_lag_seconds", "histogram"),
}


@pytest.mark.parametrize("promise", PROMISED)
def test_every_promised_number_is_there_in_prometheus_style(metrics: Metrics, promise: str) -> None:
    metrics.rejected("queue_full")
    families = {family.name: family for family in text_string_to_metric_families(metrics.exposition().decode())}
    name, kind = PROMISED[promise]
    assert families[name].type == kind
    assert families[name].documentation
    labels = {label for sample in families[name].samples for label in sample.labels}
    wanted = {
        "kvasir_pages": {"tier", "state"},
        "kvasir_prefix_cache_hits": {"source"},
        "kvasir_rejections": {"reason"},
    }
    assert labels - {"le"} == wanted.get(name, set())
