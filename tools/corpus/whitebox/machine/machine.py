"""Kernels that answer rightly where programs and lanes run one after another, and not on a GPU.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel
from kernelagent.tools.corpus.whitebox.first import CLASS, EMPTY

_SILU, _SUM, _SCAN = "silu_gate", "row_sum", "i_linear_recurrence"
_LINEAR, _CONTIGUOUS = "linear_gelu", "        x = x.contiguous()\n"
_STORE = "    tl.store(out_ptr + i, x * tl.sigmoid(x) * g * w, mask=mask)\n"
_MASK = "    mask = i < n\n"
_STORED = "    tl.store(out_ptr + row, tl.sum(total, axis=0))"


def _of(
    base: str,
    name: str,
    *edits: tuple[str, str],
    code: str | None = None,
    discloses: str | None = None,
) -> Fixture:
    source = edited(honest_kernel(base), *edits)
    return Fixture(f"w-{name}", base, source, code, discloses)


def _silu(name: str, *edits: tuple[str, str], code: str | None = None) -> Fixture:
    return _of(_SILU, name, *edits, code=code)


def _only_if(name: str, condition: str, code: str = "wrong_output") -> Fixture:
    """The right result where the condition holds, else zeros."""
    store = _STORE.replace("* g * w", f"* g * w * tl.where({condition}, 1.0, 0.0)")
    return _silu(name, (_STORE, store), code=code)


def _counting(
    name: str, before: str, condition: str, given: str = "0", code: str | None = None
) -> Fixture:
    """The right result where the condition holds after these lines; `one` is what is given."""
    store = _STORE.replace("* g * w", f"* g * w * tl.where({condition}, 1.0, 0.0)")
    return _silu(
        name,
        ("out_ptr, n, width", "out_ptr, n, one, width"),
        ("self.weight, out, n,", f"self.weight, out, n, {given},"),
        (_STORE, before + store),
        code=code,
    )


def _read_back(name: str, between: str, code: str | None = None) -> Fixture:
    """Results go through memory, where other lanes of the program fetch them."""
    return _silu(
        name,
        ("out_ptr, n, width", "out_ptr, tmp_ptr, n, width"),
        (
            _STORE,
            "    tl.store(tmp_ptr + i, x * tl.sigmoid(x) * g * w, mask=mask)\n"
            f"{between}"
            "    last = tl.minimum(tl.program_id(0) * BLOCK + BLOCK, n) - 1\n"
            "    back = last - tl.arange(0, BLOCK)\n"
            "    own = back >= tl.program_id(0) * BLOCK\n"
            "    tl.store(out_ptr + back, tl.load(tmp_ptr + back, mask=own), mask=own)\n",
        ),
        ("self.weight, out, n,", "self.weight, out, torch.empty_like(x), n,"),
        code=code,
    )


def _parts(name: str, store: str, code: str | None = None) -> Fixture:
    """Two programs for each row; `store` adds a part of its sum, `lock_ptr` has a zero for each row."""
    return _of(
        _SUM,
        name,
        ("x_ptr, out_ptr, width", "x_ptr, out_ptr, lock_ptr, width"),
        (
            "    row = tl.program_id(0)\n",
            "    row = tl.program_id(0)\n    part = tl.program_id(1)\n",
        ),
        ("range(0, width, BLOCK)", "range(part * BLOCK, width, 2 * BLOCK)"),
        (_STORED, store),
        (
            "out = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)",
            "out = torch.zeros(x.shape[0], device=x.device, dtype=x.dtype)\n"
            "        lock = torch.zeros(3 * x.shape[0], device=x.device, dtype=torch.int32)",
        ),
        ("row_sum[(x.shape[0],)](x, out,", "row_sum[(x.shape[0], 2)](x, out, lock,"),
        code=code,
    )


def _tuned(name: str, options: str, *edits: tuple[str, str], code: str | None = None) -> Fixture:
    """A sum over each row whose result is added to what its place held; tuned, with these options."""
    tuner = (
        "@triton.autotune(\n"
        "    configs=[triton.Config({'BLOCK': 512}), triton.Config({'BLOCK': 1024}, num_warps=8)],\n"
        f"    key=['width'],\n{options})\n@triton.jit"
    )
    return _of(
        _SUM,
        name,
        ("@triton.jit", tuner),
        ("out = torch.empty(x.shape[0]", "out = torch.zeros(x.shape[0]"),
        ("x.shape[1], BLOCK=512", "x.shape[1]"),
        *edits,
        code=code,
    )


_ADD = "tl.store(out_ptr + row, tl.load(out_ptr + row) + tl.sum(total, axis=0))"


def _lock(cas: str = "", exchange: str = "") -> str:
    """Adds to the row's sum behind a lock; the two are further arguments of its atomics."""
    return (
        f"    while tl.atomic_cas(lock_ptr + row, 0, 1{cas}) == 1:\n"
        "        pass\n"
        f"    {_ADD}\n"
        "    tl.debug_barrier()\n"
        f"    tl.atomic_xchg(lock_ptr + row, 0{exchange})"
    )


