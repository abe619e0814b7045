from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from kernelagent.domain.evaluation import Interval
from kernelagent.suite.compare.curve import plot, svg
from kernelagent.suite.compare.study import NOTHING_REAL, NOTHING_TIMED, Curve

SVG = "{http://www.w3.org/2000/svg}"


def curve(name: str, *values: float, spread: float = 0.1) -> Curve:
    places = tuple(float(n) for n in range(len(values)))
    return Curve(name, "turns", places, tuple(Interval(v, v - spread, v + spread) for v in values))


TWO = (curve("window", 1.0, 1.2, 1.5, 1.5), curve("best-of-n", 1.0, 1.1, 1.1, 1.3))


def drawn(kind: str, text: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(text)
    return [e for e in root.iter(f"{SVG}path") if f"{kind} c" in e.get("class", "")]


def corners(path: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([-\d.]+) ([-\d.]+)", path.get("d", ""))]


def test_the_svg_is_xml_with_a_line_a_band_and_a_name_for_each_strategy():
    text = svg(TWO, title="a <title> & more")
    root = ElementTree.fromstring(text)
    words = [e.text for e in root.iter(f"{SVG}text")]
    assert root.find(f"{SVG}title").text == "a <title> & more"
    assert {"window", "best-of-n", "turns"} <= set(words)
    # Two in the drawing and two in the legend.
    assert len(drawn("line", text)) == 4
    assert len(drawn("band", text)) == 2


def test_the_svg_needs_nothing_from_outside_and_follows_the_scheme():
    text = svg(TWO, title="t")
    assert re.findall(r"(?:href|src|url|@import)\W", text) == []
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert "prefers-color-scheme: dark" in text


def test_lines_climb_and_stay_inside_the_frame():
    line = corners(drawn("line", svg(TWO, title="t"))[0])
    heights = [y for _, y in line]
    assert heights == sorted(heights, reverse=True)
    assert all(64 <= x <= 560 and 52 <= y <= 360 for x, y in line)
    assert line[-1][0] == 560


def test_a_better_strategy_ends_higher():
    window, best_of_n = (corners(path)[-1][1] for path in drawn("line", svg(TWO, title="t"))[:2])
    assert window < best_of_n


@pytest.mark.parametrize("warning", [NOTHING_REAL, NOTHING_TIMED])
def test_both_drawings_say_when_nothing_was_real_or_timed(warning):
    assert warning in svg(TWO, title="t", warning=warning)
    assert warning in plot(TWO, warning=warning).plain
    assert "SIMULATED" not in svg(TWO, title="t")


def test_lines_that_lie_on_one_another_are_both_seen():
    same = (curve("one", 1.0, 1.5), curve("two", 1.0, 1.5), curve("three", 1.0, 1.5))
    drawing = plot(same, width=30, height=8).plain.split("└")[0]
    assert min(drawing.count(mark) for mark in "●◆▲") == 10


def test_the_terminal_shows_marks_axes_and_the_last_values():
    text = plot(TWO, width=50, height=12).plain
    assert text.count("●") > 10
    assert text.count("◆") > 10
    assert "· " in text or "·" in text
    assert "best score so far, × eager" in text
    assert "window: 1.50 [1.40, 1.60]" in text
    assert " turns" in text
    assert max(len(line) for line in text.splitlines()) <= 50 + 16


def test_in_the_terminal_a_better_line_is_on_a_higher_row():
    rows = plot(TWO, width=50, height=12).plain.splitlines()[1:13]
    last = "".join(row[-1] if len(row) == 59 else " " for row in rows)
    assert -1 < last.index("●") < last.index("◆")


def test_a_flat_curve_of_one_place_can_be_drawn():
    flat = (curve("auto", 1.0, spread=0.0),)
    ElementTree.fromstring(svg(flat, title="t"))
    assert "auto: 1.00" in plot(flat).plain
