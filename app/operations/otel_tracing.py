"""Traces by OpenTelemetry: the only module that imports it, and imported only where traces are on.

    request ─┬─ answer ─┬─ queue
             │          ├─ prefill
             └─ …       └─ decode

An answer's spans are made when it has ended, from the times that the engine has measured, so no step of it waits for them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from importlib.metadata import version

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.operations.tracing import AnswerTrace, RequestSpan

TRACES_PATH = "/v1/traces"
SERVICE = "kvasir"


class OtelTracing:
    """Owns one provider, which hands ended spans to `processor`."""

    def __init__(self, processor: SpanProcessor) -> None:
        attributes = {"service.version": version("kvasir-chat")}
        if "OTEL_SERVICE_NAME" not in os.environ:
            attributes["service.name"] = SERVICE
        self._provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("kvasir")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def request(self, method: str, headers: Iterable[tuple[bytes, bytes]], request_id: str) -> Iterator[RequestSpan]:
        """See `Tracing`. A `traceparent` of the caller makes it part of the caller's trace."""
        carrier = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in (b"traceparent", b"tracestate")
        }
        with self._tracer.start_as_current_span(
            method,
            context=self._propagator.extract(carrier),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method, "kvasir.request_id": request_id},
            # The text of an exception may quote what somebody sent.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield _OtelRequestSpan(span, method)

    def answer_ended(self, answer: AnswerTrace) -> None:
        """See `Tracing`."""
        usage = answer.usage
        span = self._tracer.start_span(
            "answer",
            start_time=_nanoseconds(answer.accepted_at),
            attributes={
                "kvasir.response_id": answer.response_id,
                "kvasir.status": answer.status,
                "kvasir.cached_tokens": usage.cached_tokens,
                "gen_ai.request.model": answer.model or "",
                "gen_ai.usage.input_tokens": usage.input_tokens,
                "gen_ai.usage.output_tokens": usage.output_tokens,
            },
        )
        if answer.status == "failed":
            span.set_status(Status(StatusCode.ERROR))
        parent = trace.set_span_in_context(span)
        ended_at = answer.ended_at
        for name, milliseconds in (
            ("decode", usage.decode_ms),
            ("prefill", usage.prefill_ms),
            ("queue", usage.queue_ms),
        ):
            if milliseconds is not None:
                began_at = max(answer.accepted_at, ended_at - timedelta(milliseconds=milliseconds))
                part = self._tracer.start_span(name, context=parent, start_time=_nanoseconds(began_at))
                part.end(_nanoseconds(ended_at))
                ended_at = began_at
        span.end(_nanoseconds(answer.ended_at))

    def close(self) -> None:
        """See `Tracing`."""
        self._provider.shutdown()


class _OtelRequestSpan:
    def __init__(self, span: Span, method: str) -> None:
        self._span = span
        self._method = method

    def answered(self, route: str, status: int) -> None:
        """See `RequestSpan`."""
        self._span.update_name(f"{self._method} {route}")
        self._span.set_attribute("http.route", route)
        self._span.set_attribute("http.response.status_code", status)
        if status >= 500 and self._method != "WEBSOCKET":
            self._span.set_status(Status(StatusCode.ERROR))


def exporting_tracing(endpoint: str) -> OtelTracing:
    """Traces sent over OTLP: to `endpoint`, or where OpenTelemetry's own variables say."""
    exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + TRACES_PATH) if endpoint else OTLPSpanExporter()
    return OtelTracing(BatchSpanProcessor(exporter))


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1000
