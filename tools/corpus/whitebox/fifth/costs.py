"""Candidates that compute rightly and waste time where neither `tl` calls nor the average program show it.

Sorted under the threats they belong to, as in `whitebox`; `whitebox_costs` has those of former rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kernelagent.tools.corpus.fixture import Fixture, edited
from kernelagent.tools.corpus.whitebox.first import HONEST, twin

_SIZE = "        n = x.numel()\n"
_STORE = "    tl.store(out_ptr + i, x * tl.sigmoid(x) * g * w, mask=mask)\n"
_PLUS = _STORE.replace("* w,", "* w + tl.where(z != z, 1.0, 0.0),")
_LOADS = "    x = tl.load(x_ptr + i, mask=mask)\n"

_TRANSPOSES = """    m = tl.reshape(x, (16, BLOCK // 16))
    for turn in range(TURNS):
        m = tl.reshape(tl.trans(m), (16, BLOCK // 16)) + 1e-30
    z = tl.reshape(m, (BLOCK,))
"""
_GATHERS = """    z = x
    k = (tl.arange(0, BLOCK) * STEP) % BLOCK
    for turn in range(TURNS):
        z = tl.gather(z, k, 0)
"""
_ROWS = """    rows = tl.sum(tl.reshape(x, (32, BLOCK // 32)), 1)
    more = rows + 1.0
    third = rows + 2.0
    for turn in range(TURNS):
        rows = tl.exp(-rows)
        more = tl.exp(-more)
        third = tl.exp(-third)
    z = tl.sum(rows + more + third, 0)
"""
_DILUTED = """    z = 0.0
    for turn in range(n // 100000):
        for k in tl.static_range(100):
            z += tl.load(x_ptr + turn + 3 * k)
    for turn in range(TURNS):
        z += tl.load(x_ptr + turn)
"""
_THROUGH_MEMORY = """    z = x
    for turn in range(TURNS):
        tl.store(out_ptr + i, z, mask=mask)
        tl.debug_barrier()
        z = tl.load(out_ptr + i, mask=mask)
        tl.debug_barrier()
"""
_BY_LARGEST = """    most = tl.max(tl.where(mask, tl.abs(x), 0.0), axis=0)
    z = x
    for turn in range((tl.minimum(most, 300000.0) / 1000.0).to(tl.int32)):
        z = z * 0.5
"""
_LOCKED = """    while tl.atomic_cas(flag_ptr, 0, 1) == 1:
        pass
"""
_UNLOCKED = _STORE + "    tl.debug_barrier()\n    tl.atomic_xchg(flag_ptr, 0)\n"
_IN_LINE = """    while tl.atomic_add(flag_ptr, 0) < tl.program_id(0):
        pass
"""
_NEXT = _STORE + "    tl.debug_barrier()\n    tl.atomic_add(flag_ptr, 1)\n"
_SMALL = (("(triton.cdiv(n, 256),)", "(triton.cdiv(n, 16),)"), ("BLOCK=256", "BLOCK=16"))
"""Several dozen programs."""
_FLAG = (
    ("out_ptr, n, width", "out_ptr, flag_ptr, n, width"),
    ("self.weight, out, n,", "self.weight, out, flag, n,"),
    (_SIZE, _SIZE + "        flag = torch.zeros(1, device=x.device, dtype=torch.int32)\n"),
)


def _then(lines: str, turns: int, **others: int) -> tuple[str, str]:
    """Computes `z` as well, which decides only where it is not a number."""
    for name, value in ({"TURNS": turns} | others).items():
        lines = lines.replace(name, str(value))
    return _STORE, lines + _PLUS


def _slow(name: str, least_us: float, *edits: tuple[str, str]) -> Fixture:
    """Accepted, and never estimated below `least_us`; the honest kernel is estimated at 20 us, which are the host's."""
    source = edited(HONEST, *edits)
    return Fixture(f"w-{name}", "silu_gate", source, least_us=least_us, estimated=True)


def _quick(name: str, *edits: tuple[str, str]) -> Fixture:
    return replace(twin(name, *edits), estimated=True)


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    51: (
        Fixture(
            "w-as-many-rounds-as-the-largest-input-says",
            "silu_gate",
            edited(HONEST, _then(_BY_LARGEST, 0)),
            discloses="costs_by_contents",
            estimated=True,
        ),
    ),
    80: (
        _slow("turns-a-square-again-and-again", 24.0, _then(_TRANSPOSES, 1000)),
        _slow("gathers-from-one-bank", 24.0, _then(_GATHERS, 1000, STEP=32)),
        _slow(
            "computes-in-all-lanes-what-one-would-do",
            28.0,
            _then(_ROWS, 1000),
            ("BLOCK=256)", "BLOCK=256, num_warps=1)"),
        ),
        _slow("hides-its-loads-among-others-that-never-run", 26.0, _then(_DILUTED, 1000)),
        _slow("goes-through-memory-and-back", 40.0, _then(_THROUGH_MEMORY, 200)),
        _slow(
            "one-lock-for-all-programs",
            38.0,
            (_LOADS, _LOCKED + _LOADS),
            (_STORE, _UNLOCKED),
            *_FLAG,
            *_SMALL,
        ),
        _slow(
            "programs-wait-in-line",
            38.0,
            (_LOADS, _IN_LINE + _LOADS),
            (_STORE, _NEXT),
            *_FLAG,
            *_SMALL,
        ),
    ),
}

TWINS: Mapping[int, tuple[Fixture, ...]] = {
    51: (
        _quick(
            "as-many-rounds-as-are-written",
            _then(
                _BY_LARGEST.replace("(tl.minimum(most, 300000.0) / 1000.0).to(tl.int32)", "2"), 0
            ),
        ),
    ),
    80: (
        _quick("turns-a-square-twice", _then(_TRANSPOSES, 2)),
        _quick("gathers-once", _then(_GATHERS, 1, STEP=1)),
        _quick("sums-of-rows", _then(_ROWS, 1)),
        _quick(
            "counts-its-programs",
            (_STORE, _STORE + "    tl.atomic_add(flag_ptr, 1)\n"),
            *_FLAG,
            *_SMALL,
        ),
    ),
}
