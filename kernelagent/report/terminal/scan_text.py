"""The table of a scan for a person: like parts in one row, and what to type next."""

from __future__ import annotations

from collections.abc import Sequence

from kernelagent.domain.whole_model import Scan, ScanRow

_LEGEND = (
    "µs, share and `at most` are of one part. xN: N parts have the same class and shapes. at most: the "
    "speedup of the whole model if this part alone became one launch at its bandwidth or compute bound"
)


def scan_text(
    scan: Scan, next_command: str | None = None, why: str | None = None, most: int = 20
) -> str:
    """The rows with most to gain first; `next_command` is the last line, `why` stands before it."""
    kind = "estimate, nothing was timed" if scan.time == "estimate" else "measured"
    lines = [f"{scan.model} on {scan.device.name}: {scan.total_us:.1f} µs a forward ({kind})"]
    rows = _folded(scan.rows)
    shown = _longest(rows, most)
    lines += _columns([_HEAD, *(_cells(row) for row in shown)], [_remark(row) for row in shown])
    if len(rows) > most:
        lines.append(f"and {len(rows) - most} more, which take less time; --json has all")
    lines += [
        f"outside these parts, in the model's own forward: {_own(scan)}",
        _LEGEND,
        _sums(scan),
    ]
    lines += [f"note: {note}" for note in scan.notes]
    if why is not None:
        lines.append(why)
    lines.append(
        f"next: {next_command}"
        if next_command is not None
        else "no part of it can be optimized alone; the rows say why"
    )
    return "\n".join(lines) + "\n"


_HEAD = ("submodule", "alike", "class", "calls", "µs", "share", "at most")
_TO_THE_LEFT = frozenset({"submodule", "class"})


def _folded(rows: Sequence[ScanRow]) -> list[ScanRow]:
    """The first of each family of like parts."""
    result: list[ScanRow] = []
    gone: set[str] = set()
    for row in rows:
        if row.path not in gone:
            result.append(row)
            gone |= {row.path, *row.alike}
    return result


def _longest(rows: Sequence[ScanRow], most: int) -> list[ScanRow]:
    """So many of the rows at most, those that take the longest, in the order in which they stand."""
    by_time = sorted(range(len(rows)), key=lambda at: -rows[at].device_us)
    return [rows[at] for at in sorted(by_time[:most])]


def _own(scan: Scan) -> str:
    if scan.own_us is None:
        return "unknown, as the time of a part could not be counted"
    return f"{scan.own_us:.1f} µs, {scan.own_us / scan.total_us if scan.total_us else 0.0:.0%}"


def _sums(scan: Scan) -> str:
    """Why the rows add up as they do."""
    if scan.time == "measured":
        return (
            "each part was timed by itself: launches that the whole hides behind other work count "
            "there, so parts can add up to more than the whole"
        )
    return (
        f"µs of a part are inside the whole: without the {scan.once_us:.1f} µs that a forward costs once, and "
        f"without launches hidden behind the device's work; alone it takes longer. Its inputs are "
        f"counted as out of the cache, so parts can add up to a little more than the whole"
    )


def _remark(row: ScanRow) -> str | None:
    if row.cannot is not None:
        return row.cannot
    if row.left_alone is not None:
        return f"{row.left_alone}; an LLM may write it: --model"
    if row.returns is None:
        return None
    return f"its result is of class {row.returns.rpartition('.')[2]}, so take a part inside it"


def _cells(row: ScanRow) -> tuple[str, ...]:
    gain = f"{row.gain_at_most:.2f}x" if row.gain_at_most is not None else "unknown"
    alike = f"x{1 + len(row.alike)}" if row.alike else ""
    numbers = (f"{row.device_us:.1f}", f"{row.share:.0%}", gain)
    return (row.path, alike, row.kind, str(row.calls), *numbers)


def _columns(table: Sequence[tuple[str, ...]], remarks: Sequence[str | None]) -> list[str]:
    """Each column as wide as its longest cell."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for cells, remark in zip(table, [None, *remarks], strict=True):
        parts = [
            cell.ljust(width) if name in _TO_THE_LEFT else cell.rjust(width)
            for name, cell, width in zip(_HEAD, cells, widths, strict=True)
        ]
        lines.append("  ".join(parts).rstrip() + (f"  ({remark})" if remark is not None else ""))
    return lines
