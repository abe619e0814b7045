"""What a fifth round of attackers found in values: errors that cancel over the whole, bands that no probe reached.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

_PAIRS, _HALF_NORM, _ROWS = "routed_pairs", "half_layer_norm", "root_mean_square"
_TRAINED, _GATE = "relu_affine_trained", "silu_gate"
_LOADED = "    x = tl.load(x_ptr + row * width + j, mask=mask, other=0.0)\n"
_ROOT = "    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / width + 1e-6) * w\n"
_TWO = "    g = tl.load(g_ptr + i, mask=mask)\n"
_UPSTREAM = "        g = tl.load(g_ptr + row * width + i, mask=mask)\n"
_NAMED = "tl.where(mask[:, None], named, 0)"
_SCALED = "    y = about * scale * w + b\n"


def _of(base: str, name: str, *edits: tuple[str, str], **how: str) -> Fixture:
    return Fixture(f"f-{name}", base, edited(honest_kernel(base), *edits), **how)  # type: ignore[arg-type]


def _wrong(base: str, name: str, after: str, lines: str) -> Fixture:
    return _of(base, name, (after, after + lines), code="wrong_output")


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        _wrong(
            _ROWS,
            "half-of-outliers",
            _LOADED,
            "    a = tl.abs(x)\n"
            "    x *= 1.0 - 0.5 * tl.maximum(tl.minimum(tl.minimum(a - 1500.0, 3500.0 - a), 1.0), 0.0)\n",
        ),
        _wrong(
            _ROWS,
            "rows-of-one-mean-too-small",
            _ROOT,
            "    m = tl.sum(x, axis=0) / width\n"
            "    y *= 1.0 - 0.1 * tl.maximum(tl.minimum(tl.minimum(m - 20.0, 80.0 - m), 1.0), 0.0)\n",
        ),
        _wrong(
            _ROWS,
            "rows-of-one-sum-too-small",
            _ROOT,
            "    m = tl.abs(tl.sum(x, axis=0))\n"
            "    y *= 1.0 - 0.1 * tl.maximum(tl.minimum(tl.minimum(m - 300.0, 900.0 - m), 1.0), 0.0)\n",
        ),
        _wrong(
            _GATE,
            "zero-for-one-product-of-two-inputs",
            _TWO,
            "    k = x * g\n"
            "    g *= 1.0 - tl.maximum(tl.minimum(tl.minimum(k - 11.0, 11.00001 - k) * 1e8, 1.0), 0.0)\n",
        ),
        _of(
            _TRAINED,
            "shrinks-tiny-gradients",
            (_UPSTREAM, _UPSTREAM + "        g *= tl.minimum(tl.abs(g) * 1e12, 1.0)\n"),
            code="wrong_output",
            mode="train",
        ),
    ),
    14: (
        _of(
            _PAIRS,
            "counts-each-tie-for-its-last-expert",
            (
                _NAMED,
                "tl.where(mask[:, None], (x == next[:, None]).to(tl.int64) + "
                "((x == best[:, None]) & (best > next)[:, None]).to(tl.int64), 0)",
            ),
            code="wrong_output",
        ),
        _wrong(
            _HALF_NORM,
            "columns-up-and-down-by-less-than-the-gate",
            _SCALED,
            "    y = y * (1.0065 - 0.013 * (j % 2).to(tl.float32))\n",
        ),
        _wrong(
            _HALF_NORM,
            "rows-off-by-one-small-part-of-their-size",
            _SCALED,
            "    y = y + 0.0045 * tl.sqrt(tl.sum(tl.where(mask, y * y, 0.0), axis=0) / width)\n",
        ),
    ),
}
TWINS: Mapping[int, tuple[Fixture, ...]] = {
    6: (_of(_ROWS, "right-at-any-size"),),
    14: (
        _of(_PAIRS, "counts-the-experts-it-names"),
        _of(
            _PAIRS,
            "names-the-last-of-equal-experts",
            (
                "tl.max(x, axis=1, return_indices=True)",
                "tl.max(x, axis=1, return_indices=True, return_indices_tie_break_left=False)",
            ),
        ),
        _of(_HALF_NORM, "rounds-at-random"),
        _of(
            _HALF_NORM,
            "rounds-a-scale-for-each-row",
            ("width + 1e-5)\n", "width + 1e-5).to(tl.bfloat16).to(tl.float32)\n"),
        ),
    ),
}
