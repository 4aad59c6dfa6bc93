"""What the index has of a prompt: made by `engine.prefix_cache`, used by `engine.scheduler`. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from engine.cached_page import CachedPage
from engine.config import PAGE_TOKENS


@dataclass(frozen=True, slots=True)
class PrefixMatch:
    """Whole pages from the prompt's beginning, then `tail_tokens` tokens of the page `tail`."""

    pages: tuple[CachedPage, ...] = ()
    tail: CachedPage | None = None
    tail_tokens: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.pages) * PAGE_TOKENS + self.tail_tokens
