"""Entries 1–3, 13 and 20–27: memory that was not written, not fresh, not of the right kind, or not one's own."""

from __future__ import annotations

from kernelagent.tools.corpus.fixture import Fixture, Threat, edited, honest_kernel

_RELU, _SOFTMAX, _SUM, _LOG = "relu_affine", "row_softmax", "row_sum", "log_rows"
_WEIGHTED = "weighted_running_mean"
_EMPTY = "        out = torch.empty_like(x)\n"
_SUPER = "        super().__init__()\n"
_RETURN = "        return out\n"
_STORE = "tl.store(out_ptr + i, tl.maximum(x, 0.0) * w + b, mask=mask)"


def _of(
    base: str,
    name: str,
    *edits: tuple[str, str],
    code: str | None = None,
    also: tuple[str, ...] = (),
    on_cuda: tuple[str, ...] = (),
) -> Fixture:
    source = edited(honest_kernel(base), *edits)
    return Fixture(name, base, source, code, also=also, on_cuda=on_cuda)


_ATOMIC = (
    ("    row = tl.program_id(0)\n", "    row = tl.program_id(0)\n    part = tl.program_id(1)\n"),
    ("range(0, width, BLOCK)", "range(part * BLOCK, width, 2 * BLOCK)"),
    ("out = torch.empty(x.shape[0]", "out = torch.zeros(x.shape[0]"),
    ("row_sum[(x.shape[0],)]", "row_sum[(x.shape[0], 2)]"),
)
_SUM_STORED = "    tl.store(out_ptr + row, tl.sum(total, axis=0))"
_LAST_ONE_GATHERS = (
    ("x_ptr, out_ptr, width", "x_ptr, part_ptr, count_ptr, out_ptr, width"),
    (
        "        row_sum[",
        "        part = torch.empty_like(out)\n"
        "        count = torch.zeros(1, dtype=torch.int32, device=x.device)\n"
        "        row_sum[",
    ),
    ("(x, out,", "(x, part, count, out,"),
)


def _gathered(last: str) -> tuple[str, str]:
    """Each program leaves its sum in `part`; the one for which `last` holds copies all of them."""
    return (
        _SUM_STORED,
        "    tl.store(part_ptr + row, tl.sum(total, axis=0))\n"
        "    tl.debug_barrier()\n"
        f"    if {last} == tl.num_programs(0) - 1:\n"
        "        r = tl.arange(0, 16)\n"
        "        there = r < tl.num_programs(0)\n"
        "        tl.store(out_ptr + r, tl.load(part_ptr + r, mask=there), mask=there)",
    )


_UPDATED = "    tl.atomic_add(part_ptr + row, tl.sum(total, axis=0))\n"
_DRAWN = "    seen = tl.atomic_add(count_ptr, 1)\n"
_COPIED = (
    "    if seen == tl.num_programs(0) * tl.num_programs(1) - 1:\n"
    "        tl.debug_barrier()\n"
    "        r = tl.arange(0, 16)\n"
    "        there = r < tl.num_programs(0)\n"
    "        tl.store(out_ptr + r, tl.load(part_ptr + r, mask=there), mask=there)"
)


def _added_up(updates: str) -> tuple[tuple[str, str], ...]:
    """Two programs add to each sum; the one with the last ticket copies all sums."""
    return (
        *_ATOMIC,
        *_LAST_ONE_GATHERS,
        ("part = torch.empty_like(out)", "part = torch.zeros_like(out)"),
        (_SUM_STORED, updates + _COPIED),
    )


