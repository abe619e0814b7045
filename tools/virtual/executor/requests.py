"""What a runner may ask the executor to launch: every number is checked before anything is touched.

The runner's process holds the candidate, so its requests may be forged. Where storages lie follows
from their sizes, their order and a drawn gap before each; a request that says otherwise, or reaches beyond a storage,
is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kernelagent.tools.calls.tensors import Malformed, dtype_of
from kernelagent.tools.virtual.device.storages.arena import ALIGNMENT, GAP, MOST_GAP
from kernelagent.tools.virtual.device.storages.fresh_memory import Fill

MOST_BYTES = 1 << 36
"""Address space that one launch may ask for; memory itself is bounded by the process's limit."""
_MOST_CLAIMED = 1 << 46
"""The same for tensors that hold nothing."""
_MOST_ROWS = 1 << 16
_MOST_DEPTH = 16
_LARGEST = 1 << 62


class Forged(Exception):
    """A request that the runner's own code never makes; the message says what is wrong with it."""


@dataclass(frozen=True)
class StorageRow:
    """One storage of a launch: `bytes` of it, `at` in the shared memory unless it is `empty`."""

    at: int
    bytes: int
    empty: bool
    identity: int
    fill: Fill | None = None
    """What it was filled with when it was made of fresh memory; None: it was not."""


@dataclass(frozen=True)
class LaunchRequest:
    """A launch as asked for, its numbers checked against each other."""

    handle: int
    grid: tuple[int, int, int]
    args: tuple[Any, ...]
    storages: tuple[StorageRow, ...]
    arena_bytes: int
    pointees: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    """Storages that tables of addresses point at: where they begin in the runner, and as a tensor."""


def launch_request(
    request: Mapping[str, Any], kernels: int, parameters: Sequence[int]
) -> LaunchRequest:
    """Read a launch; `kernels`: how many there are, `parameters`: of each. Raises `Forged`."""
    handle = _whole(request.get("handle"), "the handle", most=kernels - 1)
    grid = request.get("grid")
    # What a device allows is not asked here: a grid of -1 is somebody's mistake.
    if not isinstance(grid, list) or len(grid) != 3 or not all(type(n) is int for n in grid):
        raise Forged("the grid has not three sizes")
    storages = storage_rows(request)
    reported = int(request["arena_bytes"])
    args = request.get("args")
    if not isinstance(args, list) or len(args) != parameters[handle]:
        raise Forged(f"it has not the {parameters[handle]} arguments that the kernel has")
    for argument in args:
        _require_argument(argument, storages, 0)
    x, y, z = grid
    pointees = _pointees(request.get("pointees"), storages)
    return LaunchRequest(handle, (x, y, z), tuple(args), storages, reported, pointees)


def storage_rows(request: Mapping[str, Any]) -> tuple[StorageRow, ...]:
    """The storages that a request brings, each where it must lie. Raises `Forged`."""
    rows = request.get("storages")
    if not isinstance(rows, list) or len(rows) > _MOST_ROWS:
        raise Forged("its storages are no list")
    storages = tuple(map(_storage, rows))
    needed = _require_places(storages)
    reported = _whole(request.get("arena_bytes"), "the size of the shared memory", most=MOST_BYTES)
    if reported != needed:
        raise Forged(
            f"it says {reported} bytes of shared memory where its storages end at {needed}"
        )
    return storages


def _pointees(
    rows: Any, storages: Sequence[StorageRow]
) -> tuple[tuple[int, Mapping[str, Any]], ...]:
    """Ranges of the runner's memory that do not overlap, each as long as the storage it stands for."""
    if not isinstance(rows, list) or len(rows) > _MOST_ROWS:
        raise Forged("what tables of addresses point at is no list")
    result: list[tuple[int, Mapping[str, Any]]] = []
    for row in rows:
        if not isinstance(row, dict):
            raise Forged("what a table of addresses points at is not described")
        body = row.get("tensor")
        if not isinstance(body, dict):
            raise Forged("what a table of addresses points at is no tensor")
        _require_inside(body, storages)
        result.append((_whole(row.get("address"), "an address"), body))
    ends = sorted((low, low + storages[int(body["storage"])].bytes) for low, body in result)
    if any(end > low for (_, end), (low, _) in pairwise(ends)):
        raise Forged("two storages that tables point at overlap")
    return tuple(result)


