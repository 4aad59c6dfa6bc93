from __future__ import annotations

from xml.etree import ElementTree

import pytest

from app.cli.svg_chart import HEIGHT, WIDTH, Line, bar_chart, line_chart

SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    return root


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def test_a_line_goes_through_its_points_and_stays_within_the_picture() -> None:
    svg = line_chart("Title", "streams", "tokens/s", [Line("one", [(1, 10.0), (8, 70.0), (32, 130.0)])], x_is_log=True)
    root = parsed(svg)
    (path,) = root.iter(f"{SVG}polyline")
    points = [tuple(map(float, point.split(","))) for point in path.attrib["points"].split()]
    assert len(points) == 3
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    heights = [y for _, y in points]
    assert heights == sorted(heights, reverse=True)
    # On a logarithmic axis 1 to 8 is three steps of five.
    assert (points[1][0] - points[0][0]) / (points[2][0] - points[0][0]) == pytest.approx(3 / 5, abs=0.01)
    assert {"Title", "streams", "tokens/s", "one", "1", "8", "32", "150"} <= set(texts(root))


def test_bars_are_as_high_as_their_numbers() -> None:
    root = parsed(bar_chart("Title", "ms", ["a", "b"], [("off", [10.0, 5.0]), ("on", [2.0, 0.0])]))
    heights = [float(bar.attrib["height"]) for bar in root.iter(f"{SVG}rect") if "height" in bar.attrib]
    bars = [height for height in heights if height not in (HEIGHT, 10.0)]
    assert bars == pytest.approx([bars[0], bars[0] / 2, bars[0] / 5, 0.0], abs=0.2)


def test_words_are_escaped_and_nothing_at_all_is_still_a_picture() -> None:
    root = parsed(line_chart("a < b & c", "", "", [Line("<x>", [(0, 0.0)])]))
    assert "a < b & c" in texts(root)
    parsed(line_chart("", "", "", []))
    parsed(bar_chart("", "", [], []))
