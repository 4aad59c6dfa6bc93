"""Traces: where the time of a request and of an answer goes, for whoever collects them. Off unless an endpoint is named.

Called by the request log, once per request, and by the dispatcher, once per answer. Off means: nothing is imported or made.
A span holds ids and numbers, and never what somebody said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from app.settings import Settings
from engine.types import Usage

STANDARD_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""OpenTelemetry's own names: one of them turns traces on as well, and its exporter reads the others."""


class TracingUnavailable(Exception):
    """Traces are wanted, and what makes them is not installed."""


class RequestSpan(Protocol):
    """One request while it is answered."""

    def answered(self, route: str, status: int) -> None:
        """Under which route, as a template, and with which HTTP status or close code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTrace:
    """One answer that has ended, and where its time went."""

    response_id: str
    status: str
    model: str | None
    accepted_at: datetime
    ended_at: datetime
    usage: Usage


class Tracing(Protocol):
    """What the application tells of itself."""

    def request(
        self, method: str, headers: Iterable[tuple[bytes, bytes]], request_id: str
    ) -> AbstractContextManager[RequestSpan]:
        """Around one request. What is accepted inside belongs to it, however long it takes."""

    def answer_ended(self, answer: AnswerTrace) -> None:
        """An answer has ended; called in the context of what it was accepted in."""

    def close(self) -> None:
        """Send what is left. Blocking."""


class NoTracing:
    """Traces are off."""

    def request(
        self, method: str, headers: Iterable[tuple[bytes, bytes]], request_id: str
    ) -> AbstractContextManager[RequestSpan]:
        """See `Tracing`."""
        return _NOTHING

    def answer_ended(self, answer: AnswerTrace) -> None:
        """See `Tracing`."""

    def close(self) -> None:
        """See `Tracing`."""


class _NoSpan:
    def answered(self, route: str, status: int) -> None:
        """See `RequestSpan`."""


_NOTHING: AbstractContextManager[RequestSpan] = nullcontext(_NoSpan())


def open_tracing(settings: Settings, environment: Mapping[str, str]) -> Tracing:
    """What the settings and OpenTelemetry's own variables ask for. Raises TracingUnavailable."""
    if not settings.otel_endpoint and not any(environment.get(name) for name in STANDARD_VARIABLES):
        return NoTracing()
    try:
        from app.operations.otel_tracing import exporting_tracing
    except ImportError as problem:
        raise TracingUnavailable(
            f"traces need packages that are not installed ({problem.name}): pip install 'kvasir-chat[otel]'"
        ) from None
    return exporting_tracing(settings.otel_endpoint)
