"""Kernels that hang on exact quotients, roots and exponentials, or on how a CPU has NaN: a GPU has others.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited
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
    ),
}
