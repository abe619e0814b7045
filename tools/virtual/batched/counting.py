"""The traffic of a chunk of programs, as the counter would have seen it program by program."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.batched.accesses import Access, Int64Array
from kernelagent.tools.virtual.cost.contention import Updates
from kernelagent.tools.virtual.cost.launch_count import Touches

_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)
_SECTOR_SHIFT, _PIECE_SHIFT, _LAST = 5, 6, 63


def touches_of(accesses: list[Access]) -> Touches:
    """Rows in the order of the programs, and of each program's accesses."""
    lanes = masked = 0
    requested = {False: 0, True: 0}
    atomics: list[Updates] = []
    rows: list[tuple[Int64Array, Int64Array, Int64Array, NDArray[np.uint64], Int64Array]] = []
    for item in accesses:
        runs, write = item.runs, item.kind != "load"
        if not runs.start.size:
            continue
        size = int(runs.length.sum())
        first = np.flatnonzero(np.diff(runs.program, prepend=-1))
        lanes += item.lanes * first.size
        masked += item.lanes * first.size - size // item.item_bytes
        requested[write] += size
        if item.kind == "atomic":
            atomics.append(_updated(item))
        program, piece, mask = _pieces(item)
        addresses = runs.start[first][np.searchsorted(runs.program[first], program)]
        rows.append((program, np.full(program.size, item.sequence), piece, mask, addresses))
    if not rows:
        nothing = np.zeros(0, dtype=np.int64)
        none = nothing.astype(np.uint64)
        return Touches(
            lanes,
            masked,
            requested,
            atomics,
            nothing,
            nothing,
            nothing,
            none,
            nothing != 0,
            nothing,
        )
    program, sequence, piece, mask, address = (
        np.concatenate(item) for item in zip(*rows, strict=True)
    )
    turn = program * len(accesses) + sequence
    order = np.argsort(turn, kind="stable")
    written = np.array([item.kind != "load" for item in accesses])
    return Touches(
        lanes,
        masked,
        requested,
        atomics,
        program[order],
        turn[order],
        piece[order],
        mask[order],
        written[sequence[order]],
        address[order],
    )


def _pieces(access: Access) -> tuple[Int64Array, Int64Array, NDArray[np.uint64]]:
    """Program, 2-KiB piece and mask of its sectors; pieces ascend within a program, none twice."""
    runs = access.runs
    low = runs.start >> _SECTOR_SHIFT
    high = (runs.end - access.item_bytes) >> _SECTOR_SHIFT
    first, last = low >> _PIECE_SHIFT, high >> _PIECE_SHIFT
    count = last - first + 1
    program = np.repeat(runs.program, count)
    piece = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(program.size)
    begins, ends = piece == np.repeat(first, count), piece == np.repeat(last, count)
    from_bit = np.where(begins, np.repeat(low & _LAST, count), 0).astype(np.uint64)
    to_bit = np.where(ends, np.repeat(high & _LAST, count), _LAST).astype(np.uint64)
    mask = (_FULL << from_bit) & (_FULL >> (np.uint64(_LAST) - to_bit))
    same = program[1:] == program[:-1]
    if bool((same & (piece[1:] < piece[:-1])).any()):
        order = np.lexsort((piece, program))
        program, piece, mask = program[order], piece[order], mask[order]
        same = program[1:] == program[:-1]
    fresh = np.concatenate(([True], ~same | (piece[1:] != piece[:-1])))
    at = np.flatnonzero(fresh)
    return program[at], piece[at], np.bitwise_or.reduceat(mask, at)


def _updated(access: Access) -> Updates:
    """What the lanes of an atomic update, program by program."""
    runs = access.runs
    count = runs.length // access.item_bytes
    program = np.repeat(runs.program, count)
    skipped = np.arange(program.size) - np.repeat(np.cumsum(count) - count, count)
    address = np.repeat(runs.start, count) + skipped * access.item_bytes
    order = np.lexsort((address, program))
    program, address = program[order], address[order]
    fresh = (np.diff(address, prepend=-1) != 0) | (np.diff(program, prepend=-1) != 0)
    first = np.flatnonzero(fresh)
    lanes = np.diff(first, append=address.size)
    return Updates.of(address[first].astype(np.uint64), lanes, program[first])
