"""The tree of a run's turns: what was refined from what, each with its verdict as a mark and as words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelagent.report.charts.svg import document, escape, path, plain, shortened, text

VERDICT_MARKS = {"accepted": "✓", "rejected": "✗", "error": "!", "void": "∅", "pending": "…"}
_ROW, _LANE, _LEFT, _TOP = 26.0, 22.0, 26.0, 48.0
_WIDTH = 760.0
_LANES_SHOWN = 12
_LETTER = 7.2
"""Units a letter of the row's text is about wide."""


@dataclass(frozen=True)
class Node:
    """One turn of the tree."""

    number: int
    parent: int | None
    """A parent that is not among the nodes makes this one a root."""
    verdict: str
    """A key of `VERDICT_MARKS`."""
    words: str
    best: bool = False


def tree_text(nodes: Sequence[Node]) -> str:
    """One line a turn, indented only where the tree branches."""
    below = _children(nodes)
    lines: list[str] = []
    waiting = [("", node) for node in reversed(below.get(None, []))]
    while waiting:
        indent, node = waiting.pop()
        lines.append(f"{indent}{_line(node)}")
        inner = below.get(node.number, [])
        # A chain without branches stays in its column; a branch is drawn one step further in.
        step = "" if len(inner) < 2 else "  "
        waiting += [(indent + step, child) for child in reversed(inner)]
    return "\n".join(lines) + "\n" if lines else ""


def _line(node: Node) -> str:
    origin = "" if node.parent is None else f" ← {node.parent}"
    best = " [best]" if node.best else ""
    return f"{VERDICT_MARKS[node.verdict]} {node.number}{origin}  {plain(node.words)}{best}"


def tree_svg(nodes: Sequence[Node], *, title: str) -> str:
    """A whole SVG document, 760 units wide, a row for each node in the order given."""
    lanes = {number: min(lane, _LANES_SHOWN - 1) for number, lane in lanes_of(nodes).items()}
    rows = {node.number: row for row, node in enumerate(nodes)}
    words_at = _LEFT + _LANE * (max(lanes.values(), default=0) + 1) + 4
    letters = int((_WIDTH - words_at - 8) / _LETTER)
    parts = [text(_LEFT - 12, 22, title, "title")]
    parts += [
        _edge(lanes[node.parent], rows[node.parent], lanes[node.number], rows[node.number])
        for node in nodes
        if node.parent in rows
    ]
    for node in nodes:
        parts += _node(node, lanes[node.number], rows[node.number], words_at, letters)
    height = _TOP + _ROW * max(1, len(nodes))
    return document(
        _WIDTH,
        height,
        parts,
        title=title,
        description=" ".join(_line(node) + ";" for node in nodes) or "No turn was taken.",
        styles=_STYLES,
        dark=_DARK,
    )


def lanes_of(nodes: Sequence[Node]) -> Mapping[int, int]:
    """The column of each node: a first child keeps its parent's, others take the first that is free."""
    rows = {node.number: row for row, node in enumerate(nodes)}
    below = _children(nodes)
    ends: list[int] = []
    """For each column the last row that is taken."""
    lanes: dict[int, int] = {}
    for node in nodes:
        if node.number in lanes:
            continue
        chain = _chain(node, below)
        # The branch's line leaves its parent at once and runs down in its own column.
        begins = rows[node.number]
        if node.parent in rows:
            begins = rows[node.parent] + 1
        lane = next((n for n, end in enumerate(ends) if end < begins), len(ends))
        ends[lane : lane + 1] = [rows[chain[-1].number]]
        lanes |= {item.number: lane for item in chain}
    return lanes


def _chain(node: Node, below: Mapping[int | None, Sequence[Node]]) -> list[Node]:
    chain = [node]
    while inner := below.get(chain[-1].number):
        chain.append(inner[0])
    return chain


def _children(nodes: Sequence[Node]) -> dict[int | None, list[Node]]:
    known: set[int] = set()
    below: dict[int | None, list[Node]] = {}
    for node in nodes:
        below.setdefault(node.parent if node.parent in known else None, []).append(node)
        known.add(node.number)
    return below


def _at(lane: int, row: int) -> tuple[float, float]:
    return _LEFT + _LANE * lane, _TOP + _ROW * row


def _edge(lane: int, row: int, to_lane: int, to_row: int) -> str:
    x, y = _at(lane, row)
    to_x, to_y = _at(to_lane, to_row)
    if lane == to_lane:
        return path("edge", f"M{x:g} {y:g}V{to_y:g}")
    turn = y + _ROW * 0.9
    return path("edge", f"M{x:g} {y:g}C{x:g} {turn:g} {to_x:g} {y:g} {to_x:g} {turn:g}V{to_y:g}")


def _node(node: Node, lane: int, row: int, words_at: float, letters: int) -> list[str]:
    x, y = _at(lane, row)
    parts = []
    if node.best:
        parts.append(f'<circle class="best" cx="{x:g}" cy="{y:g}" r="11.5"/>')
    parts.append(f'<circle class="turn {node.verdict}" cx="{x:g}" cy="{y:g}" r="8.5"/>')
    parts.append(text(x, y + 4, VERDICT_MARKS[node.verdict], "mark-in middle"))
    message = f"{node.number}{'  best' if node.best else ''}  {node.words}"
    bold = "strong" if node.best else ""
    shown = text(words_at, y + 4, shortened(message, letters), bold)
    parts.append(f"<g><title>{escape(_line(node))}</title>{shown}</g>")
    return parts


_STYLES = """
.chart .edge { fill: none; stroke: #8c959f; stroke-width: 1.5; }
.chart .turn { stroke-width: 1.5; }
.chart .best { fill: none; stroke: #0072b2; stroke-width: 1.5; }
.chart .accepted { fill: #dafbe1; stroke: #1a7f37; }
.chart .rejected { fill: #ffebe9; stroke: #cf222e; }
.chart .error { fill: #fff8c5; stroke: #9a6700; }
.chart .void, .chart .pending { fill: #f6f8fa; stroke: #6e7781; }
.chart .mark-in { font-size: 11px; }
.chart .strong { font-weight: 600; }"""
_DARK = """
.chart .accepted { fill: #12351f; stroke: #3fb950; }
.chart .rejected { fill: #3d1417; stroke: #f85149; }
.chart .error { fill: #3a2d0c; stroke: #d29922; }
.chart .void, .chart .pending { fill: #21262d; stroke: #8b949e; }
.chart .best { stroke: #58a6ff; }
"""
