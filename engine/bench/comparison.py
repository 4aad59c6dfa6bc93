"""One idea switched off and on, and what was claimed of it. Pure: numbers go in, a verdict comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from engine.bench.samples import spread


@dataclass(frozen=True, slots=True)
class Claim:
    """`text` as it was claimed; `value` is what was measured of it, in words, and `holds` whether it is so."""

    text: str
    value: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same work without and with an idea: what was measured, in `unit`, once a repeat."""

    idea: str
    what: str
    unit: str
    without_name: str
    without: Sequence[float]
    with_name: str
    with_it: Sequence[float]
    more_is_better: bool
    claim: Claim | None = None

    @property
    def times_better(self) -> float:
        """The medians as a ratio; above 1 the idea helps."""
        off, on = median(self.without), median(self.with_it)
        better, worse = (on, off) if self.more_is_better else (off, on)
        return better / worse if worse else 0.0

    def as_json(self) -> dict[str, Any]:
        """Every repeat, the medians, and the verdict."""
        return {
            "idea": self.idea,
            "what": self.what,
            "unit": self.unit,
            "without": _side(self.without_name, self.without),
            "with": _side(self.with_name, self.with_it),
            "times_better": round(self.times_better, 3),
            "claim": self.claim and {"text": self.claim.text, "measured": self.claim.value, "holds": self.claim.holds},
        }


def _side(name: str, values: Sequence[float]) -> dict[str, Any]:
    return {
        "name": name,
        "median": round(median(values), 3),
        "spread": round(spread(values), 3),
        "all": [round(value, 3) for value in values],
    }
