from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.domain.errors import UsageError
from kernelagent.report.charts.anytime import Labels, anytime_svg, anytime_text
from kernelagent.report.charts.bars import Bar, bars_svg, bars_text
from kernelagent.report.charts.png import FONT_FOLDERS, to_png
from kernelagent.report.charts.roofline import (
    Ceilings,
    Work,
    roofline_svg,
    roofline_text,
    work_text,
)
from kernelagent.report.charts.series import Frame, Point, Series, spelled, ticks, with_prefix
from kernelagent.report.charts.svg import inline
from kernelagent.report.charts.tree import VERDICT_MARKS, Node, lanes_of, tree_svg, tree_text

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '</svg></title><script>alert("1")</script> & \x00 | ` http://x.test'
LABELS = Labels("Best so far", "turns", "× eager", "ESTIMATE, not timed")
CEILINGS = Ceilings(4.8e12, (("bf16", 989e12), ("fp32", 67e12)), "data sheet")
SERIES = (
    Series("window", (0.0, 1.0, 4.0), (Point.exact(1), Point(1.5, 1.4, 1.6), Point(1.8, 1.7, 1.9))),
    Series("auto", (0.0, 3.0), (Point.exact(1), Point.exact(1.2))),
)
NODES = (
    Node(0, None, "rejected", "write"),
    Node(1, 0, "accepted", "repair"),
    Node(2, 1, "accepted", "optimise"),
    Node(3, 1, "void", "optimise"),
    Node(4, 2, "accepted", "optimise", best=True),
)
WORKS = (Work("matmul", 120.0, 4e14, estimated=True), Work("other", 0.5, 1e12, estimated=False))
DRAWINGS = {
    "curve": anytime_svg(SERIES, LABELS),
    "tree": tree_svg(NODES, title="Turns"),
    "roofline": roofline_svg(WORKS, CEILINGS, title="Roofline"),
    "bars": bars_svg((Bar("eager", 36.3, "36.3 µs", 1), Bar("new", 4.2, "4.2 µs")), title="Time"),
}


def words_in(drawing: str) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


@pytest.mark.parametrize("drawing", DRAWINGS.values(), ids=list(DRAWINGS))
def test_a_drawing_is_xml_that_says_in_words_what_it_shows(drawing):
    root = ElementTree.fromstring(drawing)
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert title.text
    assert len(description.text) > 10


@pytest.mark.parametrize("drawing", DRAWINGS.values(), ids=list(DRAWINGS))
def test_a_drawing_needs_nothing_from_outside_and_follows_the_scheme(drawing):
    assert re.findall(r"(?:href|src|url|@import)\W", drawing) == []
    assert re.findall(r"https?://[^\"]+", drawing) == ["http://www.w3.org/2000/svg"]
    assert "http" not in inline(drawing)
    assert "prefers-color-scheme: dark" in drawing
    assert drawing.count("{") == drawing.count("}")


def test_two_drawings_on_one_page_have_ids_of_their_own():
    ids = [name for drawing in DRAWINGS.values() for name in re.findall(r'id="([^"]+)"', drawing)]
    assert len(ids) == len(set(ids)) == 2 * len(DRAWINGS)


@pytest.mark.parametrize(
    "drawing",
    [
        anytime_svg((Series(HOSTILE, (0.0,), (Point.exact(1),)),), Labels(*[HOSTILE] * 4)),
        tree_svg((Node(0, None, "accepted", HOSTILE),), title=HOSTILE),
        roofline_svg((Work(HOSTILE, 1, 1, estimated=True),), CEILINGS, title=HOSTILE),
        bars_svg((Bar(HOSTILE, 1, HOSTILE),), title=HOSTILE),
    ],
)
def test_hostile_text_stays_text(drawing):
    root = ElementTree.fromstring(drawing)
    assert [e.tag for e in root.iter() if e.tag == f"{SVG}script"] == []
    assert any("<script>" in words for words in (*root.itertext(), *words_in(drawing)))


