"""How quick a tier has been lately, for the decision whether to fetch or to compute. Pure."""

from __future__ import annotations

from typing import Final

NEW_SHARE: Final = 0.2
"""How much the newest measurement counts: ten of them have replaced what was before almost wholly."""


LEAST_BYTES: Final = 1 << 20
"""Of fewer bytes the time is that of asking, not of carrying: a single small page would make the disk look slow for good."""


class Rate:
    """A moving average of bytes a second."""

    def __init__(self) -> None:
        self.bytes_per_s: float | None = None
        """None before anything was measured."""

    def measure(self, num_bytes: int, seconds: float) -> None:
        """So much took so long. What is small, or took no measurable time, says nothing."""
        if seconds <= 0 or num_bytes < LEAST_BYTES:
            return
        rate = num_bytes / seconds
        self.bytes_per_s = (
            rate if self.bytes_per_s is None else self.bytes_per_s + NEW_SHARE * (rate - self.bytes_per_s)
        )

    def seconds(self, num_bytes: int) -> float:
        """How long so much will take; nothing, while nobody knows."""
        return num_bytes / self.bytes_per_s if self.bytes_per_s else 0.0
