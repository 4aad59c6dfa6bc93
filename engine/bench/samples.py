"""Repeats of one measurement: their median and how far they lie apart. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median


def spread(values: Sequence[float]) -> float:
    """How far the repeats lie apart, as a share of their median: (max - min) / median."""
    middle = median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which so large a share of them lies, by the nearest rank; of nothing it is 0."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]