def test_a_curve_shows_each_name_the_axes_and_the_warning_in_both_forms():
    for text in (DRAWINGS["curve"], anytime_text(SERIES, LABELS)):
        for words in (
            "window",
            "auto",
            "turns",
            "× eager",
            "ESTIMATE, not timed",
            "1.80 [1.70, 1.90]",
        ):
            assert words in text


def test_a_curve_without_a_band_has_no_dots_in_the_terminal():
    assert "·" not in anytime_text(SERIES[1:], LABELS)
    assert "·" in anytime_text(SERIES[:1], LABELS)


def test_a_series_without_a_point_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        Series("empty", (), ())


def test_the_tree_gives_every_verdict_a_mark_that_is_read_without_colour():
    nodes = [Node(n, None, verdict, verdict) for n, verdict in enumerate(VERDICT_MARKS)]
    assert len(set(VERDICT_MARKS.values())) == len(VERDICT_MARKS)
    for mark in VERDICT_MARKS.values():
        assert mark in tree_text(nodes)
        assert mark in words_in(tree_svg(nodes, title="t"))


def test_the_tree_says_what_was_refined_and_which_turn_is_the_best():
    assert tree_text(NODES).splitlines() == [
        "✗ 0  write",
        "✓ 1 ← 0  repair",
        "  ✓ 2 ← 1  optimise",
        "  ✓ 4 ← 2  optimise [best]",
        "  ∅ 3 ← 1  optimise",
    ]


def test_a_chain_keeps_its_column_and_a_branch_takes_another():
    lanes = lanes_of(NODES)
    assert [lanes[n] for n in (0, 1, 2, 4)] == [0, 0, 0, 0]
    assert lanes[3] == 1


def test_samples_without_parents_share_a_column():
    assert set(lanes_of([Node(n, None, "accepted", "") for n in range(9)]).values()) == {0}


@st.composite
def histories(draw):
    count = draw(st.integers(1, 30))
    parents = [draw(st.none() | st.integers(0, n - 1)) if n else None for n in range(count)]
    verdicts = draw(st.lists(st.sampled_from(list(VERDICT_MARKS)), min_size=count, max_size=count))
    return [Node(n, p, v, "w") for n, (p, v) in enumerate(zip(parents, verdicts, strict=True))]


@given(histories())
def test_every_turn_has_a_row_of_its_own_and_no_line_runs_through_another_turn(nodes):
    lanes = lanes_of(nodes)
    assert sorted(lanes) == [node.number for node in nodes]
    lines = tree_text(nodes).splitlines()
    assert sorted(int(line.split()[1]) for line in lines) == [node.number for node in nodes]
    for node in nodes:
        if node.parent is None:
            continue
        passed = [n for n in range(node.parent + 1, node.number) if lanes[n] == lanes[node.number]]
        assert passed == []


def test_a_roofline_says_where_each_point_is_and_whether_it_was_measured():
    text = roofline_text(WORKS, CEILINGS)
    assert "matmul: 400 TFLOP/s at 120 FLOP/byte, 69% of its roof, estimated" in text
    assert "other: 1 TFLOP/s at 0.5 FLOP/byte, 42% of its roof, measured" in text
    assert "4.8 TB/s DRAM; data sheet" in text
    assert "bf16 989 TFLOP/s" in words_in(DRAWINGS["roofline"])


def test_the_roof_is_bandwidth_first_and_then_the_best_rate():
    assert CEILINGS.roof(1.0) == 4.8e12
    assert CEILINGS.roof(1e6) == 989e12


@given(st.floats(1e-6, 1e6), st.floats(1.0, 1e18))
def test_every_point_lies_inside_the_roofline_plot(intensity, rate):
    work = Work("w", intensity, rate, estimated=True)
    drawing = roofline_svg((work,), CEILINGS, title="t")
    (circle, _) = ElementTree.fromstring(drawing).iter(f"{SVG}circle")
    assert 76 <= float(circle.get("cx")) <= 560
    assert 52 <= float(circle.get("cy")) <= 360
    assert work_text(work, CEILINGS) in roofline_text((work,), CEILINGS)


