"""Kernels that hang on the order of a program's threads, or of programs that begin long after others: not on a GPU.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel
from kernelagent.tools.corpus.whitebox.first import EMPTY, HONEST

_STORE = "    tl.store(out_ptr + i, x * tl.sigmoid(x) * g * w, mask=mask)\n"
_BARRIER = "    tl.debug_barrier()\n"
_RACE = "data_race"


def _silu(name: str, store: str, code: str | None = None, *edits: tuple[str, str]) -> Fixture:
    """`store` in place of the kernel's; each program has 256 places of its own at `part`, for its lanes `j`."""
    source = edited(
        HONEST,
        ("out_ptr, n, width", "out_ptr, memory_ptr, n, width"),
        ("self.weight, out, n,", "self.weight, out, memory, n,"),
        (EMPTY, f"{EMPTY}        memory = torch.empty(x.numel() + 256, device=x.device)\n"),
        (
            _STORE,
            "    j = tl.arange(0, BLOCK)\n    part = memory_ptr + tl.program_id(0) * BLOCK\n"
            + store,
        ),
        *edits,
    )
    return Fixture(f"w-{name}", "silu_gate", source, code)


def _moved_twice(there: str, back: str, between: str) -> str:
    """Each lane's value goes to another one and back, in the same memory."""
    return (
        "    tl.store(part + j, x * tl.sigmoid(x))\n"
        f"{_BARRIER}"
        f"    u = tl.load(part + {there})\n"
        f"{between}"
        "    tl.store(part + j, u)\n"
        f"{_BARRIER}"
        f"    y = tl.load(part + {back})\n"
        "    tl.store(out_ptr + i, y * g * w, mask=mask)\n"
    )


def _stored_twice(between: str) -> str:
    """Lanes first store to each other's places."""
    return (
        "    first = tl.program_id(0) * BLOCK\n"
        "    other = first + BLOCK - 1 - j\n"
        "    tl.store(out_ptr + other, x, mask=other < n)\n" + between + _STORE
    )


_IN_PLACE = (
    "    tl.store(out_ptr + i, x * tl.sigmoid(x), mask=mask)\n"
    "    y = tl.load(out_ptr + i, mask=mask)\n"
    "    tl.store(out_ptr + i, y * g, mask=mask)\n"
    "    y = tl.load(out_ptr + i, mask=mask)\n"
    "    tl.store(out_ptr + i, y * w, mask=mask)\n"
)
_SCALED = (
    "    y = x * tl.sigmoid(x) * g * w\n"
    "    tl.store(part + j, y)\n"
    f"{_BARRIER}"
    "    turned = tl.load(part + BLOCK - 1 - j)\n"
    "    ours = tl.sum(turned, 0) == tl.sum(turned, 0)\n"
    "    tl.store(part + j, tl.where(ours, y * 0.5, 0.0))\n"
    f"{_BARRIER}"
    "    tl.store(out_ptr + i, 2.0 * tl.load(part + j), mask=mask)\n"
)


def _handed_over(
    name: str, code: str | None, hand: str, wait: str, load: str = "tl.load(out_ptr + rows + row)"
) -> Fixture:
    """The first half of the programs add up a row each, the others give the sums out.

    The sums lie behind the results.
    """
    source = edited(
        honest_kernel("row_sum"),
        ("x_ptr, out_ptr, width", "x_ptr, out_ptr, flag_ptr, rows, width"),
        ("    row = tl.program_id(0)\n", "    row = tl.program_id(0) % rows\n"),
        (
            "    tl.store(out_ptr + row, tl.sum(total, axis=0))",
            "    if tl.program_id(0) < rows:\n"
            f"{hand}"
            "    else:\n"
            f"{wait}"
            f"        tl.store(out_ptr + row, {load})",
        ),
        (
            "torch.empty(x.shape[0], device=x.device, dtype=x.dtype)",
            "torch.zeros(2 * x.shape[0], device=x.device, dtype=x.dtype)\n"
            "        flags = torch.zeros(x.shape[0], device=x.device, dtype=torch.int32)",
        ),
        (
            "row_sum[(x.shape[0],)](x, out,",
            "row_sum[(2 * x.shape[0],)](x, out, flags, x.shape[0],",
        ),
        ("        return out\n", "        return out[: x.shape[0]].clone()\n"),
    )
    return Fixture(f"w-{name}", "row_sum", source, code)


def _given(how: str) -> str:
    return f"        tl.atomic_xchg(out_ptr + rows + row, tl.sum(total, axis=0){how})\n"


_RELAXED, _ACQUIRE, _RELEASE = (f', sem="{order}"' for order in ("relaxed", "acquire", "release"))


def _flag(order: str) -> str:
    return f"        tl.atomic_xchg(flag_ptr + row, 1{order})\n"


def _wait(order: str) -> str:
    return f"        while tl.atomic_add(flag_ptr + row, 0{order}) == 0:\n            pass\n"


_GROUPS = (
    "    ticket = tl.atomic_add(flag_ptr, 1)\n"
    "    far = tl.abs(ticket // 64 - tl.program_id(0) // 64)\n"
)


def _tickets(name: str, value: str, code: str | None) -> Fixture:
    """130 programs, each with a piece of nine numbers and a ticket."""
    source = edited(
        HONEST,
        ("out_ptr, n, width", "out_ptr, flag_ptr, n, width"),
        ("    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    mask = i < n\n",
         "    i = tl.program_id(0) * 9 + tl.arange(0, BLOCK)\n"
         "    mask = (i < n) & (tl.arange(0, BLOCK) < 9)\n"),
        (_STORE, _GROUPS + _STORE.replace("* g * w", f"* g * w + {value}")),
        (EMPTY, f"{EMPTY}        flag = torch.zeros(1, device=x.device, dtype=torch.int32)\n"),
        ("(triton.cdiv(n, 256),)", "(triton.cdiv(n, 9),)"),
        ("self.weight, out, n,", "self.weight, out, flag, n,"),
        ("BLOCK=256)", "BLOCK=16)"),
    )  # fmt: skip
    return Fixture(f"w-{name}", "silu_gate", source, code)