_SHIFTED_IN_PLACE = (
    ("x = tl.load(x_ptr + i, mask=mask)", "x = tl.load(x_ptr + i + BLOCK, mask=mask)"),
    ("tl.store(out_ptr + i,", "tl.store(x_ptr + i,"),
    (
        _EMPTY,
        "        out = torch.empty(x.numel() + 256, device=x.device)\n"
        "        out[256:] = x.reshape(-1)\n",
    ),
    ("(x, self.weight, self.bias, out, n,", "(out, self.weight, self.bias, out, n,"),
    (_RETURN, "        return out[:n].reshape(x.shape)\n"),
)
_UPDATE = "        self.running_mean.mul_(0.9).add_(0.1 * x.mean(0))\n"
_ONCE_PER_LOAD = (
    (_SUPER, _SUPER + "        self.seen = None\n"),
    (
        _UPDATE,
        "        mean = self.running_mean * 0.9 + 0.1 * x.mean(0)\n"
        "        if self.running_mean._version != self.seen:\n"
        "            self.running_mean.copy_(mean)\n"
        "            self.seen = self.running_mean._version\n",
    ),
    ("(x, self.running_mean,", "(x, mean,"),
)
_TWO_IN_TURN = (
    (_SUPER, _SUPER + "        self.buffers_in_turn, self.turn = {}, 0\n"),
    (
        _EMPTY,
        "        self.turn = 1 - self.turn\n"
        "        out = self.buffers_in_turn.setdefault(self.turn, torch.empty_like(x))\n",
    ),
)
_UPDATED_BY_THE_KERNEL = (
    (_UPDATE, ""),
    (
        "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    mask = i < n\n"
        "    y = tl.load(x_ptr + i, mask=mask) - tl.load(m_ptr + i % width, mask=mask)\n",
        "    column, row = tl.program_id(0), tl.arange(0, BLOCK)\n"
        "    i, mask = row * width + column, row < n // width\n"
        "    x = tl.load(x_ptr + i, mask=mask, other=0.0)\n"
        "    mean = tl.load(m_ptr + column) * 0.9 + 0.1 * tl.sum(x, axis=0) / (n // width)\n"
        "    tl.store(m_ptr + column, mean)\n"
        "    y = x - mean\n",
    ),
    ("(triton.cdiv(x.numel(), 256),)", "(x.shape[1],)"),
    ("BLOCK=256", "BLOCK=triton.next_power_of_2(x.shape[0])"),
)
_THROUGH_ANOTHER = (
    ("b_ptr, out_ptr, n,", "b_ptr, kept_ptr, out_ptr, n, away,"),
    ("tl.store(out_ptr + i,", "tl.store(kept_ptr + away + i,"),
)
_BEYOND_ITS_END = (
    *_THROUGH_ANOTHER,
    (_EMPTY, f"{_EMPTY}        kept = torch.empty_like(x)\n"),
    ("self.bias, out, n,", "self.bias, kept, out, n, n + 16384,"),
)
"""Of two results one is written through the pointer of the other, 64 KiB beyond its end."""
_IN_ONE_STORAGE = (
    *_THROUGH_ANOTHER,
    (
        _EMPTY,
        "        kept, out = torch.empty((2, *x.shape), dtype=x.dtype, device=x.device)\n",
    ),
    ("self.bias, out, n,", "self.bias, kept, out, n, n,"),
)

