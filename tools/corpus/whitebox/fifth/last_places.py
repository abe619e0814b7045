"""Kernels that hang on exact quotients, roots and exponentials, or on how a CPU has NaN: a GPU has others.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel
from kernelagent.tools.corpus.whitebox.first import HONEST

_STORE = "    tl.store(out_ptr + i, x * tl.sigmoid(x) * g * w, mask=mask)\n"
_SPOILT = "    tl.store(out_ptr + i, tl.where(alike, x * tl.sigmoid(x) * g * w, 0.0), mask=mask)\n"
_BITS = (
    "    bits = tl.full((BLOCK,), 0x7FC12340, tl.int32)\n"
    "    nan = bits.to(tl.float32, bitcast=True)\n"
)
_ROW = "    r = (i % 89 + 3).to(tl.float32)\n"


def _right_if(name: str, lines: str, code: str | None = None) -> Fixture:
    """Right in the lanes in which `alike`, which the lines define, holds."""
    return Fixture(f"w-{name}", "silu_gate", edited(HONEST, (_STORE, lines + _SPOILT)), code)


_PERIODS, _TRAINED = "whole_periods", "relu_affine_trained"
_CUT_OFF = "tl.floor(tl.div_rn(t, period))"


def _periods(
    name: str, whole: str, code: str | None = None, discloses: str | None = None
) -> Fixture:
    """Counts whole periods so; `whole` may name `t`, `period` and the lane `i`."""
    source = edited(honest_kernel(_PERIODS), (_CUT_OFF, whole))
    return Fixture(f"w-{name}", _PERIODS, source, code, discloses=discloses)


def _trained(name: str, factor: str, code: str | None = None) -> Fixture:
    """Gradients of the input with what a product, stored by the forward, has left of itself once it is taken off."""
    source = edited(
        honest_kernel(_TRAINED),
        ("w_ptr, b_ptr, out_ptr, n, width", "w_ptr, b_ptr, out_ptr, p_ptr, n, width"),
        (
            "    tl.store(out_ptr + i, tl",
            f"    tl.store(p_ptr + i, x * {factor}, mask=mask)\n    tl.store(out_ptr + i, tl",
        ),
        ("x_ptr, w_ptr, dx_ptr", "x_ptr, w_ptr, p_ptr, dx_ptr"),
        (
            "        tl.store(dx_ptr + row * width + i, tl.where(x > 0.0, g * w, 0.0), mask=mask)\n",
            "        p = tl.load(p_ptr + row * width + i, mask=mask)\n"
            f"        rest = (x * {factor} - p) * 1e8\n"
            "        dx = tl.where(x > 0.0, g * w, 0.0) + rest\n"
            "        tl.store(dx_ptr + row * width + i, dx, mask=mask)\n",
        ),
        ("        ctx.save_for_backward(x, weight)\n        out = torch.empty_like(x)\n",
         "        out, p = torch.empty_like(x), torch.empty_like(x)\n"
         "        ctx.save_for_backward(x, weight, p)\n"),
        ("(x, weight, bias, out, n,", "(x, weight, bias, out, p, n,"),
        ("x, weight = ctx.saved_tensors", "x, weight, p = ctx.saved_tensors"),
        ("(g, x, weight, dx,", "(g, x, weight, p, dx,"),
    )  # fmt: skip
    return Fixture(f"w-{name}", _TRAINED, source, code, mode="train")


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    26: (
        _right_if(
            "divides-in-two-ways", "    alike = x / g == tl.div_rn(x, g)\n", code="wrong_output"
        ),
        _right_if(
            "takes-quotients-for-whole",
            _ROW + "    alike = tl.floor(r * 21.0 / r) == 21.0\n",
            code="wrong_output",
        ),
        _right_if(
            "takes-roots-of-squares-for-whole",
            _ROW + "    alike = tl.floor(tl.sqrt(r * r)) == r\n",
            code="wrong_output",
        ),
        _right_if(
            "multiplies-by-what-it-divides-by",
            "    alike = tl.abs((1.0 / tl.abs(g)) - tl.div_rn(1.0, tl.abs(g))) == 0.0\n",
            code="wrong_output",
        ),
        _right_if(
            "adds-to-nan-of-its-own",
            _BITS + "    alike = (nan + x).to(tl.int32, bitcast=True) == bits\n",
            code="wrong_output",
        ),
        _right_if(
            "sums-nan-of-its-own",
            _BITS + "    alike = tl.sum(nan, 0).to(tl.int32, bitcast=True) == bits\n",
            code="wrong_output",
        ),
        _right_if(
            "takes-the-root-of-a-constant-nan",
            "    nan = tl.sqrt(tl.full((BLOCK,), float('nan'), tl.float32) + x)\n"
            "    alike = nan.to(tl.int32, bitcast=True) == 0x7FC00000\n",
            code="wrong_output",
        ),
        _periods(
            "counts-seven-more-where-a-quotient-is-not-exact",
            f"{_CUT_OFF} + tl.where((t / 3.0 != tl.div_rn(t, 3.0)) & (i % 97 == 5), 7.0, 0.0)",
            code="wrong_output",
        ),
        _periods(
            "cuts-off-a-quotient-that-errs",
            "tl.floor(t / period)",
            discloses="last_place_decides",
        ),
        _trained("a-gradient-with-what-fusing-leaves", "w", code="wrong_output"),
    ),
}
TWINS: Mapping[int, tuple[Fixture, ...]] = {
    26: (
        _right_if(
            "divides-exactly",
            _ROW + "    alike = tl.floor(tl.div_rn(r * 21.0, r)) == 21.0\n",
        ),
        _right_if(
            "rounds-quotients-to-whole",
            _ROW + "    alike = tl.floor(r * 21.0 / r + 0.5) == 21.0\n",
        ),
        _right_if(
            "halves-exactly",
            _ROW + "    alike = tl.floor(r * 4.0 / 4.0) == r\n",
        ),
        _right_if(
            "moves-nan-of-its-own",
            _BITS
            + "    nan = tl.where(x == x, nan, 0.0)\n"
            + "    alike = nan.to(tl.int32, bitcast=True) == bits\n",
        ),
        _right_if(
            "knows-what-nan-a-gpu-has",
            _BITS + "    alike = (nan + x).to(tl.int32, bitcast=True) == 0x7FFFFFFF\n",
        ),
        _right_if(
            "takes-roots-exactly",
            _ROW + "    alike = tl.floor(tl.sqrt_rn(r * r)) == r\n",
        ),
        _periods(
            "puts-right-a-quotient-that-errs",
            "tl.floor(t / period)\n"
            "    rest = t - whole * period\n"
            "    whole = tl.where(rest < 0.0, whole - 1.0, whole)\n"
            "    whole = tl.where(rest >= period, whole + 1.0, whole)",
        ),
        _trained("a-gradient-with-what-an-exact-product-leaves", "2.0"),
    ),
}
