"""What an answer cost, as REST shows it. It is stored in the same form, with the message and with its response."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta


class CachedFromBody(msgspec.Struct, frozen=True):
    """Where the KV of `cached_tokens` came from; `prefix` is a persona's, in whichever tier."""

    device: int = 0
    host: int = 0
    disk: int = 0
    prefix: int = 0


class UsageBody(msgspec.Struct, frozen=True):
    """Times in milliseconds; null where they were never reached. What an older version did not count yet is 0."""

    input_tokens: int = 0
    cached_tokens: Annotated[int, Meta(description="Tokens of the prompt that were not computed again")] = 0
    output_tokens: int = 0
    queue_ms: float | None = None
    prefill_ms: float | None = None
    ttft_ms: float | None = None
    decode_ms: float | None = None
    cached_from: CachedFromBody = CachedFromBody()
    dropped_turns: Annotated[
        int, Meta(description="Oldest turns that were left out of the prompt, because the context is full")
    ] = 0

    @classmethod
    def of(cls, stored: dict[str, Any] | None) -> UsageBody | None:
        """The stored form of an answer that has ended."""
        return None if stored is None else msgspec.convert(stored, cls)
