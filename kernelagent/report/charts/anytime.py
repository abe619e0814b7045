"""Anytime curves: the best so far against turns, tokens, dollars or seconds, each with its band."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kernelagent.report.charts.series import MARKS, Frame, Point, Series, spelled, ticks
from kernelagent.report.charts.svg import HUES, document, escape, path, shortened, text

_LEFT, _RIGHT, _TOP, _FOOT = 64.0, 560.0, 52.0, 360.0
_LEGEND = 34
Span = tuple[str, int | None, bool]
"""Some characters, the series they belong to (None: none), and whether they are only its band."""


@dataclass(frozen=True)
class Labels:
    """The words on a curve's drawing."""

    title: str
    across: str
    """Name and unit of the x axis, for example `turns`."""
    up: str
    """Name, unit and baseline of the y axis."""
    warning: str = ""
    """What a reader must not miss, for example that nothing was timed."""
    least_step: float = 0.0
    """Between two numbers of the x axis: 1 where it counts what has no halves."""


def anytime_svg(series: Sequence[Series], labels: Labels) -> str:
    """A whole SVG document, 760 units wide; as high as its legend needs, at least 420."""
    frame = Frame.around(series)
    parts = [text(_LEFT, 22, labels.title, "title")]
    if labels.warning:
        parts.append(text(_LEFT, 40, labels.warning, "warning"))
    parts += _grid(frame, labels)
    parts += [_band(item, frame, which) for which, item in enumerate(series)]
    parts += [_line(item, frame, which) for which, item in enumerate(series)]
    parts += _legend(series)
    parts.append(text((_LEFT + _RIGHT) / 2, _FOOT + 40, labels.across, "middle"))
    turned = f'transform="rotate(-90 16 {(_TOP + _FOOT) / 2:g})"'
    parts.append(text(16, (_TOP + _FOOT) / 2, labels.up, "middle", turned))
    height = max(420.0, _TOP + 24 + _LEGEND * len(series))
    return document(760, height, parts, title=labels.title, description=described(series, labels))


def described(series: Sequence[Series], labels: Labels) -> str:
    """The drawing in words, for a reader who cannot see it."""
    ends = "; ".join(
        f"{item.name}: {item.points[0].value:.3g} at the start, {item.legend} at {spelled(item.places[-1])}"
        for item in series
    )
    warned = f"{labels.warning}. " if labels.warning else ""
    return f"{warned}{labels.up} against {labels.across}. {ends or 'Nothing to show'}."


def anytime_text(
    series: Sequence[Series], labels: Labels, *, width: int = 72, height: int = 16
) -> str:
    """The curves as Unicode text, about `width` + 9 columns wide; bands are dotted."""
    return "".join(
        words for words, _, _ in anytime_spans(series, labels, width=width, height=height)
    )


def anytime_spans(
    series: Sequence[Series], labels: Labels, *, width: int = 72, height: int = 16
) -> Iterator[Span]:
    """The same text in pieces, so that a terminal may colour each series its own way."""
    frame = Frame.around(series)
    grid: list[list[Span]] = [[(" ", None, False)] * width for _ in range(height)]
    for column in range(width):
        x = frame.most * column / max(1, width - 1)
        _dot_bands(grid, column, [item.at(x) for item in series], frame)
        _mark_lines(grid, column, [item.at(x) for item in series], frame)
    if labels.warning:
        yield f"{labels.warning}\n", None, False
    yield f"{labels.up}\n", None, False
    marked = {_row(frame, tick, height): spelled(tick) for tick in ticks(frame.low, frame.high)}
    for number, row in enumerate(grid):
        yield f"{marked.get(number, ''):>7} {'┤' if number in marked else '│'}", None, False
        yield from row
        yield "\n", None, False
    yield f"{'':>7} └{'─' * width}\n", None, False
    yield f"{'':>9}{_feet(frame, labels, width)} {labels.across}\n", None, False
    for which, item in enumerate(series):
        yield f"{'':>9}{MARKS[which % len(MARKS)]} ", which, False
        yield f"{shortened(item.name, 40)}: {item.legend}\n", None, False