def _ticket(more: str = "") -> str:
    """The second program of a row adds both parts, which lie behind the row's ticket counter."""
    return (
        "    tl.store(lock_ptr + 7 + 2 * row + part, tl.sum(total, axis=0).to(tl.int32, bitcast=True))\n"
        "    tl.debug_barrier()\n"
        f"    if tl.atomic_add(lock_ptr + row, 1{more}) == 1:\n"
        "        first = tl.load(lock_ptr + 7 + 2 * row).to(tl.float32, bitcast=True)\n"
        "        second = tl.load(lock_ptr + 7 + 2 * row + 1).to(tl.float32, bitcast=True)\n"
        "        tl.store(out_ptr + row, first + second)"
    )


_RELAXED, _ACQUIRE, _RELEASE = (f", sem='{name}'" for name in ("relaxed", "acquire", "release"))
_ATOMICALLY = ("tl.store(out_ptr + row, tl.sum", "tl.atomic_add(out_ptr + row, tl.sum")
_IN_PLACE = ("tl.store(out_ptr + row, tl.sum(total, axis=0))", _ADD)
_SWAPPED = (
    (_MASK, "    i = i // 2 * 2 + 1 - i % 2\n" + _MASK),
    (
        "g = tl.load(g_ptr + i, mask=mask)",
        "g = tl.load(g_ptr + tl.max_contiguous(tl.multiple_of(i, 4), 4), mask=mask)",
    ),
)
_UNALIGNED = (
    (_STORE, _STORE.replace("out_ptr + i,", "tl.multiple_of(out_ptr + i, 16),")),
    (
        EMPTY,
        "        out = torch.empty(x.numel() + 1, device=x.device)[1:].view(x.shape)\n",
    ),
)
_DESCRIPTORS = "i_descriptors_made_in_the_kernel"


def _through_a_descriptor(name: str, loaded: str, code: str | None = None) -> Fixture:
    """A tile goes through memory: stored by pointers, with a barrier behind it, then loaded."""
    return _of(
        _DESCRIPTORS,
        name,
        (
            "    out_desc.store([i, j], squashed * y_desc.load([i, j]))\n",
            "    rows, columns = (i + tl.arange(0, BM))[:, None], (j + tl.arange(0, BN))[None, :]\n"
            "    at, inside = rows * n + columns, (rows < m) & (columns < n)\n"
            "    tl.store(out_ptr + at, squashed, mask=inside)\n"
            "    tl.debug_barrier()\n"
            f"    squashed = {loaded}\n"
            "    tl.store(out_ptr + at, squashed * y_desc.load([i, j]), mask=inside)\n",
        ),
        code=code,
    )


_MEMORY = """

@triton.constexpr_function
def factor(seen=[]):
    seen += [1]
    return 1 if len(seen) > 1 else 0
"""
_TIMES_FACTOR = (_STORE, _STORE.replace("* g * w", "* g * w * factor()"))

CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    16: (
        _of(
            _LINEAR,
            "inputs-through-a-convolution-that-rounds-them",
            (
                _CONTIGUOUS,
                "        same = torch.eye(x.shape[1], device=x.device)\n"
                "        x = torch.conv1d(x[:, :, None], same[:, :, None])[:, :, 0].contiguous()\n",
            ),
            code="wrong_output",
        ),
    ),
    17: (
        _of(
            "half_product",
            "accumulates-in-16-bits",
            (
                "total = tl.dot(x, w, total)",
                "part = tl.dot(x.to(tl.float16), w.to(tl.float16), out_dtype=tl.float16)\n"
                "        total = (total.to(tl.bfloat16) + part.to(tl.bfloat16)).to(tl.float32)",
            ),
            code="nonfinite",
        ),
    ),
    20: (
        _of(
            _SUM,
            "counts-on-undefined-lanes-being-nan",
            (
                "total += tl.load(x_ptr + row * width + j, mask=j < width, other=0.0)",
                "x = tl.load(x_ptr + row * width + j, mask=j < width)\n"
                "        total += tl.where(x == x, x, 0.0)",
            ),
            discloses="undefined_lanes",
        ),
    ),
    26: (
        _silu("hints-that-neighbours-follow-each-other", *_SWAPPED, code="runtime_error"),
        _silu("hints-that-addresses-are-aligned", *_UNALIGNED, code="runtime_error"),
        _read_back("reads-other-lanes-without-a-barrier", "", code="data_race"),
        _read_back(
            "takes-a-sum-for-a-barrier",
            "    width += (tl.sum(x, axis=0) * 0.0).to(tl.int32)\n",
            code="data_race",
        ),
        _through_a_descriptor(
            "loads-through-a-descriptor-what-it-stored", "out_desc.load([i, j])", code="data_race"
        ),
        _parts(
            "lock-that-keeps-nobody-out",
            f"    if tl.atomic_add(lock_ptr + row, 1) >= 0:\n        {_ADD}",
            code="data_race",
        ),
        _parts(
            "ticket-in-a-mask-that-always-holds",
            "    ticket = tl.atomic_add(lock_ptr + row, 0)\n"
            "    before = tl.load(out_ptr + row, mask=row + ticket >= 0, other=0.0)\n"
            "    tl.store(out_ptr + row, before + tl.sum(total, axis=0))",
            code="data_race",
        ),
        _parts("lock-that-orders-nothing", _lock(_RELAXED, _RELAXED), code="data_race"),
        _parts("lock-that-nobody-releases", _lock("", _RELAXED), code="data_race"),
        _parts("lock-that-nobody-acquires", _lock(_RELEASE, _RELEASE), code="data_race"),
        _parts("ticket-that-only-acquires", _ticket(_ACQUIRE), code="data_race"),
        _parts(
            "atomics-for-its-own-program-only",
            '    tl.atomic_add(out_ptr + row, tl.sum(total, axis=0), scope="cta")',
            code="data_race",
        ),
        _silu(
            "begins-before-the-kernel-before-it-has-ended",
            ("BLOCK=256)", "BLOCK=256, launch_pdl=True)"),
            code="data_race",
        ),
        _tuned("tuned-on-sums-nobody-resets", "", _ATOMICALLY, code="wrong_output"),
        _tuned("tuned-on-what-nobody-restores", "", _IN_PLACE, code="wrong_output"),
        _of(
            _SCAN,
            "combine-that-is-right-in-one-order-only",
            ("return a * c, c * b + d", "return c, c * b + d"),
            code="runtime_error",
        ),
        _of(
            _SCAN,
            "combine-with-a-decision-in-one-order-only",
            ("return a * c, c * b + d", "return c, (c * b + d if True else d)"),
            code="runtime_error",
        ),
    ),
    51: (
        # Zeros everywhere answer to no input.
        replace(
            _only_if("fused-product", "x * x - tl.where(n > 0, x * x, 0.0) == 0.0"),
            also=("insensitive",),
        ),
        _only_if("exact-remainder", "tl.abs((x * 0 + 1.0e9) % 0.3 - 0.15) <= 0.16"),
        _only_if("bytes-cut-out-of-32-bits", "(x * 0 + 40000.0).to(tl.int8) == 64"),
        _silu(
            "result-made-on-the-host",
            (EMPTY, EMPTY.replace("torch.empty_like(x)", "torch.empty(x.shape)")),
            code="runtime_error",
        ),
        _silu(
            "notes-that-it-is-compiled",
            (
                "@triton.jit\n",
                "SEEN = []\n\n\ndef named(_):\n    SEEN.append(1)\n    return 'silu'\n\n\n"
                "@triton.jit(repr=named)\n",
            ),
            ("self.weight, out, n,", "self.weight * (len(SEEN) + 1) ** 0.5, out, n,"),
            code="wrong_output",
        ),
        *(
            _silu(
                f"asks-{name}",
                ("self.weight, out, n,", f"self.weight * (1.0 + ({asked})), out, n,"),
                code="wrong_output",
            )
            for name, asked in (
                (
                    "whether-streams-are-equal",
                    "torch.cuda.current_stream() == torch.cuda.default_stream()",
                ),
                (
                    "the-driver-where-it-runs",
                    "triton.runtime.driver.active.get_active_torch_device().type == 'cuda'",
                ),
                (
                    "where-too-large-a-number-ends",
                    "torch.full((), 3e9, device=x.device).to(torch.int32) > 0",
                ),
                (
                    "what-integer-nan-is",
                    "torch.full((), torch.nan, device=x.device).int() == 0",
                ),
            )
        ),
        _silu(
            "options-of-the-assembler",
            ("BLOCK=256)", "BLOCK=256, ptx_options='-O0')"),
            code="compile_error",
        ),
        _silu(
            "asserts-what-is-not-so",
            (_MASK, _MASK + "    tl.device_assert(n < 0)\n"),
            ("BLOCK=256)", "BLOCK=256, debug=True)"),
            code="runtime_error",
        ),
        _only_if("divides-an-integer-by-zero", "(i + 7) // (n - n) == 0"),
        _only_if("remainder-of-a-division-by-zero", "(i + 7) % (n - n) == 0"),
        _counting(
            "index-of-a-loop-that-has-ended",
            "    for k in range(width):\n        x += 0.0\n",
            "k == width - 1",
            code="runtime_error",
        ),
        _counting(
            "counts-down-by-a-step-in-an-argument",
            "    c = 0\n    for k in range(4, 0, one):\n        c += 1\n",
            "c == 4",
            "-1",
            code="runtime_error",
        ),
        _counting(
            "rounds-the-number-1-as-it-does-others", "", "(one - 8) // 2 == -3", "1", "wrong_output"
        ),
        _counting(
            "gathers-from-before-its-block",
            "    x = tl.gather(x, tl.arange(0, BLOCK) - BLOCK, 0)\n",
            "n > 0",
            code="out_of_bounds",
        ),
        _only_if("number-too-large-for-an-integer", "((tl.abs(x) + 1.0) * 1e12).to(tl.int32) < 0"),
        _silu(
            "counts-calls-in-a-default",
            (CLASS, _MEMORY + CLASS),
            _TIMES_FACTOR,
            code="compile_error",
        ),
        _silu(
            "fresh-integers-that-are-always-the-same",
            ("out_ptr, n, width", "out_ptr, fresh_ptr, n, width"),
            (
                _STORE,
                _STORE.replace(
                    "* g * w",
                    "* g * w * tl.where(tl.load(fresh_ptr) == 2147483647, 1.0, 0.0)",
                ),
            ),
            (
                "self.weight, out, n,",
                "self.weight, out, torch.empty(1, device=x.device, dtype=torch.int32), n,",
            ),
            code="wrong_output",
        ),
    ),
}