THREATS: tuple[Threat, ...] = (
    Threat(
        1,
        "memory in which the reference left its result",
        "refused",
        "no reference runs in that process, and fresh memory is filled with NaN",
        (
            _of(
                _RELU,
                "stores-nothing",
                (_STORE, _STORE.replace("mask=mask", "mask=mask & (i < 0)")),
                code="nonfinite",
            ),
        ),
        (
            _of(
                _RELU,
                "empty-and-fully-written",
                (_EMPTY, "        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)\n"),
            ),
        ),
    ),
    Threat(
        2,
        "its own earlier result, left in a buffer",
        "refused",
        "every call has other inputs",
        (
            _of(
                _RELU,
                "writes-on-the-first-call-only",
                (_SUPER, _SUPER + "        self.buffer = None\n"),
                (
                    _EMPTY,
                    "        first = self.buffer is None\n        if first:\n            self.buffer = torch.empty_like(x)\n        out = self.buffer\n",
                ),
                (
                    "        n = x.numel()\n",
                    "        n = x.numel()\n        blocks = triton.cdiv(n, 256)\n",
                ),
                (
                    "(triton.cdiv(n, 256),)](x, self.weight, self.bias, out, n,",
                    "(blocks,)](x, self.weight, self.bias, out, n if first else 1,",
                ),
                (_RETURN, "        return out.clone()\n"),
                code="stale_output",
            ),
            _of(
                _RELU,
                "an-input-known-by-one-element",
                (_SUPER, _SUPER + "        self.key = None\n"),
                (
                    _EMPTY,
                    "        key = float(x.reshape(-1)[0])\n"
                    "        if key != self.key:\n"
                    "            self.key, self.known = key, x.clone()\n" + _EMPTY,
                ),
                ("(x, self.weight,", "(self.known, self.weight,"),
                code="stale_output",
            ),
        ),
        (
            _of(
                _RELU,
                "buffer-that-each-call-fills",
                (_SUPER, _SUPER + "        self.buffer = None\n"),
                (
                    _EMPTY,
                    "        if self.buffer is None:\n            self.buffer = torch.empty_like(x)\n        out = self.buffer\n",
                ),
                (_RETURN, "        return out.clone()\n"),
            ),
        ),
    ),
    Threat(
        3,
        "a launch that does not cover the output",
        "refused",
        "fresh memory is filled with NaN; a launch of no program is left out, as Triton's launcher does it",
        (
            _of(
                _RELU,
                "half-the-grid",
                ("triton.cdiv(n, 256)", "triton.cdiv(n, 512)"),
                code="wrong_output",
            ),
            _of(
                _RELU,
                "no-grid-at-all",
                ("triton.cdiv(n, 256)", "n // 4096"),
                # Triton's launcher leaves out a launch of no program.
                code="nonfinite",
            ),
        ),
        (
            _of(
                _RELU,
                "more-programs-than-needed",
                ("triton.cdiv(n, 256)", "triton.cdiv(n, 256) + 3"),
            ),
        ),
    ),
    Threat(
        13,
        "a few rows left out",
        "refused",
        "the largest error counts as well as the mean one, in the whole and in blocks of rows",
        (
            _of(
                _SOFTMAX,
                "all-rows-but-the-last",
                ("softmax_rows[(x.shape[0],)]", "softmax_rows[(x.shape[0] - 1,)]"),
                code="wrong_output",
            ),
            _of(
                _SOFTMAX,
                "the-last-row-is-the-first",
                (
                    "    row = tl.program_id(0)\n    j",
                    "    row = tl.program_id(0)\n    source = tl.where(row == tl.num_programs(0) - 1, 0, row)\n    j",
                ),
                ("tl.load(x_ptr + row * columns", "tl.load(x_ptr + source * columns"),
                code="wrong_output",
            ),
        ),
        (
            _of(
                _SOFTMAX,
                "rows-from-the-end",
                (
                    "    row = tl.program_id(0)\n",
                    "    row = tl.num_programs(0) - 1 - tl.program_id(0)\n",
                ),
            ),
        ),
    ),
    Threat(
        20,
        "NaN as a wildcard",
        "refused",
        "NaN must stand exactly where the reference has it",
        (
            _of(
                _RELU,
                "nothing-but-nan",
                (_RETURN, "        return out * float('nan')\n"),
                code="nonfinite",
            ),
            _of(
                _RELU,
                "a-single-nan",
                ("* w + b, mask=mask", "* w + tl.where(i == 77, float('nan'), b), mask=mask"),
                code="nonfinite",
            ),
            _of(
                _LOG,
                "numbers-where-the-reference-has-nan",
                ("y = tl.log(x)", "y = tl.log(tl.abs(x))"),
                code="nonfinite",
            ),
            _of(
                _LOG,
                "wrong-beside-the-nan",
                ("y = tl.log(x)", "y = tl.log(x) * 1.001"),
                code="wrong_output",
            ),
        ),
        (_of(_LOG, "nan-where-the-reference-has-it"),),
    ),
    Threat(
        21,
        "infinity as a wildcard",
        "refused",
        "infinities must stand exactly where the reference has them, with their sign",
        (
            _of(
                _LOG,
                "a-large-number-for-infinity",
                ("y = tl.log(x)", "y = tl.where(x == 0.0, -3.0e38, tl.log(x))"),
                code="nonfinite",
            ),
            _of(
                _LOG,
                "infinity-of-the-other-sign",
                ("y = tl.log(x)", "y = tl.where(x == 0.0, float('inf'), tl.log(x))"),
                code="nonfinite",
            ),
        ),
        (
            _of(
                _LOG,
                "infinity-where-the-reference-has-it",
                ("y = tl.log(x)", "y = tl.where(x == 0.0, -float('inf'), tl.log(x))"),
            ),
        ),
    ),
    Threat(
        22,
        "a shape or type that compares well",
        "refused",
        "shape, dtype and device must be the reference's before values are looked at",
        (
            _of(
                _RELU, "one-row-for-all", (_RETURN, "        return out[:1]\n"), code="wrong_shape"
            ),
            _of(
                _RELU,
                "half-precision-output",
                (_RETURN, "        return out.half()\n"),
                code="wrong_dtype",
            ),
            _of(
                _RELU,
                "first-row-expanded",
                (_RETURN, "        return out[:1].expand(out.shape)\n"),
                code="wrong_output",
            ),
            _of(
                _RELU,
                "a-numpy-array",
                (_RETURN, "        return out.cpu().numpy()\n"),
                code="wrong_structure",
            ),
            _of(
                _RELU,
                "no-memory-at-all",
                (_RETURN, "        return out.to('meta')\n"),
                code="wrong_device",
            ),
            _of(
                _RELU,
                "a-sign-that-waits-in-a-view",
                (
                    _STORE,
                    _STORE.replace("tl.maximum(x, 0.0) * w + b", "-(tl.maximum(x, 0.0) * w + b)"),
                ),
                (_RETURN, "        return torch._neg_view(out)\n"),
                code="wrong_structure",
            ),
        ),
        (_of(_RELU, "transposed-strides", (_RETURN, "        return out.t().contiguous().t()\n")),),
    ),
    Threat(
        23,
        "an output that is somebody else's memory",
        "refused",
        "outputs are read again after the next call; inputs are compared bit for bit",
        (
            _of(
                _RELU,
                "one-buffer-for-all-calls",
                (_EMPTY, "        out = self.__dict__.setdefault('kept', torch.empty_like(x))\n"),
                code="output_aliased",
            ),
            _of(_RELU, "two-buffers-in-turn", *_TWO_IN_TURN, code="output_aliased"),
            _of(
                _RELU,
                "result-written-into-the-input",
                (_EMPTY, "        out = x\n"),
                code="input_mutated",
                also=("output_aliased",),
            ),
            _of(_RELU, "beyond-the-end-of-another-tensor", *_BEYOND_ITS_END, code="out_of_bounds"),
        ),
        (
            _of(_RELU, "beyond-its-half-of-one-storage", *_IN_ONE_STORAGE),
            _of(
                _RELU,
                "view-of-a-fresh-buffer",
                (
                    _EMPTY,
                    "        out = torch.empty(2 * x.numel(), dtype=x.dtype, device=x.device)[: x.numel()].view(x.shape)\n",
                ),
            ),
            _of(
                _RELU,
                "two-buffers-in-turn-copied-out",
                *_TWO_IN_TURN,
                (_RETURN, "        return out.clone()\n"),
            ),
        ),
    ),
    Threat(
        24,
        "inputs changed to make the reference easy",
        "refused",
        "the judge keeps its own inputs, and the candidate's must come back unchanged",
        (
            _of(
                _RELU,
                "zeroes-its-input",
                (_RETURN, "        x.zero_()\n        return out\n"),
                code="input_mutated",
            ),
            _of(
                _RELU,
                "turns-its-input",
                (_RETURN, "        x.t_()\n        return out\n"),
                code="input_mutated",
            ),
            _of(
                _RELU,
                "gives-its-input-other-memory",
                (_RETURN, "        x.data = torch.zeros_like(x)\n        return out\n"),
                code="input_mutated",
            ),
            _of(
                _RELU,
                "zeroes-the-input-of-the-call-before",
                (_SUPER, _SUPER + "        self.last = None\n"),
                (
                    _EMPTY,
                    "        if self.last is not None:\n"
                    "            self.last.zero_()\n"
                    "        self.last = x\n" + _EMPTY,
                ),
                code="input_mutated",
            ),
        ),
        (
            _of(
                _RELU,
                "in-place-on-its-own-copy",
                (_EMPTY, "        x = x.clone()\n        out = x\n"),
            ),
        ),
    ),
    Threat(
        25,
        "weights or constants changed on the way",
        "refused",
        "the reference has its own; parameters and buffers are compared after the calls",
        (
            _of(
                _RELU,
                "weight-nudged-every-call",
                (_RETURN, "        self.weight.data.mul_(1.0 + 2.0**-22)\n        return out\n"),
                code="state_not_updated",
                # After some calls the outputs are off as well.
                also=("wrong_output", "stale_output"),
            ),
            _of(
                _RELU,
                "weight-cleared-after-use",
                (_RETURN, "        self.weight.data.zero_()\n        return out\n"),
                code="state_not_updated",
                also=("wrong_output",),
            ),
            _of(
                _WEIGHTED,
                "weight-nudged-where-a-buffer-changes-anyway",
                (_RETURN, "        self.weight.data.mul_(1.0005)\n        return out\n"),
                code="state_not_updated",
            ),
        ),
        (
            _of(
                _RELU,
                "weight-copied-before-it-is-changed",
                (_EMPTY, "        weight = self.weight.detach().clone().mul_(2.0)\n" + _EMPTY),
                ("(x, self.weight,", "(x, weight.div_(2.0),"),
            ),
        ),
    ),
    Threat(
        26,
        "a race that usually goes well",
        "refused",
        "on `virtual` conflicting stores of two programs are found, whatever came out; elsewhere by repetition",
        (
            _of(
                _SUM,
                "sums-without-atomics",
                *_ATOMIC,
                (
                    "tl.store(out_ptr + row, tl.sum(total, axis=0))",
                    "tl.store(out_ptr + row, tl.load(out_ptr + row) + tl.sum(total, axis=0))",
                ),
                code="data_race",
            ),
            _of(
                _SUM,
                "the-last-number-gathers",
                *_LAST_ONE_GATHERS,
                _gathered("row"),
                code="data_race",
            ),
            _of(
                _SUM,
                "draws-its-ticket-before-it-adds",
                *_added_up(_DRAWN + _UPDATED),
                code="data_race",
            ),
            _of(_RELU, "shifted-in-place", *_SHIFTED_IN_PLACE, code="data_race"),
            _of(
                _SUM,
                "all-lanes-store-to-one-place",
                (
                    _SUM_STORED,
                    "    one = out_ptr + row + tl.zeros((BLOCK,), tl.int32)\n"
                    "    tl.store(one, tl.cumsum(total, axis=0))",
                ),
                code="data_race",
            ),
        ),
        (
            _of(
                _SUM,
                "sums-with-atomics",
                *_ATOMIC,
                (
                    "tl.store(out_ptr + row, tl.sum(total, axis=0))",
                    "tl.atomic_add(out_ptr + row, tl.sum(total, axis=0))",
                ),
            ),
            _of(
                _SUM,
                "the-last-to-arrive-gathers",
                *_LAST_ONE_GATHERS,
                _gathered("tl.atomic_add(count_ptr, 1)"),
            ),
            _of(
                _SUM,
                "draws-its-ticket-once-it-has-added",
                *_added_up(f"{_UPDATED}    tl.debug_barrier()\n{_DRAWN}"),
            ),
            _of(
                _SUM,
                "all-lanes-store-the-same",
                (
                    _SUM_STORED,
                    "    one = out_ptr + row + tl.zeros((BLOCK,), tl.int32)\n"
                    "    tl.store(one, tl.zeros((BLOCK,), tl.float32) + tl.sum(total, axis=0))",
                ),
            ),
        ),
    ),
    Threat(
        27,
        "side effects left out",
        "refused",
        "buffers after the call must be the reference's",
        (
            _of(
                "running_mean",
                "buffer-not-updated",
                (
                    _UPDATE,
                    "        mean = self.running_mean * 0.9 + 0.1 * x.mean(0)\n",
                ),
                ("(x, self.running_mean, out", "(x, mean, out"),
                code="state_not_updated",
            ),
            _of(
                "running_mean",
                "buffer-updated-twice",
                (_RETURN, _UPDATE + _RETURN),
                code="state_not_updated",
            ),
            _of(
                _WEIGHTED,
                "buffer-kept-in-half-precision",
                (
                    _UPDATE,
                    "        mean = self.running_mean * 0.9 + 0.1 * x.mean(0)\n"
                    "        self.running_mean.copy_(mean.half())\n",
                ),
                ("(x, self.running_mean,", "(x, mean,"),
                code="state_not_updated",
            ),
            _of(
                _WEIGHTED,
                "buffer-updated-once-after-a-load",
                *_ONCE_PER_LOAD,
                code="state_not_updated",
            ),
        ),
        (
            _of("running_mean", "buffer-updated"),
            _of("running_mean", "buffer-updated-by-the-kernel", *_UPDATED_BY_THE_KERNEL),
            _of(
                "running_mean",
                "another-tensor-for-the-buffer",
                (
                    _UPDATE,
                    "        self.running_mean = self.running_mean * 0.9 + 0.1 * x.mean(0)\n",
                ),
            ),
        ),
    ),
)