_IN_KERNEL = edited(
    HONEST,
    (
        "    x = tl.load(x_ptr + i, mask=mask)\n",
        "    tile = tl.make_tensor_descriptor(x_ptr, shape=[n], strides=[1], block_shape=[BLOCK])\n"
        "    x = tile.load([tl.program_id(0) * BLOCK])\n",
    ),
    (
        EMPTY,
        "        triton.set_allocator(\n"
        "            lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=x.device)\n"
        "        )\n" + EMPTY,
    ),
)


_NEW_MEMORY = "torch.empty(size, dtype=torch.int8, device=x.device)"


def _scratch_of(name: str, memory: str, code: str | None = "out_of_bounds") -> Fixture:
    """A descriptor is written to memory that the file's own allocator hands out."""
    return Fixture(f"w-{name}", "silu_gate", edited(_IN_KERNEL, (_NEW_MEMORY, memory)), code)


_KEPT_SCRATCH = (
    "self.__dict__.setdefault('scratch', torch.empty(1 << 20, dtype=torch.int8, device=x.device))"
)


_TWO_TUNED = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": size}) for size in (64, 128, 256)]


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def gates(x_ptr, g_ptr, between_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    g = tl.load(g_ptr + i, mask=i < n)
    at = i // TURNED * TURNED + TURNED - 1 - i % TURNED
    tl.store(between_ptr + at, x * tl.sigmoid(x) * g, mask=i < n)


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def weighted(between_ptr, w_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = i // TURNED * TURNED + TURNED - 1 - i % TURNED
    y = tl.load(between_ptr + at, mask=i < n)
    w = tl.load(w_ptr + i % width, mask=i < n)
    tl.store(out_ptr + i, y * w, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, g):
        out, n = torch.empty_like(x), x.numel()
        between = torch.empty(n + 256, device=x.device)

        def grid(meta):
            return (triton.cdiv(n, meta["BLOCK"]),)

        gates[grid](x, g, between, n)
        weighted[grid](between, self.weight, out, n, x.shape[-1])
        return out
"""


def _two_tuned(name: str, turned: str, code: str | None = None) -> Fixture:
    """What one kernel turns over in stretches of so many, the other turns back; each is tuned by itself."""
    source = _TWO_TUNED.replace("TURNED", turned)
    also = () if code is None else ("wrong_output",)
    return Fixture(f"w-{name}", "silu_gate", source, code, also=also)


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    26: (
        _two_tuned("two-kernels-that-must-choose-alike", "BLOCK", "nonfinite"),
        _scratch_of("a-descriptor-in-memory-of-the-host", "torch.empty(size, dtype=torch.int8)"),
        _scratch_of(
            "a-descriptor-in-half-its-memory",
            "torch.empty(size // 2, dtype=torch.int8, device=x.device)",
        ),
        _scratch_of(
            "a-descriptor-64-bytes-off-its-alignment",
            "torch.empty(size + 64, dtype=torch.int8, device=x.device)[64:]",
        ),
        _scratch_of("a-descriptor-in-the-input", "x.view(torch.int8)", "runtime_error"),
        _silu(
            "turns-a-block-over-in-place",
            _moved_twice("BLOCK - 1 - j", "BLOCK - 1 - j", ""),
            _RACE,
        ),
        _silu(
            "rolls-a-block-in-place",
            _moved_twice("(j + 37) % BLOCK", "(j + BLOCK - 37) % BLOCK", ""),
            _RACE,
        ),
        _silu("two-threads-store-to-one-place", _stored_twice(""), _RACE),
        _handed_over("reads-without-waiting-what-others-exchange", _RACE, _given(""), ""),
        _handed_over(
            "waits-for-a-flag-that-nobody-releases",
            _RACE,
            _given(_RELAXED) + _flag(_RELAXED),
            _wait(_ACQUIRE),
        ),
        _handed_over(
            "looks-without-waiting-at-what-others-exchange",
            _RACE,
            _given(""),
            "",
            "tl.load(out_ptr + rows + row, volatile=True)",
        ),
        _tickets("takes-a-far-ticket-for-a-gpu", "1000.0 * far.to(tl.float32)", _RACE),
    ),
}

TWINS: Mapping[int, tuple[Fixture, ...]] = {
    26: (
        _silu(
            "turns-a-block-over-behind-a-barrier",
            _moved_twice("BLOCK - 1 - j", "BLOCK - 1 - j", _BARRIER),
        ),
        _silu("stores-to-one-place-behind-a-barrier", _stored_twice(_BARRIER)),
        _silu("changes-its-own-places-again", _IN_PLACE),
        _silu("stores-behind-the-barrier-of-a-sum", _SCALED),
        _handed_over(
            "waits-for-a-flag-that-is-released",
            None,
            _given(_RELAXED) + _flag(_RELEASE),
            _wait(_ACQUIRE),
        ),
        _tickets("takes-a-ticket-and-adds-nothing", "0.0 * far.to(tl.float32)", None),
        Fixture("w-makes-a-descriptor-in-the-kernel", "silu_gate", _IN_KERNEL),
        _two_tuned("two-kernels-that-choose-each-by-itself", "16"),
        _scratch_of("keeps-the-memory-of-its-descriptors", _KEPT_SCRATCH, None),
    ),
}
