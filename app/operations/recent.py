"""What was measured in the last moments, for people who look now. Pure; the caller brings the time.

A histogram of Prometheus knows everything since the start; this knows the last minute, or less where very much happens.
"""

from __future__ import annotations

from collections import deque
from math import ceil

SPAN_S = 60.0
SAMPLES_MAX = 8192
"""Some seconds of tokens at the highest load, and sorted in a millisecond."""


class RecentSamples:
    """Owns the last values, the oldest go first."""

    def __init__(self, span_s: float = SPAN_S, most: int = SAMPLES_MAX) -> None:
        self._span_s = span_s
        self._samples: deque[tuple[float, float]] = deque(maxlen=most)

    def add(self, value: float, now: float) -> None:
        """One more."""
        self._samples.append((now, value))

    def quantiles(self, now: float, *ranks: float) -> list[float] | None:
        """The smallest value that this share of them does not exceed, for each rank; None where there are none."""
        while self._samples and self._samples[0][0] < now - self._span_s:
            self._samples.popleft()
        values = sorted(value for _, value in self._samples)
        return [values[max(0, ceil(rank * len(values)) - 1)] for rank in ranks] if values else None


class RecentRates:
    """How quickly totals rise: remembers them once per tick and compares now with some ticks ago."""

    def __init__(self, ticks: int) -> None:
        self._ticks: deque[tuple[float, tuple[float, ...]]] = deque(maxlen=ticks + 1)

    def tick(self, now: float, *totals: float) -> None:
        """The totals as they are."""
        self._ticks.append((now, totals))

    def increases(self) -> tuple[float, ...]:
        """How much each has risen since the oldest tick; empty before there are two."""
        if len(self._ticks) < 2:
            return ()
        (_, first), (_, last) = self._ticks[0], self._ticks[-1]
        return tuple(after - before for before, after in zip(first, last, strict=True))

    def per_second(self) -> tuple[float, ...]:
        """The same, by the second."""
        seconds = self._ticks[-1][0] - self._ticks[0][0] if len(self._ticks) > 1 else 0.0
        return tuple(increase / seconds for increase in self.increases()) if seconds > 0 else ()
