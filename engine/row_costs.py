"""What one more row costs a step of answers alone, by the measured time of steps with so many rows.

Used by `engine.speculation`, in the engine thread. Pure: durations are handed in. `engine.step_size` knows what a step costs as a
whole and follows it quickly; here small differences matter, so each number of rows is remembered for itself and for long:

    seconds  ·                                          x measured, by the number of rows
             ·                      x ‧ ‧ ‧ ‧ ‧ ‧       what is not measured lies on the line between its neighbours;
             ·  x   x ‧ ‧ ‧ x                           more rows than ever measured seem free, so they are tried and known
                1   2       4       8
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

QUANTILE: Final = 0.25
"""Of the steps with so many rows, the part that is quicker than what is remembered: other work on the machine makes some steps
slower and none quicker."""

PACE_GAIN: Final = 0.08
"""How far one step moves what is remembered of all numbers of rows, as a part of it: other work comes and goes, and slows all."""

GAIN: Final = 0.01
"""How far it moves what is remembered of its own number, once there were many: that is the machine's, and changes little."""

LEAK: Final = 0.0001
"""By what part a number of rows seems cheaper with each step that had fewer rows, so that it is tried again some time: what was
measured while the machine was busy must not count for ever."""

FIRST_LEAK: Final = 0.005
"""The same where it was measured once; where often, so many times less."""


class RowCosts:
    """Owns the measured seconds by number of rows."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        """On a machine whose pace is 1."""
        self._pace = 1.0
        self._steps: dict[int, int] = {}
        self._known: list[int] = []

    def observe(self, rows: int, seconds: float) -> None:
        """A step with so many rows took this long."""
        seconds /= self._pace
        before = self._unpaced_seconds(rows)
        if rows not in self._seconds:
            place = bisect_left(self._known, rows)
            if place:
                # A further row never costs more than one of those before: that was a bad moment.
                seconds = min(seconds, before * rows / self._known[place - 1])
            self._known.insert(place, rows)
            self._seconds[rows], self._steps[rows] = seconds, 1
            return
        for more in self._known[bisect_right(self._known, rows) :]:
            self._seconds[more] *= 1.0 - max(LEAK, FIRST_LEAK / self._steps[more])
        self._steps[rows] += 1
        gain = max(GAIN, 1.0 / self._steps[rows])
        direction = QUANTILE - (seconds < before)
        self._seconds[rows] = before * (1.0 + gain * direction)
        self._pace *= 1.0 + PACE_GAIN * direction

    def seconds(self, rows: int) -> float:
        """What a step with so many rows takes; 0 before anything was measured. Never less than with fewer rows."""
        return self._pace * self._unpaced_seconds(rows)

    def _unpaced_seconds(self, rows: int) -> float:
        place = bisect_left(self._known, rows)
        below = max((self._seconds[fewer] for fewer in self._known[:place]), default=0.0)
        if place == len(self._known):
            return below
        above = max(below, self._seconds[self._known[place]])
        if not place:
            return above
        fewer, more = self._known[place - 1], self._known[place]
        return below + (above - below) * (rows - fewer) / (more - fewer)
