"""Charts as SVG text: axes, lines and bars, and nothing else. Written here because a plotting library would be many times the
size of the rest of the command line, and these files only have to be readable in a browser and in a README.

Used by `bench_plots`. Pure: it returns text and writes no file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 640
HEIGHT: Final = 400
LEFT: Final = 72
RIGHT: Final = 24
TOP: Final = 48
BOTTOM: Final = 88
"""Pixels around the plot: numbers and titles stand there."""
COLOURS: Final = ("#2563a8", "#c2571a", "#2f855a", "#7b4397", "#a16207", "#be123c")
TICKS: Final = 5
FONT: Final = "font-family='system-ui, sans-serif' font-size='12'"


@dataclass(frozen=True, slots=True)
class Line:
    """A named series of points, in the order of x."""

    name: str
    points: Sequence[tuple[float, float]]


def line_chart(title: str, x_title: str, y_title: str, lines: Sequence[Line], *, x_is_log: bool = False) -> str:
    """Lines over a common x axis, which begins at the smallest x; y begins at 0. A logarithmic axis is one of powers of two."""
    xs = sorted({x for line in lines for x, _ in line.points})
    top = _round_up(max((y for line in lines for _, y in line.points), default=0.0))
    position = math.log2 if x_is_log else float
    least, most = (position(xs[0]), position(xs[-1])) if xs else (0.0, 1.0)
    span = (most - least) or 1.0

    def across(x: float) -> float:
        return LEFT + (position(x) - least) / span * (WIDTH - LEFT - RIGHT)

    parts = [*_frame(title, x_title, y_title, top)]
    for x in xs if x_is_log else _few(xs):
        parts.append(_text(across(x), HEIGHT - BOTTOM + 18, _number(x), "middle"))
    for place, line in enumerate(lines):
        colour = COLOURS[place % len(COLOURS)]
        dots = [(across(x), _up(y, top)) for x, y in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        parts.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'/>")
        parts += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>" for x, y in dots]
        parts += _legend(place, line.name, colour)
    return _document(parts)


def bar_chart(title: str, y_title: str, names: Sequence[str], bars: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Groups of bars: one group for each of `names`, and in each group one bar for each named row of numbers."""
    top = _round_up(max((number for _, row in bars for number in row), default=0.0))
    group = (WIDTH - LEFT - RIGHT) / max(1, len(names))
    wide = group * 0.8 / max(1, len(bars))
    parts = [*_frame(title, "", y_title, top)]
    for place, name in enumerate(names):
        parts.append(_text(LEFT + (place + 0.5) * group, HEIGHT - BOTTOM + 18, name, "middle"))
    for row, (bar_name, numbers) in enumerate(bars):
        colour = COLOURS[row % len(COLOURS)]
        for place, number in enumerate(numbers):
            x, y = LEFT + place * group + group * 0.1 + row * wide, _up(number, top)
            height = HEIGHT - BOTTOM - y
            parts.append(f"<rect x='{x:.1f}' y='{y:.1f}' width='{wide:.1f}' height='{height:.1f}' fill='{colour}'/>")
            parts.append(_text(x + wide / 2, y - 4, _number(number), "middle"))
        parts += _legend(row, bar_name, colour)
    return _document(parts)


def _document(parts: Sequence[str]) -> str:
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}' {FONT}>"
    background = f"<rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>"
    return "\n".join([head, background, *parts, "</svg>", ""])


def _frame(title: str, x_title: str, y_title: str, top: float) -> Sequence[str]:
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [
        f"<text x='{middle}' y='24' text-anchor='middle' font-size='15' fill='#222'>{escape(title)}</text>",
        _text(middle, HEIGHT - BOTTOM + 40, x_title, "middle"),
        f"<text transform='rotate(-90)' x='{-(TOP + HEIGHT - BOTTOM) / 2}' y='16' text-anchor='middle' fill='#222'>"
        f"{escape(y_title)}</text>",
    ]
    for tick in range(TICKS + 1):
        value = top * tick / TICKS
        y = _up(value, top)
        colour = "#999" if tick == 0 else "#ddd"
        parts.append(f"<line x1='{LEFT}' y1='{y:.1f}' x2='{WIDTH - RIGHT}' y2='{y:.1f}' stroke='{colour}'/>")
        parts.append(_text(LEFT - 8, y + 4, _number(value), "end"))
    return parts


def _legend(place: int, name: str, colour: str) -> Sequence[str]:
    column, row = place % 3, place // 3
    x, y = LEFT + column * 180, HEIGHT - 32 + row * 18
    return [f"<rect x='{x}' y='{y - 9}' width='12' height='10' fill='{colour}'/>", _text(x + 18, y, name, "start")]


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='#222'>{escape(words)}</text>"


def _up(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP)


def _round_up(value: float) -> float:
    """The next number that divides well into the ticks."""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value)


def _few(xs: Sequence[float]) -> Sequence[float]:
    """At most about ten of them, the first and the last among them."""
    stride = max(1, math.ceil(len(xs) / 10))
    return [*xs[:-1:stride], *xs[-1:]]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
