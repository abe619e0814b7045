"""A program's accesses, kept so that it can be run again: does anything hang on a value that it loads?

Where a thread may load a place before or after another one stores to it, the loaded value is open. That is no fault as
long as nothing hangs on it, as with a row of a cache that is loaded with all others and replaced by `tl.where`. Whether
anything does, runs of the same program show in which those lanes load something else: what is there at the end, some of
that, and drawn numbers. All addresses, masks and stored values must be the same, bit by bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from triton._C.libtriton import interpreter as native

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.executor.deadline import TimeIsUp
from kernelagent.tools.virtual.executor.launch import MemoryFault

Exchange = Callable[[Array, Array], Array]
"""Of what was loaded and what is there at the end: what is taken in its place."""
_MOST_BYTES = 1 << 26
_SMALL, _LARGE = 1.0, 1e4
_SPLITS = 4
"""So many times some lanes come early and others late, drawn anew: two lanes are told apart by half of the draws."""


@dataclass(frozen=True)
class Doubtful:
    """Lanes of one load that may find another value than they did."""

    pointers: Array
    lanes: Array
    item_bytes: int


class Doubts:
    """Of the program that runs, by the number of the load."""

    def __init__(self) -> None:
        self.fault: MemoryFault | None = None
        """What is to be said of the first of them, if anything hangs on it."""
        self.loads: dict[int, Doubtful] = {}

    def note(self, load: int, doubtful: Doubtful, fault: MemoryFault) -> None:
        """One more."""
        self.fault = self.fault or fault
        known = self.loads.get(load)
        self.loads[load] = (
            doubtful if known is None else replace(doubtful, lanes=doubtful.lanes | known.lanes)
        )


class _Differs(Exception):
    """Something hangs on what was exchanged."""


class Journal:
    """Of one program, from its beginning."""

    def __init__(self) -> None:
        self.loads = 0
        """How many loads there were."""
        self.complete = True
        """Whether all changes could be kept."""
        self._changes: list[tuple[Array, Array, Array]] = []
        self._bytes = 0
        self._noting = False
        self._noted: list[bytes] = []
        self._expected: list[bytes] | None = None
        self._exchanged: dict[int, tuple[Array, Array]] = {}
        """By number of a load: lanes, and what is there at the end."""
        self._exchange: Exchange | None = None

    def loading(self, pointers: Array, mask: Array) -> None:
        """Before a load."""
        self._note(b"load", pointers, mask)

    def loaded(self, values: Array) -> Array:
        """After it; returns what the program gets."""
        number = self.loads
        self.loads += 1
        if self._exchange is None or number not in self._exchanged:
            return values
        lanes, late = self._exchanged[number]
        other = self._exchange(values, late.view(values.dtype))
        return np.where(lanes, other, values).astype(values.dtype)

    def changing(self, kind: bytes, pointers: Array, mask: Array, *values: Array) -> None:
        """Before a store or an atomic."""
        self._note(kind, pointers, mask, *values)
        if not self.complete:
            return
        on = np.broadcast_to(mask, pointers.shape)
        if not on.any():
            return
        before = _held(pointers, on, values[0].dtype.itemsize)
        self._changes.append((np.array(pointers), np.array(on), before))
        self._bytes += pointers.nbytes + on.size + before.nbytes
        self.complete = self._bytes <= _MOST_BYTES

    def require_unused(self, doubts: Doubts, run: Callable[[], None]) -> None:
        """Raises the fault unless the program does the same whatever those lanes load.

        `run`: the program, with nobody watching. Memory is then as after one run.
        """
        if doubts.fault is None:
            return
        if not self.complete:
            raise doubts.fault
        # The program has ended: this is what loads that come late find.
        for number, item in doubts.loads.items():
            late = _held(item.pointers, item.lanes, item.item_bytes)
            self._exchanged[number] = item.lanes, late
        self._noting = True
        try:
            self._run_again(run, None)
            self._expected = self._noted
            for exchange in _exchanges():
                self._run_again(run, exchange)
        except TimeIsUp:
            raise
        except Exception as error:  # a kernel raises anything
            # Of whatever kind: it did not come when nothing was exchanged.
            raise doubts.fault from error

    def _run_again(self, run: Callable[[], None], exchange: Exchange | None) -> None:
        for where, on, before in reversed(self._changes):
            native.store(np.ascontiguousarray(where), before, np.ascontiguousarray(on))
        self._changes.clear()
        self.loads, self._bytes, self._noted, self._exchange = 0, 0, [], exchange
        run()
        if self._expected is not None and len(self._noted) != len(self._expected):
            raise _Differs

    def _note(self, kind: bytes, *parts: Array) -> None:
        """Raises `_Differs` before anything is done to other places than in the run before."""
        if not self._noting:
            return
        digest = hashlib.blake2b(kind, digest_size=16)
        for part in parts:
            digest.update(repr((part.shape, part.dtype.str)).encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        at, made = len(self._noted), digest.digest()
        if self._expected is not None and self._expected[at : at + 1] != [made]:
            raise _Differs
        self._noted.append(made)


def _held(pointers: Array, on: Array, item_bytes: int) -> Array:
    kind = np.dtype(f"u{item_bytes}")
    where, mask = np.ascontiguousarray(pointers), np.ascontiguousarray(on)
    result: Array = native.load(where, mask, np.zeros(where.shape, kind), kind)
    return result


def _exchanges() -> Iterator[Exchange]:
    drawn = np.random.default_rng()

    def partly(values: Array, late: Array) -> Array:
        return np.where(drawn.random(values.shape) < 0.5, late, values)

    def numbers(scale: float) -> Exchange:
        def draw(values: Array, _: Array) -> Array:
            if values.dtype == np.bool_:
                return ~values
            if values.dtype.kind in "iu":
                most = 100 if scale == _SMALL else np.iinfo(values.dtype).max
                return drawn.integers(0, most, values.shape, dtype=values.dtype)
            return (scale * drawn.standard_normal(values.shape)).astype(values.dtype)

        return draw

    yield from (lambda _, late: late, *[partly] * _SPLITS, numbers(_SMALL), numbers(_LARGE))