def _dot_bands(grid: list[list[Span]], column: int, points: list[Point], frame: Frame) -> None:
    for which, point in enumerate(points):
        if point.low == point.high:
            continue
        top, foot = _row(frame, point.high, len(grid)), _row(frame, point.low, len(grid))
        for row in range(top, foot + 1):
            if grid[row][column][1] is None:
                grid[row][column] = ("·", which, True)


def _mark_lines(grid: list[list[Span]], column: int, points: list[Point], frame: Frame) -> None:
    on_row: dict[int, list[int]] = {}
    for which, point in enumerate(points):
        on_row.setdefault(_row(frame, point.value, len(grid)), []).append(which)
    for row, lines in on_row.items():
        # Lines that lie on one another take turns, so that none of them is hidden.
        shown = lines[column % len(lines)]
        grid[row][column] = (MARKS[shown % len(MARKS)], shown, False)


def _feet(frame: Frame, labels: Labels, width: int) -> str:
    below = [" "] * (width + 8)
    for tick in ticks(0, frame.most, least_step=labels.least_step):
        column = round(frame.across(tick) * (width - 1))
        below[column : column + len(spelled(tick))] = spelled(tick)
    return "".join(below).rstrip()


def _row(frame: Frame, y: float, height: int) -> int:
    return min(height - 1, max(0, round((1 - frame.up(y)) * (height - 1))))


def _x(frame: Frame, x: float) -> float:
    return _LEFT + frame.across(x) * (_RIGHT - _LEFT)


def _y(frame: Frame, y: float) -> float:
    return _FOOT - frame.up(y) * (_FOOT - _TOP)


def _grid(frame: Frame, labels: Labels) -> list[str]:
    parts = []
    for tick in ticks(frame.low, frame.high):
        y = _y(frame, tick)
        parts.append(path("grid", f"M{_LEFT:g} {y:.1f}H{_RIGHT:g}"))
        parts.append(text(_LEFT - 8, round(y + 4, 1), spelled(tick), "end"))
    for tick in ticks(0, frame.most, least_step=labels.least_step):
        x = _x(frame, tick)
        parts.append(path("grid", f"M{x:.1f} {_TOP:g}V{_FOOT:g}"))
        parts.append(text(round(x, 1), _FOOT + 18, spelled(tick), "middle"))
    parts.append(path("axis", f"M{_LEFT:g} {_TOP:g}V{_FOOT:g}H{_RIGHT:g}"))
    return parts


def _steps(line: Series, frame: Frame, of: Callable[[Point], float]) -> list[str]:
    """The corners of a staircase, up to the right edge."""
    corners: list[str] = []
    for place, point in zip(line.places, line.points, strict=True):
        x, y = _x(frame, place), _y(frame, of(point))
        if corners:
            corners.append(f"{x:.1f} {corners[-1].split()[1]}")
        corners.append(f"{x:.1f} {y:.1f}")
    return corners


def _line(line: Series, frame: Frame, which: int) -> str:
    return path(
        f"line c{which % len(HUES)}", "M" + "L".join(_steps(line, frame, lambda p: p.value))
    )


def _band(line: Series, frame: Frame, which: int) -> str:
    there = _steps(line, frame, lambda point: point.high)
    back = reversed(_steps(line, frame, lambda point: point.low))
    return path(f"band c{which % len(HUES)}", f"M{'L'.join((*there, *back))}Z")


def _legend(series: Sequence[Series]) -> list[str]:
    parts = []
    for which, item in enumerate(series):
        y = _TOP + 12 + _LEGEND * which
        parts.append(path(f"line c{which % len(HUES)}", f"M{_RIGHT + 16:g} {y - 4:g}h22"))
        name = f"<g><title>{escape(item.name)}</title>{text(_RIGHT + 46, y, shortened(item.name, 22))}</g>"
        parts += [name, text(_RIGHT + 46, y + 14, item.legend, "small")]
    return parts
