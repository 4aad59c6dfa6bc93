"""The colours of the page can be read: WCAG 2 contrast, AA, in the light and in the dark scheme."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSS = (Path(__file__).parents[2] / "web/css/base.css").read_text()
TEXT_RATIO, EDGE_RATIO = 4.5, 3.0

TEXT_ON_GROUND = [
    ("ink", "ground"),
    ("ink", "ground-side"),
    ("ink", "surface"),
    ("ink", "surface-soft"),
    ("ink", "accent-soft"),
    ("ink-soft", "ground"),
    ("ink-soft", "ground-side"),
    ("ink-soft", "surface"),
    ("ink-soft", "surface-soft"),
    ("ink-soft", "accent-soft"),
    ("accent", "ground"),
    ("accent", "surface"),
    ("accent-ink", "accent"),
    ("fault", "ground"),
    ("fault", "surface"),
    ("fault", "fault-soft"),
    ("ground", "ink"),
]
EDGE_ON_GROUND = [
    ("line-strong", "ground"),
    ("line-strong", "surface"),
    ("accent", "ground"),
    ("accent", "ground-side"),
    ("series-1", "surface"),
    ("series-2", "surface"),
    ("series-3", "surface"),
    ("series-4", "surface"),
    ("page-running", "surface"),
    ("page-running-persona", "surface"),
    ("page-persona", "surface"),
    ("page-leased", "surface"),
    ("page-cached", "surface"),
]


def schemes() -> dict[str, dict[str, str]]:
    both = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", CSS)
    return {"light": {name: light for name, light, _ in both}, "dark": {name: dark for name, _, dark in both}}


def luminance(colour: str) -> float:
    channels = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_edges_stand_out_from_their_ground(scheme: str) -> None:
    colours = schemes()[scheme]
    wanted = [(pair, TEXT_RATIO) for pair in TEXT_ON_GROUND] + [(pair, EDGE_RATIO) for pair in EDGE_ON_GROUND]
    weak = {
        pair: round(contrast(colours[pair[0]], colours[pair[1]]), 2)
        for pair, ratio in wanted
        if contrast(colours[pair[0]], colours[pair[1]]) < ratio
    }
    assert weak == {}


def test_no_colour_is_outside_the_names() -> None:
    """One that stood elsewhere would be the same in both schemes, or escape the test above."""
    web = Path(__file__).parents[2] / "web"
    for path in sorted(set(web.rglob("*.css")) - set((web / "vendor").rglob("*.css"))):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        if path.name == "base.css":
            text = re.sub(r"^  --.*;$", "", text, flags=re.M)
        assert re.findall(r"#[0-9a-fA-F]{3,8}\b|rgba?\(|hsla?\(", text) == [], path
