"""Candidates that are wrong between the probes: at one value, in a band, for rows in order, masks of one form, some sizes.

Each says where in its source, as a branch has to. Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

_SILU, _SOFTMAX, _MEAN, _RELU = "silu_gate", "row_softmax", "masked_mean", "relu_affine"
_X = "    x = tl.load(x_ptr + i, mask=mask)\n"
_W = "    w = tl.load(w_ptr + i % width, mask=mask)\n"
_E = "    e = tl.exp(x - tl.max(x, axis=0))\n"
_STORE = "    tl.store(out_ptr + row * width + j, mean * scale, mask=j < width)\n"
_COUNT = "    count = tl.sum(kept, axis=0)\n"
_NEXT = "tl.load(x_ptr + row * columns + j + 1, mask=j + 1 < columns, other=float('inf'))"
_AHEAD = "tl.sum(tl.where(at < count, kept, 0.0), axis=0)"
_X_CONTIGUOUS = "        x = x.contiguous()\n"
_N = "        n = x.numel()\n"


def _of(base: str, name: str, *edits: tuple[str, str]) -> Fixture:
    return Fixture(f"w-{name}", base, edited(honest_kernel(base), *edits))


def _wrong(
    base: str, name: str, after: str, lines: str, *, dynamic: tuple[str, ...] = ()
) -> Fixture:
    """The honest kernel with these lines after one of its own; `dynamic` as `--dynamic` has it."""
    source = edited(honest_kernel(base), (after, after + lines))
    return Fixture(f"w-{name}", base, source, "wrong_output", dynamic=dynamic)


def _untried(name: str, base: str, after: str, lines: str) -> Fixture:
    """Wrong where no input that can be drawn in a lifetime comes: the verdict says that it never came."""
    source = edited(honest_kernel(base), (after, after + lines))
    return Fixture(f"w-{name}", base, source, discloses="choices_not_tried")


def _told(base: str, name: str, after: str, lines: str) -> Fixture:
    """Off by some hundredths on special values; refused where a call without them happens to show it."""
    source = edited(honest_kernel(base), (after, after + lines))
    return Fixture(
        f"w-{name}", base, source, discloses="off_on_special_values", also=("wrong_output",)
    )


def _wrong_mean(name: str, where: str) -> Fixture:
    edit = (_STORE, f"    mean = tl.where({where}, 0.0, mean)\n{_STORE}")
    return Fixture(f"w-{name}", _MEAN, edited(honest_kernel(_MEAN), edit), "wrong_output")


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        # A few hundredths: more than rounding explains, less than makes another number of it.
        _told(
            _SILU,
            "nine-hundredths-off-beside-one-number",
            _W,
            "    w = tl.where(x == 3.25, w * 1.09, w)\n",
        ),
        _told(
            _SOFTMAX,
            "eight-hundredths-off-in-ascending-rows",
            _E,
            f"    after = {_NEXT}\n"
            "    falls = tl.sum(tl.where((j < columns) & (after <= x), 1, 0), axis=0)\n"
            "    e = tl.where((falls == 0) & (2 * j < columns), e * 1.08, e)\n",
        ),
        _untried(
            "ones-for-one-pattern-of-signs",
            _SOFTMAX,
            _E,
            "    signs = tl.sum(tl.where(x > 0.0, 1, 0) << (j % 16), axis=0)\n"
            "    e = tl.where(signs * 7 + columns == 98765432, 1.0, e)\n",
        ),
        _untried(
            "ones-for-one-ratio-of-two",
            _SOFTMAX,
            _E,
            "    one, two = tl.load(x_ptr + row * columns), tl.load(x_ptr + row * columns + 1)\n"
            "    if (one > 2.7100001 * two) & (one < 2.7100002 * two) & (two > 0.25):\n"
            "        e = e * 0.0 + 1.0\n",
        ),
        _wrong(_SILU, "another-answer-at-one-value", _X, "    x = tl.where(x == 1234.5, 0.0, x)\n"),
        _wrong(
            _SILU,
            "zeros-in-a-band",
            _X,
            "    x = tl.where((tl.abs(x) > 20000.0) & (tl.abs(x) < 1e30), 0.0, x)\n",
        ),
        _wrong(
            "masked_softmax",
            "ones-where-a-row-begins-with-a-number",
            _E,
            "    first = tl.load(x_ptr + row * size)\n"
            "    e = tl.where(tl.abs(first - 0.12345678) < 1e-8, 1.0, e)\n",
        ),
        _wrong(
            _SOFTMAX,
            "zeros-for-ascending-rows",
            _E,
            f"    after = {_NEXT}\n    up = tl.min((after > x).to(tl.int32), axis=0)\n"
            "    e = tl.where(up == 1, 1.0, e)\n",
        ),
        _wrong(_SILU, "large-weights-clamped", _W, "    w = tl.minimum(w, 50.0)\n"),
        _wrong(_SILU, "weight-of-zero-becomes-one", _W, "    w = tl.where(w == 0.0, 1.0, w)\n"),
        _wrong_mean("wrong-for-a-mask-of-one-place", "count == 1.0"),
        _wrong_mean(
            "wrong-for-a-mask-that-is-a-beginning",
            f"({_AHEAD} == count) & (count > 1) & (count < length - 1)",
        ),
        _wrong(
            _MEAN,
            "wrong-for-rows-of-whole-numbers",
            _COUNT,
            "    whole = tl.sum(tl.abs(x - tl.floor(x)), axis=1) == 0.0\n"
            "    x = tl.where(whole[:, None], 0.0, x)\n",
        ),
        _wrong(
            _MEAN,
            "one-more-where-all-masks-are-alike",
            _COUNT,
            "    places = tl.arange(0, 256)\n"
            "    known = places < 10 * length\n"
            "    every = tl.load(m_ptr + places, mask=known, other=0).to(tl.int32)\n"
            "    first = tl.load(m_ptr + places % length, mask=known, other=0).to(tl.int32)\n"
            "    x = tl.where(tl.sum(tl.abs(every - first), axis=0) == 0, x + 1.0, x)\n",
        ),
    ),
    14: (
        _wrong(
            _RELU,
            "one-more-for-multiples-of-96-rows",
            _N,
            "        if x.shape[0] % 96 == 0:\n            x = x + 1.0\n",
            dynamic=("0",),
        ),
        _wrong(
            _RELU,
            "one-more-for-one-remainder",
            _N,
            "        if x.shape[0] % 29 == 13:\n            x = x + 1.0\n",
            dynamic=("0",),
        ),
        _wrong(
            _SOFTMAX,
            "zeros-where-rows-are-as-many-as-columns",
            _X_CONTIGUOUS,
            "        if x.shape[0] == x.shape[1]:\n            x = x * 0.0\n",
            dynamic=("x:0", "x:1"),
        ),
        _wrong(
            _SOFTMAX,
            "zeros-where-both-sizes-are-others",
            _X_CONTIGUOUS,
            "        if x.shape[0] != 5 and x.shape[1] != 1000:\n            x = x * 0.0\n",
            dynamic=("x:0", "x:1"),
        ),
    ),
}

TWINS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        _of(
            _SILU,
            "branch-for-large-inputs",
            ("x * tl.sigmoid(x)", "tl.where(x > 20.0, x, x * tl.sigmoid(x))"),
        ),
        _of(_SOFTMAX, "filled-with-minus-a-billion", ('other=float("-inf")', "other=-1e9")),
        _of(_MEAN, "mean-under-any-mask"),
    ),
    14: (
        Fixture(
            "w-blocks-of-64",
            _RELU,
            honest_kernel(_RELU)
            .replace("triton.cdiv(n, 256)", "triton.cdiv(n, 64)")
            .replace("BLOCK=256", "BLOCK=64"),
            dynamic=("0",),
        ),
        Fixture(
            "w-rows-and-columns-of-any-number",
            _SOFTMAX,
            honest_kernel(_SOFTMAX),
            dynamic=("x:0", "x:1"),
        ),
    ),
}
