"""Traces: a request, the answer it began, and where that answer's time went; nothing of it when they are off."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from app.operations import otel_tracing
from app.operations.otel_tracing import OtelTracing
from app.operations.tracing import AnswerTrace, NoTracing, TracingUnavailable, open_tracing
from app.settings import Settings
from tests.app.openai.surface import open_program
from tests.app.responses.chat import open_chat
from tests.house.source import ROOT
from tests.support.live_server import live_server
from tests.support.scripts import failing_script

SECRET = "the-parrot-is-called-Ferdinand"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def named(exporter: InMemorySpanExporter, name: str) -> ReadableSpan:
    """The last span of that name."""
    return [span for span in exporter.get_finished_spans() if span.name == name][-1]


async def test_an_answer_belongs_to_its_request_and_shows_where_its_time_went(
    tmp_path: Path, sqlite_url: str, exporter: InMemorySpanExporter
) -> None:
    tracing = OtelTracing(SimpleSpanProcessor(exporter))
    async with open_chat(tmp_path, sqlite_url, tracing=tracing) as chat:
        said = await chat.post(
            f"conversations/{chat.id}/messages", {"content": SECRET}, traceparent=PARENT, **{"X-Request-Id": "mine"}
        )
        await chat.ended(said.json()["response"]["id"])
        request = named(exporter, "POST /api/v1/conversations/{conversation_id}/messages")
        answer = named(exporter, "answer")
        assert request.attributes is not None
        assert answer.attributes is not None
        assert request.attributes["http.response.status_code"] == 202
        assert request.attributes["kvasir.request_id"] == "mine"
        assert request.parent is not None
        assert format(request.parent.trace_id, "032x") == PARENT.split("-")[1]
        assert answer.parent is not None
        assert answer.parent.span_id == request.context.span_id
        assert answer.attributes["kvasir.status"] == "completed"
        assert answer.attributes["gen_ai.usage.output_tokens"] == 5
        for name in ("queue", "prefill", "decode"):
            part = named(exporter, name)
            assert part.parent is not None
            assert part.parent.span_id == answer.context.span_id
            assert part.start_time is not None
            assert part.end_time is not None
            assert part.start_time <= part.end_time
        assert SECRET not in "".join(span.to_json() for span in exporter.get_finished_spans())


async def test_an_answer_to_a_program_belongs_to_its_request_too(
    tmp_path: Path, sqlite_url: str, exporter: InMemorySpanExporter
) -> None:
    async with open_program(tmp_path, sqlite_url, tracing=OtelTracing(SimpleSpanProcessor(exporter))) as program:
        await program.complete(SECRET)
        await program.usage()
        request, answer = named(exporter, "POST /v1/chat/completions"), named(exporter, "answer")
        assert answer.parent is not None
        assert answer.parent.span_id == request.context.span_id
        assert SECRET not in "".join(span.to_json() for span in exporter.get_finished_spans())


async def test_what_fails_is_marked_and_what_is_refused_is_not(
    tmp_path: Path, sqlite_url: str, exporter: InMemorySpanExporter
) -> None:
    async with open_chat(tmp_path, sqlite_url, tracing=OtelTracing(SimpleSpanProcessor(exporter))) as chat:
        chat.engine.queue_script(failing_script(" half"))
        await chat.ended((await chat.say("hello"))["response"]["id"])
        assert named(exporter, "answer").status.status_code is StatusCode.ERROR
        assert (await chat.http.get(f"/api/v1/conversations/{SECRET}")).status_code == 404
        refused = named(exporter, "GET /api/v1/conversations/{conversation_id}")
        assert refused.status.status_code is StatusCode.UNSET
        assert SECRET not in refused.to_json()
        assert (await chat.http.get("/nowhere")).status_code == 404
        assert named(exporter, "GET (no route)")


async def test_spans_that_wait_are_sent_when_the_server_ends(
    tmp_path: Path, sqlite_url: str, exporter: InMemorySpanExporter
) -> None:
    tracing = OtelTracing(BatchSpanProcessor(exporter, schedule_delay_millis=3_600_000))
    async with open_chat(tmp_path, sqlite_url, tracing=tracing) as chat:
        await chat.turn("hello")
    assert named(exporter, "answer")


def test_an_endpoint_turns_them_on_ours_or_opentelemetrys() -> None:
    assert isinstance(open_tracing(Settings(), {}), NoTracing)
    for settings, environment in (
        (Settings(otel_endpoint="http://127.0.0.1:1/"), {}),
        (Settings(), {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}),
    ):
        tracing = open_tracing(settings, environment)
        assert isinstance(tracing, OtelTracing)
        tracing.close()


def test_the_address_is_that_of_the_collector_with_the_path_of_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses: list[str] = []

    class Exporter(InMemorySpanExporter):
        def __init__(self, endpoint: str = "") -> None:
            super().__init__()
            addresses.append(endpoint)

    monkeypatch.setattr(otel_tracing, "OTLPSpanExporter", Exporter)
    for endpoint in ("http://collector:4318", ""):
        otel_tracing.exporting_tracing(endpoint).close()
    assert addresses == ["http://collector:4318/v1/traces", ""]


def test_without_the_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "app.operations.otel_tracing", None)
    with pytest.raises(TracingUnavailable, match=r"kvasir-chat\[otel\]"):
        open_tracing(Settings(otel_endpoint="http://127.0.0.1:1"), {})


def test_off_imports_nothing() -> None:
    code = "import sys, app.cli.serve; print([m for m in sys.modules if m.startswith('opentelemetry')])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


async def test_a_socket_is_a_request_too(tmp_path: Path, sqlite_url: str, exporter: InMemorySpanExporter) -> None:
    tracing = OtelTracing(SimpleSpanProcessor(exporter))
    async with (
        live_server(tmp_path, sqlite_url, tracing=tracing) as live,
        live.person("ann") as ann,
        ann.socket() as socket,
    ):
        await socket.end_of((await socket.say(await ann.conversation(), SECRET))["response_id"])
        answer = named(exporter, "answer")
    request = named(exporter, "WEBSOCKET /ws")
    assert answer.parent is not None
    assert answer.parent.span_id == request.context.span_id
    assert SECRET not in request.to_json()


class Broken(NoTracing):
    def answer_ended(self, answer: AnswerTrace) -> None:
        raise RuntimeError("nobody takes spans")


async def test_what_cannot_be_traced_is_answered_and_nobody_elses_answer_is_lost_with_it(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with open_program(tmp_path, sqlite_url, tracing=Broken()) as program:
        async with asyncio.timeout(5):
            answers = await asyncio.gather(program.complete("one"), program.complete("two"))
        assert all(answer["choices"][0]["message"]["content"] for answer in answers)
        assert (await program.usage())["completed"] == 2
