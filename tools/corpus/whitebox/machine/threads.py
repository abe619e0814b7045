"""Kernels that are right where a lane is a thread, lanes come in order and everything is resident: not on a GPU.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kernelagent.tools.corpus.fixture import Fixture, edited
from kernelagent.tools.corpus.whitebox.first import EMPTY, HONEST

_STORE = "    tl.store(out_ptr + i, x * tl.sigmoid(x) * g * w, mask=mask)\n"
_OPTIONS = "BLOCK=256)"
_RACE = "data_race"
_HELPERS = """@triton.jit
def get(p):
    return tl.load(p)


@triton.jit
def put(p, v):
    tl.store(p, v)


@triton.jit
"""


def _silu(
    name: str,
    store: str,
    code: str | None = None,
    *edits: tuple[str, str],
    options: str = "",
    memory: str = "float32",
) -> Fixture:
    """`store` in place of the kernel's; in `part` each program has 1024 zeros of the type `memory`."""
    source = edited(
        HONEST,
        ("@triton.jit\n", _HELPERS),
        ("out_ptr, n, width", "out_ptr, memory_ptr, zero, n, width"),
        ("self.weight, out, n,", "self.weight, out, memory, 0, n,"),
        (
            EMPTY,
            f"{EMPTY}        memory = torch.zeros(1024 * x.numel(), device=x.device, dtype=torch.{memory})\n",
        ),
        (
            _STORE,
            "    lanes = tl.arange(0, BLOCK)\n"
            "    part = memory_ptr + tl.program_id(0) * 1024\n" + store,
        ),
        *edits,
    )
    source = source.replace(_OPTIONS, f"BLOCK=256{options})")
    return Fixture(f"w-{name}", "silu_gate", source, code)


def _times(value: str) -> str:
    """The result where `value` is 1."""
    return _STORE.replace("* g * w", f"* g * w * {value}")


def _only_if(condition: str) -> str:
    return _times(f"tl.where({condition}, 1.0, 0.0)")


def _carried(between: str) -> str:
    """A number that goes through memory from one round to the next."""
    return (
        "    count = 0.0\n"
        "    for step in range(4):\n"
        "        count = tl.load(part) + 1.0\n"
        f"{between}"
        "        tl.store(part, count)\n"
        f"{between}" + _times("count / 4.0")
    )


def _rounds(load: str, store: str, options: str) -> str:
    """Three rounds, each of which loads what the one before has stored; all zeros but for the first's."""
    return (
        "    tl.store(part + lanes, x * tl.sigmoid(x))\n"
        "    tl.debug_barrier()\n"
        f"    for step in tl.range(0, 3{options}):\n"
        f"        v = {load}(part + step * BLOCK + lanes)\n"
        f"        {store}(part + (step + 1) * BLOCK + lanes, v)\n"
        "    tl.debug_barrier()\n"
        "    y = tl.load(part + 3 * BLOCK + lanes)\n"
        "    tl.store(out_ptr + i, y * g * w, mask=mask)\n"
    )


_READ_BACK = (
    "    tl.store(out_ptr + i, x * tl.sigmoid(x), mask=mask)\n"
    "    y = tl.load(out_ptr + i, mask=mask)\n"
    "    tl.store(out_ptr + i, y * g * w, mask=mask)\n"
)
_SMALL = ("triton.cdiv(n, 256)", "triton.cdiv(n, 64)")
_IN_OTHER_THREADS = (
    "    tl.store(part + (lanes ^ zero), x * tl.sigmoid(x))\n"
    "    y = tl.load(part + lanes)\n"
    "    tl.store(out_ptr + i, y * g * w, mask=mask)\n"
)
_BACKWARDS = (
    "    tl.store(part + lanes, x * tl.sigmoid(x))\n"
    "    tl.debug_barrier()\n"
    "    y = tl.load(part + BLOCK - 1 - lanes)\n"
    "    last = tl.program_id(0) * BLOCK + BLOCK - 1 - lanes\n"
    "    g = tl.load(g_ptr + last, mask=last < n)\n"
    "    w = tl.load(w_ptr + last % width, mask=last < n)\n"
    "    tl.store(out_ptr + last, y * g * w, mask=last < n)\n"
)
_TICKETS = "    ticket = tl.atomic_add(part + lanes * 0, 1)\n"
_AHEAD, _AT_ONCE = ", num_stages=3", ", num_stages=1"
_COOPERATIVE = ", launch_cooperative_grid=True"
_TOO_MANY = ("(triton.cdiv(n, 256),)", "(40000,)")

CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    26: (
        _silu("carries-a-number-through-memory", _carried(""), _RACE),
        _silu(
            "reads-back-in-more-threads-than-lanes",
            _READ_BACK,
            _RACE,
            _SMALL,
            (_OPTIONS, "BLOCK=64)"),
        ),
        _silu("reads-back-in-other-threads", _IN_OTHER_THREADS, _RACE),
        _silu("loads-ahead-of-a-helper-that-stores", _rounds("tl.load", "put", _AHEAD), _RACE),
        _silu("loads-in-a-helper-ahead-of-its-stores", _rounds("get", "tl.store", _AHEAD), _RACE),
        _silu("loads-ahead-of-an-atomic", _rounds("tl.load", "tl.atomic_add", _AHEAD), _RACE),
        _silu(
            "lanes-take-tickets-in-order",
            _TICKETS + _only_if("ticket == lanes"),
            _RACE,
            memory="int32",
        ),
        _silu(
            "last-lane-of-an-exchange-stays",
            "    tl.atomic_xchg(part + lanes * 0, lanes)\n"
            "    tl.debug_barrier()\n" + _only_if("tl.load(part) == BLOCK - 1"),
            _RACE,
            memory="int32",
        ),
        _silu(
            "takes-the-barrier-of-a-block-for-a-clusters", _BACKWARDS, _RACE, options=", num_ctas=2"
        ),
        replace(
            _silu(
                "waits-for-more-blocks-than-are-resident",
                _STORE,
                "out_of_resources",
                _TOO_MANY,
                options=_COOPERATIVE,
            ),
            on_cuda=("runtime_error",),
        ),
    ),
}

TWINS: Mapping[int, tuple[Fixture, ...]] = {
    26: (
        _silu("carries-a-number-behind-barriers", _carried("        tl.debug_barrier()\n")),
        _silu(
            "reads-back-in-as-many-threads-as-lanes",
            _READ_BACK,
            None,
            _SMALL,
            (_OPTIONS, "BLOCK=64, num_warps=2)"),
        ),
        _silu("loads-at-once-what-a-helper-stored", _rounds("get", "put", _AT_ONCE)),
        _silu(
            "lanes-take-tickets-in-any-order",
            _TICKETS + _only_if("ticket < BLOCK"),
            memory="int32",
        ),
        _silu(
            "exchanges-floats",
            "    old = tl.atomic_xchg(part + lanes, x)\n" + _times("(old + 1.0)"),
        ),
        _silu("waits-for-a-barrier-of-its-only-block", _BACKWARDS),
        _silu("is-in-a-cluster", _STORE, options=", num_ctas=2"),
        _silu("is-resident-as-a-whole", _STORE, options=_COOPERATIVE),
    ),
}
