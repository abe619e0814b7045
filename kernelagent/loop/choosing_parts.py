"""Which part of a scanned model is worth optimizing next, or that the whole is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.domain.whole_model import Scan, ScanRow

_MOST_PLACES = 8
"""Where one result is put at once: each place is a separate process while the whole is verified."""
_ALL = 0.99
"""From this share of the model's time on a part is the model itself in a wrapper."""


@dataclass(frozen=True)
class Proposal:
    """What to optimize next."""

    part: str | None
    """None: the whole model."""
    why: str | None = None
    """Where it is not simply the part with most to gain; one sentence."""
    needs_model: bool = False
    """The built-in policy leaves it alone."""


def proposed(scan: Scan, *, built_in: bool) -> Proposal | None:
    """The part with most to gain, or the whole where its own forward takes more than that part.

    `built_in`: the built-in policy is to write it, alone.
    """
    best = following(scan, (), built_in=built_in)
    writable = not built_in or scan.left_alone is None
    if writable and scan.own_us and scan.own_us > (_family_us(best) if best else 0.0):
        return Proposal(
            None,
            "the forward's own operations take more than any part, so optimize the whole, or move "
            "them into a module of their own and scan again",
        )
    if best is not None:
        return Proposal(best.path)
    other = following(scan, (), built_in=False)
    if other is None:
        return None
    why = f"the built-in policy leaves {other.path} alone, so name an LLM in place of PROVIDER/NAME"
    return Proposal(other.path, why, needs_model=True)


def following(
    scan: Scan,
    taken: Sequence[ScanRow],
    failed: Sequence[ScanRow] = (),
    *,
    built_in: bool = False,
) -> ScanRow | None:
    """The part with most to gain outside those `taken`; it may lie inside a part that `failed`.

    One whose result is of another package's class comes last: a written file, which needs torch alone,
    cannot make one. So does the whole model in a wrapper where a part in it takes more than its own forward.
    """
    gone = {path for row in failed for path in (row.path, *row.alike)}
    left = [
        row
        for row in scan.rows
        if _can(row)
        and not (built_in and row.left_alone is not None)
        and row.path not in gone
        and not _overlaps(row.path, taken)
    ]
    return min(
        left,
        key=lambda row: (row.returns is not None, _wraps_better(row, left, scan)),
        default=None,
    )


def places_of(row: ScanRow, taken: Sequence[ScanRow]) -> tuple[str, ...]:
    """A part with the parts like it, none of them inside or around one that is `taken`."""
    alike = [path for path in row.alike if not _overlaps(path, taken)]
    return (row.path, *alike[: _MOST_PLACES - 1])


def _wraps_better(row: ScanRow, rows: Sequence[ScanRow], scan: Scan) -> bool:
    if row.device_us < _ALL * (scan.total_us - scan.once_us):
        return False
    inside = [_family_us(other) for other in rows if other.path.startswith(f"{row.path}.")]
    return max(inside, default=0.0) > (row.own_us or 0.0)


def _family_us(row: ScanRow) -> float:
    return row.device_us * (1 + len(row.alike))


def _can(row: ScanRow) -> bool:
    return row.cannot is None and row.gain_at_most is not None and row.gain_at_most > 1.0


def _overlaps(path: str, taken: Sequence[ScanRow]) -> bool:
    return any(_nested(path, other) for row in taken for other in (row.path, *row.alike))


def _nested(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}.") or other.startswith(f"{path}.")