@pytest.mark.parametrize("numbers", [(0.0, 1.0), (1.0, -1.0), (float("nan"), 1.0)])
def test_work_without_a_place_on_the_plot_is_refused(numbers):
    with pytest.raises(ValueError, match="no place"):
        Work("w", *numbers, estimated=True)


@pytest.mark.parametrize(("slope", "roofs"), [(0.0, (("a", 1.0),)), (1.0, ())])
def test_a_roofline_without_ceilings_is_refused(slope, roofs):
    with pytest.raises(ValueError, match="above zero"):
        Ceilings(slope, roofs, "nowhere")


def test_bars_are_as_long_as_their_amounts():
    bars = (Bar("a", 4, "4"), Bar("b", 2, "2"), Bar("c", 0, "0"))
    widths = [
        float(w) for w in re.findall(r'<rect [^>]*width="([\d.]+)"', bars_svg(bars, title="t"))
    ]
    assert widths == [widths[0], widths[0] / 2, 0]
    assert [line.count("█") for line in bars_text(bars, width=20).splitlines()] == [20, 10, 0]


def test_bars_may_be_drawn_against_a_ceiling():
    assert bars_text((Bar("a", 1, "1"),), width=20, most=2).count("█") == 10


def test_a_bar_of_negative_length_is_refused():
    with pytest.raises(ValueError, match="no length"):
        Bar("a", -1, "-1")


def test_a_frame_holds_every_band():
    frame = Frame.around(SERIES)
    assert frame.low < 1.0
    assert frame.high > 1.9
    assert frame.up(frame.low) == 0.0
    assert frame.up(frame.high) == pytest.approx(1.0)


@pytest.mark.parametrize(("low", "high"), [(0, 20), (0.97, 1.43), (0, 587_201), (0, 0.9), (1, 1)])
def test_ticks_are_few_round_and_inside(low, high):
    result = ticks(low, high)
    assert 1 <= len(result) <= 8
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in result)
    assert result == sorted(set(result))


def test_an_axis_of_turns_has_no_half_turns():
    assert ticks(0, 3) == [0, 0.5, 1, 1.5, 2, 2.5, 3]
    assert ticks(0, 3, least_step=1.0) == [0, 1, 2, 3]
    assert ticks(0, 1, least_step=1.0) == [0, 1]
    assert ticks(0, 20, least_step=1.0) == ticks(0, 20)
    series = (Series("window", (0.0, 1.0, 2.0), tuple(map(Point.exact, (1, 2, 3)))),)
    whole = replace(LABELS, least_step=1.0)
    for labels, halves in ((LABELS, True), (whole, False)):
        feet = anytime_text(series, labels, width=40).splitlines()[-2]
        assert ("0.5" in feet.split()) == halves
        assert (">0.5<" in anytime_svg(series, labels)) == halves


def test_large_numbers_are_spelled_short():
    assert [spelled(n) for n in (1.25, 40, 20_000, 1_500_000)] == ["1.25", "40", "20k", "1.5M"]
    assert [with_prefix(n, "B") for n in (16, 999.9, 4.8e12)] == ["16 B", "1 kB", "4.8 TB"]


def test_png_without_a_font_is_refused_and_not_drawn_without_words(tmp_path):
    with pytest.raises(UsageError, match="needs one of the fonts"):
        to_png(DRAWINGS["roofline"], fonts=(tmp_path,))


@pytest.mark.skipif(
    not any(list(Path(folder).rglob("DejaVuSans.ttf")) for folder in FONT_FOLDERS),
    reason="no DejaVu Sans on this machine",
)
def test_a_roofline_can_be_kept_as_png():
    made = to_png(DRAWINGS["roofline"], zoom=1)
    assert made.startswith(b"\x89PNG")
    bare = to_png(re.sub(r"<text.*?</text>", "", DRAWINGS["roofline"]), zoom=1)
    assert len(made) > len(bare), "the words are in the picture"
