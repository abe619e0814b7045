"""One memory operation of many programs, as stretches of contiguous bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.executor.launch import AccessKind
from kernelagent.tools.virtual.races.updates import Atomic

Int64Array = NDArray[np.int64]


class NotBatchable(Exception):
    """This must be run program by program; the message says why.

    `always`: for whatever programs of this launch, so that no further ones need to be tried.
    """

    def __init__(self, why: str, *, always: bool = False) -> None:
        super().__init__(why)
        self.always = always


class TooManyTogether(NotBatchable):
    """Fewer programs at a time would do."""


@dataclass(frozen=True)
class Runs:
    """Stretches of `length` bytes from `start`, ordered by program; each has lanes that follow each other."""

    program: Int64Array
    """Places in the chunk of programs, ascending."""
    start: Int64Array
    length: Int64Array

    @property
    def end(self) -> Int64Array:
        return self.start + self.length

    def for_each_of(self, programs: Int64Array) -> Runs:
        """The same of every one of these programs."""
        times = programs.size
        start, length = (np.tile(item, times) for item in (self.start, self.length))
        return Runs(np.repeat(programs, self.start.size), start, length)


@dataclass(frozen=True)
class Regular:
    """An access whose active lanes are a leading sub-block of each program's block, so that rows can be copied."""

    corner: tuple[slice, ...]
    """The lanes that are switched on, as slices of the block's axes."""
    start: Array
    """First addresses, of shape (programs, *corner without its last axis)."""
    lanes: int
    """Lanes of a row."""
    swapped: bool
    """Whether the rows run along the last axis but one."""


@dataclass(frozen=True)
class Access:
    """What the observers of a launch need to know of one operation."""

    kind: AccessKind
    sequence: int
    """Operations of a chunk in the order in which they happened."""
    runs: Runs
    item_bytes: int
    lanes: int
    """Lanes of one program, switched off or not."""
    shared: bool
    """The same in all programs."""
    order_free: int = 0
    """Not 0: an atomic whose result is unused and which commutes with others of the same number."""
    barriers: int = 0
    """How many barriers the programs have passed."""
    shape: tuple[int, ...] = ()
    """Of each program's block of lanes."""
    rows: Regular | None = None
    first_lanes: Int64Array | None = None
    """Of each run, where there are no `rows`; None: the lanes of some run do not follow each other."""
    releases: bool = True
    """Of atomics: whether what the program stored before is seen by who acquires there."""
    spread: str | None = None
    """How the lanes are spread over threads; None where that is not plain."""
    copied: bool = False
    """Of loads: whether they are copies through a tensor descriptor."""
    in_bulk: bool = False
    """Of stores: the same."""
    line: int | None = None
    """Of the candidate's source."""
    update: Atomic | None = None
    """Of atomics: what it does."""

    def same_threads(self, other: Access) -> bool:
        """Whether each thread of each program has the same bytes in both; False where that is not plain."""
        if self.spread is None or self.spread != other.spread:
            return False
        return self.same_lanes(other)

    def same_lanes(self, other: Access) -> bool:
        """Whether each lane of each program has the same bytes in both; False where that is not plain."""
        if self.shape != other.shape or self.item_bytes != other.item_bytes:
            return False
        a, b = self.rows, other.rows
        if a is None or b is None:
            return (
                a is b
                and self.first_lanes is not None
                and other.first_lanes is not None
                and np.array_equal(self.first_lanes, other.first_lanes)
                and np.array_equal(self.runs.start, other.runs.start)
                and np.array_equal(self.runs.length, other.runs.length)
                and np.array_equal(self.runs.program, other.runs.program)
            )
        if a.corner != b.corner or a.swapped != b.swapped or a.lanes != b.lanes:
            return False
        if a.start.shape[0] != b.start.shape[0] and 1 not in (a.start.shape[0], b.start.shape[0]):
            return False
        return bool((a.start == b.start).all())


def regular(pointers: Array, mask: Array | None, item_bytes: int) -> Regular | None:
    """The access as rows of one length, or None; `pointers` (programs, *shape), `mask` (1, *shape)."""
    shape = pointers.shape[1:]
    if not shape:
        return Regular((), pointers, 1, swapped=False) if mask is None else None
    corner = _corner(mask[0]) if mask is not None else tuple(slice(0, n) for n in shape)
    if corner is None:
        return None
    inside = pointers[(slice(None), *corner)]
    if inside.size == 0:
        return None
    swapped = False
    if not _contiguous(inside, item_bytes):
        if len(shape) < 2:
            return None
        inside, swapped = np.swapaxes(inside, -1, -2), True
        if not _contiguous(inside, item_bytes):
            return None
    return Regular(corner, inside[..., 0], inside.shape[-1], swapped)


def runs_of_rows(rows: Regular, item_bytes: int, programs: Int64Array) -> Runs:
    """`programs`: the place of each program of `rows`."""
    each = math.prod(rows.start.shape[1:])
    start = rows.start.reshape(-1).astype(np.int64)
    length = np.full(start.size, rows.lanes * item_bytes, dtype=np.int64)
    return Runs(np.repeat(programs, each), start, length)


def runs_of_lanes(
    pointers: Array, mask: Array, item_bytes: int, programs: Int64Array
) -> tuple[Runs, Int64Array | None]:
    """Both of shape (programs, *shape); `programs`: the place of each. Also the first lane of each run.

    None for these where a run skips a lane.
    """
    count, width = pointers.shape[0], math.prod(pointers.shape[1:])
    flat = pointers.reshape(-1)
    if mask.all():
        at, address = np.arange(flat.size), flat.astype(np.int64)
    else:
        at = np.flatnonzero(mask)
        address = flat.take(at).astype(np.int64)
    if address.size == 0:
        return Runs(address, address, address), address
    follows = np.diff(address) == item_bytes
    # Where the next program begins, a run ends.
    begins = np.searchsorted(at, np.arange(1, count) * width)
    follows[begins[(begins > 0) & (begins < at.size)] - 1] = False
    first = np.concatenate(([0], np.flatnonzero(~follows) + 1))
    lanes = np.diff(first, append=address.size)
    skips = at[first + lanes - 1] - at[first] != lanes - 1
    program = at[first] // width
    plain = None if skips.any() else at[first] - program * width
    return Runs(programs[program], address[first], lanes * item_bytes), plain


def _contiguous(pointers: Array, item_bytes: int) -> bool:
    if pointers.shape[-1] == 1:
        return True
    step = np.uint64(item_bytes)
    first = pointers[0]
    if not bool((first[..., 1:] - first[..., :-1] == step).all()):
        return False
    return bool((pointers[..., 1:] - pointers[..., :-1] == step).all())


def _corner(mask: Array) -> tuple[slice, ...] | None:
    """The mask as the first lanes along each axis, or None."""
    if mask.all():
        return tuple(slice(0, n) for n in mask.shape)
    sizes = []
    for axis in range(mask.ndim):
        others = tuple(a for a in range(mask.ndim) if a != axis)
        sizes.append(int(mask.any(axis=others).sum()))
    corner = tuple(slice(0, n) for n in sizes)
    if int(mask.sum()) != math.prod(sizes) or not mask[corner].all():
        return None
    return corner
