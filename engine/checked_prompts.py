"""Prompts that were counted and are about to be submitted, so that nobody's words are encoded twice.

Used by `engine.local`, on the event loop. Pure. It hands a prompt only to the very request it was made for.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from engine.types import GenerationRequest, RequestId

if TYPE_CHECKING:
    from engine.prompts import Prompt

MAX_TOKENS: Final = 65_536
"""About two megabytes. Between counting and submitting lie milliseconds, so few are here at once."""


class CheckedPrompts:
    """Owns the latest ones, the oldest leaving first. What has left is encoded once more."""

    def __init__(self, max_tokens: int = MAX_TOKENS) -> None:
        self._max_tokens = max_tokens
        self._kept: OrderedDict[RequestId, tuple[GenerationRequest, Prompt]] = OrderedDict()
        self.num_tokens = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, request: GenerationRequest, prompt: Prompt) -> None:
        """In the place of what the same id had before."""
        self._leave(request.request_id)
        self._kept[request.request_id] = (request, prompt)
        self.num_tokens += len(prompt.ids)
        while self.num_tokens > self._max_tokens:
            self._leave(next(iter(self._kept)))

    def take(self, request: GenerationRequest) -> Prompt | None:
        """The prompt of this request, once. Another one of the same id gets nothing."""
        kept = self._leave(request.request_id)
        return kept[1] if kept is not None and kept[0] is request else None

    def _leave(self, request_id: RequestId) -> tuple[GenerationRequest, Prompt] | None:
        kept = self._kept.pop(request_id, None)
        if kept is not None:
            self.num_tokens -= len(kept[1].ids)
        return kept
