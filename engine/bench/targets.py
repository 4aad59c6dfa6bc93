"""Kvasir beside other engines: which rates are compared, how much faster it is to be, and whether it is. Pure.

Works on the entries of result files, its own and those of the peers' harness, which have one shape. For `kvasir bench compare`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from engine.bench.samples import spread

OURS: Final = "kvasir"
PREFILL: Final = "prefill"


@dataclass(frozen=True, slots=True)
class Cell:
    """What was measured: `prefill`, or decoding of `batch` sequences behind prompts of `context` tokens."""

    context: str
    batch: str = ""

    @property
    def title(self) -> str:
        return self.context if self.context == PREFILL else f"d{self.context} B={self.batch}"


@dataclass(slots=True)
class Engine:
    """One engine in one precision: every repeat of every cell, in tokens per second."""

    peer: str
    variant: str
    rates: dict[Cell, list[float]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.peer} {self.variant}"

    def rate(self, cell: Cell) -> float | None:
        """The median; None where it was not measured."""
        return median(self.rates[cell]) if self.rates.get(cell) else None

    def spread(self, cell: Cell) -> float:
        return spread(self.rates[cell])


@dataclass(frozen=True, slots=True)
class Target:
    """At least `ratio` times one engine, or, where none is named, times the best of all others."""

    work: str
    cell: Cell
    ratio: float
    than: str | None = None


TARGETS: Final = (
    Target("decode, 1 stream", Cell("16", "1"), 1.2, "llama.cpp Q4_0"),
    Target("decode, 1 stream", Cell("16", "1"), 2.3, "openvino int8"),
    Target("decode, 8 streams", Cell("16", "8"), 2.0, "openvino int8"),
    Target("decode, 32 streams", Cell("16", "32"), 1.5, "openvino int8"),
    Target("decode at 512 tokens, 1 stream", Cell("512", "1"), 1.3),
    Target("decode at 512 tokens, 8 streams", Cell("512", "8"), 1.7),
    Target("decode at 512 tokens, 32 streams", Cell("512", "32"), 1.7),
    Target("prefill", Cell(PREFILL), 1.4, "openvino int8"),
    Target("prefill", Cell(PREFILL), 2.5, "llama.cpp Q4_0"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A target that could be judged: our rate and theirs."""

    target: Target
    ours: float
    theirs: float
    than: str

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    @property
    def holds(self) -> bool:
        return self.ratio >= self.target.ratio


def engines_of(files: Iterable[Mapping[str, Any]]) -> list[Engine]:
    """The engines in these files, ours first; repeats of the same one are joined. Entries that failed are left out.

    Raises KeyError, TypeError or ValueError for what is no such file.
    """
    found: dict[tuple[str, str], Engine] = {}
    for whole in files:
        prefill_tokens = int(whole["settings"]["prefill"])
        for entry in whole["results"]:
            if "error" in entry:
                continue
            key = str(entry["peer"]), str(entry["variant"])
            engine = found.setdefault(key, Engine(*key))
            engine.versions |= entry["versions"]
            engine.rates.setdefault(Cell(PREFILL), []).extend(prefill_tokens / float(ttft) for ttft in entry["ttft_s"])
            for context, row in entry["decode_all"].items():
                for batch, rates in row.items():
                    engine.rates.setdefault(Cell(context, batch), []).extend(map(float, rates))
    return sorted(found.values(), key=lambda engine: engine.peer != OURS)


def outcomes(engines: Sequence[Engine], targets: Sequence[Target] = TARGETS) -> list[Outcome]:
    """Those targets for which both sides were measured, in their order. Of several variants of ours the best counts."""
    found = []
    for target in targets:
        ours = _best([engine for engine in engines if engine.peer == OURS], target.cell)
        others = [engine for engine in engines if engine.peer != OURS and target.than in (None, engine.name)]
        theirs = _best(others, target.cell)
        if ours is not None and theirs is not None:
            found.append(Outcome(target, ours[0], theirs[0], theirs[1]))
    return found


def _best(engines: Iterable[Engine], cell: Cell) -> tuple[float, str] | None:
    """The highest rate, and whose it is."""
    rates = [(rate, engine.name) for engine in engines if (rate := engine.rate(cell)) is not None]
    return max(rates, default=None)
