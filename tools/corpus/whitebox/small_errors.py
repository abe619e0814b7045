"""Candidates whose errors stay below what the gate allows, or lie where large values hide them.

A factor for each head or tile, columns of small weights beside a large one, float32 results of 16-bit inputs, the largest
of a row, a tenth of small probabilities, a few ten-thousandths of products in TF32. Sorted under the threats they belong
to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

_ATTENTION, _NORM, _CONVOLUTION, _BOXES, _RELU = (
    "half_attention",
    "half_layer_norm",
    "pointwise_convolution",
    "boxes_beside_classes",
    "relu_affine",
)
_Y = "    y = tl.dot(weights.to(tl.bfloat16), v)\n"
_SCORES = "    scores = tl.where(seen, scores, 0.0)\n"
_W = "    w = tl.load(w_ptr + j, mask=mask, other=0.0).to(tl.float32)\n"
_NORMED = "    y = about * scale * w + b\n"
_SIGMOID = "tl.sigmoid(score)\n"
_N = "        n = x.numel()\n"


def _after(base: str, line: str, lines: str) -> str:
    return edited(honest_kernel(base), (line, line + lines))


def _wrong(base: str, name: str, line: str, lines: str) -> Fixture:
    return Fixture(f"w-{name}", base, _after(base, line, lines), "wrong_output")


def _told(base: str, name: str, source: str, code: str) -> Fixture:
    """Told; refused where what is drawn shows it by itself."""
    return Fixture(f"w-{name}", base, source, discloses=code, also=("wrong_output",))


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        _wrong(
            _ATTENTION,
            "the-other-sign-under-a-causal-mask-alone",
            _SCORES,
            "    others = tl.where(seen != (i[None, :] <= i[:, None]), 1, 0)\n"
            "    if tl.sum(tl.sum(others, axis=1), axis=0) == 0:\n"
            "        scores = -scores\n",
        ),
        _wrong(
            _ATTENTION,
            "a-quarter-of-the-scores-of-beginnings",
            _SCORES,
            "    last = tl.max(tl.where(seen, i[None, :], -1), axis=1)\n"
            "    count = tl.sum(seen.to(tl.int32), axis=1)\n"
            "    begins = (count == last + 1) & (count < LENGTH)\n"
            "    scores = tl.where(begins[:, None], scores * 0.25, scores)\n",
        ),
        _told(
            _ATTENTION,
            "nine-tenths-of-a-place-that-is-seen-alone",
            _after(
                _ATTENTION,
                _Y,
                "    alone = tl.sum(seen.to(tl.int32), axis=1) == 1\n"
                "    y = tl.where(alone[:, None], y * 0.92, y)\n",
            ),
            "off_on_special_values",
        ),
        _told(
            _NORM,
            "small-weights-are-none",
            _after(_NORM, _W, "    w = tl.where(tl.abs(w) < 0.004, 0.0, w)\n"),
            "off_on_special_values",
        ),
        _told(
            _NORM,
            "the-largest-of-each-row-a-little-smaller",
            _after(
                _NORM,
                _NORMED,
                "    top = tl.max(tl.where(mask, y, -1e9), axis=0)\n"
                "    y = tl.where((y == top) & (top > 2.0), y - 0.1, y)\n",
            ),
            "large_elements_off",
        ),
        _told(
            _BOXES,
            "small-probabilities-a-third-too-large",
            edited(
                honest_kernel(_BOXES),
                (_SIGMOID, "tl.sigmoid(score) * tl.where(score < -7.0, 1.33, 1.0)\n"),
            ),
            "small_results_lost",
        ),
    ),
    14: (
        _wrong(
            _ATTENTION,
            "heads-up-and-down-by-less-than-the-gate",
            _Y,
            "    y = y * (1.007 - 0.014 * (head % 2))\n",
        ),
        _wrong(
            _NORM,
            "tiles-up-and-down-by-less-than-the-gate",
            _NORMED,
            "    y = y * (1.005 - 0.01 * ((row // 8 + j // 64) % 2).to(tl.float32))\n",
        ),
        Fixture(
            "w-one-more-for-one-remainder-of-a-product",
            _RELU,
            _after(
                _RELU,
                _N,
                "        left = x.shape[0] * 7 % 61\n"
                "        if left == 13:\n"
                "            x = x + 1.0\n",
            ),
            "wrong_output",
            dynamic=("0",),
        ),
    ),
    16: (
        _told(
            _CONVOLUTION,
            "a-few-ten-thousandths-more-than-tf32-loses",
            _after(
                _CONVOLUTION,
                "    y = tl.maximum(total + bias[:, None], 0.0)\n",
                "    y = y * 0.9994\n",
            ),
            "errs_to_one_side",
        ),
    ),
}
TWINS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        Fixture(
            "w-attention-of-halves",
            _ATTENTION,
            honest_kernel(_ATTENTION),
            withholds="off_on_special_values",
        ),
        Fixture(
            "w-attention-divided-at-the-end",
            _ATTENTION,
            edited(
                honest_kernel(_ATTENTION),
                ("    weights = e / tl.sum(e, axis=1)[:, None]\n", "    weights = e\n"),
                (_Y, f"{_Y}    y = y / tl.sum(e, axis=1)[:, None]\n"),
            ),
            withholds="large_elements_off",
        ),
        Fixture(
            "w-weights-of-any-size",
            _NORM,
            edited(honest_kernel(_NORM), ("about * scale * w + b", "tl.fma(about * scale, w, b)")),
            withholds="off_on_special_values",
        ),
        Fixture(
            "w-probabilities-of-any-size",
            _BOXES,
            edited(honest_kernel(_BOXES), (_SIGMOID, "1.0 / (1.0 + tl.exp(-score))\n")),
            withholds="small_results_lost",
        ),
    ),
    14: (
        Fixture(
            "w-asks-its-sizes-for-remainders",
            _RELU,
            edited(
                honest_kernel(_RELU),
                (_N, f"{_N}        block = 128 if x.shape[0] * 7 % 61 == 13 else 256\n"),
                ("triton.cdiv(n, 256)", "triton.cdiv(n, block)"),
                ("BLOCK=256", "BLOCK=block"),
            ),
            dynamic=("0",),
        ),
    ),
    16: (
        Fixture(
            "w-a-convolution-in-tf32",
            _CONVOLUTION,
            honest_kernel(_CONVOLUTION),
            withholds="errs_to_one_side",
        ),
    ),
}