def _storage(row: Any) -> StorageRow:
    if not isinstance(row, dict) or not isinstance(row.get("empty"), bool):
        raise Forged("a storage is not described")
    most = _MOST_CLAIMED if row["empty"] else MOST_BYTES
    return StorageRow(
        _whole(row.get("at"), "a storage's place", most=MOST_BYTES),
        _whole(row.get("bytes"), "a storage's size", most=most),
        row["empty"],
        _whole(row.get("identity"), "a storage's identity"),
        _fill(row.get("fill")),
    )


def _fill(report: Any) -> Fill | None:
    if report is None:
        return None
    if not isinstance(report, dict):
        raise Forged("what fresh memory was filled with is not described")
    seed, kind = report.get("seed"), str(report.get("dtype"))
    try:
        dtype_of(kind)
    except Malformed as error:
        raise Forged(str(error)) from error
    return Fill(
        _whole(report.get("serial"), "the number of fresh memory"),
        kind,
        None if seed is None else _whole(seed, "the seed of a fill"),
    )


def _require_places(storages: Sequence[StorageRow]) -> int:
    """Each storage follows the last one and a gap, as wide as may be drawn and aligned; returns the end."""
    end = 0
    for row in storages:
        if row.empty:
            continue
        first, beyond = end + GAP, end + MOST_GAP + ALIGNMENT
        if not first <= row.at < beyond:
            raise Forged(f"a storage lies at {row.at}, not between {first} and {beyond}")
        end = row.at + row.bytes
    return end


def _require_argument(argument: Any, storages: Sequence[StorageRow], depth: int) -> None:
    if depth > _MOST_DEPTH:
        raise Forged("its arguments are nested too deep")
    if not isinstance(argument, dict):
        if argument is None or isinstance(argument, bool | int | float | str):
            return
        raise Forged("an argument is not described")
    if "tensor" in argument:
        _require_inside(argument["tensor"], storages)
    elif "descriptor" in argument:
        body = argument["descriptor"]
        if not isinstance(body, dict):
            raise Forged("a descriptor is not described")
        _require_descriptor(body, storages)
    elif "items" in argument:
        if not isinstance(argument["items"], list):
            raise Forged("a tuple is no list")
        for item in argument["items"]:
            _require_argument(item, storages, depth + 1)


def _require_descriptor(body: Mapping[str, Any], storages: Sequence[StorageRow]) -> None:
    _require_inside(body.get("base"), storages)
    ranks = {
        len(_wholes(body.get(name), f"a descriptor's {name}"))
        for name in ("shape", "strides", "block_shape")
    }
    if len(ranks) != 1:
        raise Forged("a descriptor's shape, strides and block differ in length")


def _require_inside(body: Any, storages: Sequence[StorageRow]) -> None:
    """The tensor's elements lie in the storage it names."""
    if not isinstance(body, dict):
        raise Forged("a tensor is not described")
    number = _whole(body.get("storage"), "a tensor's storage", most=len(storages) - 1)
    offset = _whole(body.get("offset"), "a tensor's offset")
    shape = _wholes(body.get("shape"), "a tensor's shape")
    strides = _wholes(body.get("strides"), "a tensor's strides")
    if len(shape) != len(strides) or len(shape) > 64:
        raise Forged("a tensor's shape and strides differ in length")
    try:
        item = dtype_of(str(body.get("dtype"))).itemsize
    except Malformed as error:
        raise Forged(str(error)) from error
    size = storages[number].bytes
    if 0 in shape:
        return
    reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if offset + (reach + 1) * item > size:
        raise Forged(f"a tensor reaches {offset + (reach + 1) * item} bytes into {size}")


def _wholes(values: Any, what: str) -> tuple[int, ...]:
    if not isinstance(values, list):
        raise Forged(f"{what} is no list")
    return tuple(_whole(value, what) for value in values)


def _whole(value: Any, what: str, *, most: int = _LARGEST) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise Forged(f"{what} is {value!r:.60}")
    return value
