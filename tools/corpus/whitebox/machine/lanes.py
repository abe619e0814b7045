"""Kernels whose lanes hand values to each other with nothing that orders them, by atomics or by loads that come early.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited
from kernelagent.tools.corpus.whitebox.first import EMPTY, HONEST

_STORE = "    tl.store(out_ptr + i, x * tl.sigmoid(x) * g * w, mask=mask)\n"
_BARRIER = "    tl.debug_barrier()\n"
_RACE = "data_race"
_RELAXED = ", sem='relaxed'"


def _silu(name: str, store: str, code: str | None = None, *, memory: str = "float32") -> Fixture:
    """`store` in place of the kernel's; each program has 256 zeros of its own at `part`, for its lanes `j`."""
    source = edited(
        HONEST,
        ("out_ptr, n, width", "out_ptr, memory_ptr, n, width"),
        ("self.weight, out, n,", "self.weight, out, memory, n,"),
        (
            EMPTY,
            f"{EMPTY}        memory = torch.zeros(x.numel() + 256, device=x.device, dtype=torch.{memory})\n",
        ),
        (
            _STORE,
            "    j = tl.arange(0, BLOCK)\n    part = memory_ptr + tl.program_id(0) * BLOCK\n"
            + store,
        ),
    )
    return Fixture(f"w-{name}", "silu_gate", source, code)


_VALUE = "x * tl.sigmoid(x)"
_OF_THE_OTHER = (
    "    i = tl.program_id(0) * BLOCK + (j ^ 128)\n"
    "    g = tl.load(g_ptr + i, mask=i < n)\n"
    "    w = tl.load(w_ptr + i % width, mask=i < n)\n"
    "    tl.store(out_ptr + i, y * g * w, mask=i < n)\n"
)


def _by_exchange(between: str, *, looked_at: bool) -> str:
    """Each lane's value goes to the lane half a block away."""
    old, used = ("old = ", "    y += 0.0 * old\n") if looked_at else ("", "")
    return (
        f"    {old}tl.atomic_xchg(part + j, {_VALUE}{_RELAXED})\n"
        f"{between}"
        f"    y = tl.atomic_xchg(part + (j ^ 128), 0.0{_RELAXED})\n" + used + _OF_THE_OTHER
    )


def _by_adding(sem: str) -> str:
    return (
        f"    tl.atomic_add(part + j, {_VALUE}{sem})\n"
        f"    y = tl.atomic_add(part + (j ^ 128), 0.0{sem})\n" + _OF_THE_OTHER
    )


def _loaded_before(between: str) -> str:
    """The zeros that are loaded are there as long as no lane has put its value there."""
    return (
        "    zero = tl.load(part + (j ^ 128))\n"
        f"{between}"
        f"    tl.atomic_xchg(part + j, {_VALUE}{_RELAXED})\n"
        f"    y = {_VALUE} + zero\n"
        "    tl.store(out_ptr + i, y * g * w, mask=mask)\n"
    )


def _emptied_first(between: str) -> str:
    """One operation replaces, the other adds; nobody looks at what they return."""
    return (
        f"    tl.atomic_xchg(part + (j ^ 128), 0.0{_RELAXED})\n"
        f"{between}"
        f"    tl.atomic_add(part + j, {_VALUE}{_RELAXED})\n"
        f"{_BARRIER}"
        "    y = tl.load(part + j)\n"
        "    tl.store(out_ptr + i, y * g * w, mask=mask)\n"
    )


def _a_row_of_a_cache(used: str) -> str:
    """Four rows of zeros are loaded, and one of them is replaced in memory by ones at the same time."""
    return (
        "    r, c = tl.arange(0, 4)[:, None], tl.arange(0, 64)[None, :]\n"
        "    held = tl.load(part + r * 64 + c)\n"
        "    tl.store(part + 64 + tl.arange(0, 64), tl.full((64,), 1.0, tl.float32))\n" + used
    )


def _only_if(condition: str) -> str:
    return _STORE.replace("* g * w", f"* g * w * tl.where({condition}, 1.0, 0.0)")


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    26: (
        _silu("exchanges-lanes-without-a-barrier", _by_exchange("", looked_at=False), _RACE),
        _silu("exchanges-lanes-and-looks-at-both", _by_exchange("", looked_at=True), _RACE),
        _silu("reads-other-lanes-by-a-relaxed-atomic", _by_adding(_RELAXED), _RACE),
        _silu("loads-before-another-lane-exchanges", _loaded_before(""), _RACE),
        _silu("empties-before-another-lane-adds", _emptied_first(""), _RACE),
        _silu(
            "keeps-one-lane-of-what-another-stores",
            _a_row_of_a_cache(
                "    held = tl.where((r == 1) & (c < 63), 0.0, held)\n"
                + _only_if("tl.sum(held) == 0")
            ),
            _RACE,
        ),
        _silu(
            "asks-whether-all-lanes-came-early-or-late",
            _a_row_of_a_cache("    late = tl.sum(held)\n" + _only_if("(late == 0) | (late == 64)")),
            _RACE,
        ),
    ),
}

TWINS: Mapping[int, tuple[Fixture, ...]] = {
    26: (
        _silu("exchanges-lanes-behind-a-barrier", _by_exchange(_BARRIER, looked_at=True)),
        _silu("reads-other-lanes-by-an-atomic-that-synchronizes", _by_adding("")),
        _silu("loads-and-exchanges-behind-a-barrier", _loaded_before(_BARRIER)),
        _silu("empties-and-adds-behind-a-barrier", _emptied_first(_BARRIER)),
        _silu(
            "drops-what-another-stores",
            _a_row_of_a_cache(
                "    held = tl.where(r == 1, 1.0, held)\n" + _only_if("tl.sum(held) == 64")
            ),
        ),
        _silu(
            "adds-in-any-order",
            f"    tl.atomic_add(part + j, 1{_RELAXED})\n"
            f"    tl.atomic_add(part + (j ^ 128), 2{_RELAXED})\n"
            f"{_BARRIER}" + _only_if("tl.load(part + j) == 3"),
            memory="int32",
        ),
        _silu(
            "draws-tickets-in-rounds",
            "    most = j * 0\n"
            "    for step in range(2):\n"
            f"        most += tl.atomic_add(part + (j ^ (step * 128)) // 2, 1{_RELAXED})\n"
            + _only_if("most < 6"),
            memory="int32",
        ),
    ),
}
