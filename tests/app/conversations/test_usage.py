"""What an answer cost, read from what is stored."""

from __future__ import annotations

from typing import Any

import msgspec

from app.conversations.models import MessageStatus
from app.conversations.usage import CachedFromBody, UsageBody
from app.responses.outcome import stopped
from engine.types import CachedFrom, Usage


def test_what_is_stored_now_is_shown_as_it_is() -> None:
    cached_from = CachedFrom(device=3, prefix=16)
    usage = Usage(40, cached_tokens=19, output_tokens=7, ttft_ms=2.5, cached_from=cached_from, dropped_turns=4)
    stored: dict[str, Any] = stopped(MessageStatus.CANCELLED, usage).usage_body
    assert msgspec.to_builtins(UsageBody.of(stored)) == stored


def test_what_an_older_version_did_not_count_is_zero() -> None:
    body = UsageBody.of({"input_tokens": 9, "output_tokens": 2, "cached_tokens": 0, "queue_ms": None})
    assert body == UsageBody(input_tokens=9, output_tokens=2, cached_from=CachedFromBody(), dropped_turns=0)


def test_an_answer_that_has_not_ended_has_none() -> None:
    assert UsageBody.of(None) is None