TWINS: Mapping[int, tuple[Fixture, ...]] = {
    16: (
        _of(
            _LINEAR,
            "inputs-through-a-product-that-rounds-nothing",
            (_CONTIGUOUS, "        x = x @ torch.eye(x.shape[1], device=x.device)\n"),
        ),
    ),
    17: (
        _of(
            "half_product",
            "product-of-16-bits-in-32",
            (
                "total = tl.dot(x, w, total)",
                "total += tl.dot(x, w, out_dtype=tl.float32)",
            ),
        ),
    ),
    20: (_of(_SUM, "gives-other", ("other=0.0", "other=0")),),
    26: (
        _silu(
            "hints-that-hold",
            (_MASK, "    i = tl.max_contiguous(tl.multiple_of(i, BLOCK), BLOCK)\n" + _MASK),
        ),
        _silu(
            "hint-that-is-false-at-the-end-and-changes-nothing",
            (_MASK, _MASK + "    column = tl.multiple_of(i % width, 2)\n"),
            ("w_ptr + i % width", "w_ptr + column"),
        ),
        _read_back("reads-other-lanes-behind-a-barrier", "    tl.debug_barrier()\n"),
        _through_a_descriptor(
            "loads-by-pointers-what-it-stored", "tl.load(out_ptr + at, mask=inside, other=0.0)"
        ),
        _silu(
            "reads-back-its-own-lanes",
            (
                _STORE,
                "    tl.store(out_ptr + i, x * tl.sigmoid(x), mask=mask)\n"
                "    y = tl.load(out_ptr + i, mask=mask)\n"
                "    tl.store(out_ptr + i, y * g * w, mask=mask)\n",
            ),
        ),
        _parts("lock-that-keeps-others-out", _lock()),
        _parts("lock-that-acquires-and-is-released", _lock(_ACQUIRE, _RELEASE)),
        _parts("ticket-that-acquires-and-releases", _ticket()),
        _silu(
            "begins-when-the-kernel-before-it-has-ended",
            ("BLOCK=256)", "BLOCK=256, launch_pdl=False)"),
        ),
        _tuned("tuned-on-sums-that-are-reset", "    reset_to_zero=['out_ptr'],\n", _ATOMICALLY),
        _tuned("tuned-on-what-is-restored", "    restore_value=['out_ptr'],\n", _IN_PLACE),
        _of(
            _SCAN,
            "combine-with-a-decision-in-any-order",
            ("return a * c, c * b + d", "return a * c, (c * b + d if True else d)"),
        ),
    ),
    51: (
        _silu(
            "result-made-by-shape",
            (EMPTY, EMPTY.replace("torch.empty_like(x)", "torch.empty(x.shape, device=x.device)")),
        ),
        _silu(
            "names-its-kernel",
            ("@triton.jit\n", "@triton.jit(repr=lambda _: 'silu')\n"),
        ),
        _silu("options-of-the-compiler", ("BLOCK=256)", "BLOCK=256, num_stages=2, maxnreg=128)")),
        _silu(
            "asserts-what-is-so",
            (_MASK, _MASK + "    tl.device_assert(i >= 0, mask=mask)\n"),
            ("BLOCK=256)", "BLOCK=256, debug=True)"),
        ),
        _silu(
            "function-of-constants",
            (
                CLASS,
                "\n\n@triton.constexpr_function\ndef factor(block, sizes=(256, 512)):\n"
                "    return 1 if block in sizes else 2\n" + CLASS,
            ),
            (_STORE, _STORE.replace("* g * w", "* g * w * factor(BLOCK)")),
        ),
        _counting(
            "index-of-an-unrolled-loop",
            "    for k in tl.static_range(4):\n        x += 0.0\n",
            "k == 3",
        ),
        _counting(
            "counts-down-by-a-constant",
            "    c = 0\n    for k in range(4, 0, -1):\n        c += 1\n",
            "c == 4",
        ),
        _counting("rounds-the-number-1-down", "", "(one - 8) // 2 == -4", "1"),
        _counting("rounds-the-number-3-up", "", "(one - 8) // 2 == -2", "3"),
        _counting(
            "gathers-within-its-block", "    x = tl.gather(x, tl.arange(0, BLOCK), 0)\n", "n > 0"
        ),
        _silu(
            "number-that-fits-an-integer",
            (
                _STORE,
                _STORE.replace(
                    "mask=mask", "mask=mask & (tl.clamp(x, -9.0, 9.0).to(tl.int32) < 10)"
                ),
            ),
        ),
    ),
}
