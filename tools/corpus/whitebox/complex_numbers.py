"""What an eighth round of attackers found in complex numbers, which were drawn as a whole and never on an axis.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.domain.problem import Mode
from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

_LINEAR, _PHASORS, _FILTER = "i_complex_linear", "i_phasors", "i_complex_filter_trained"


def _of(
    base: str,
    name: str,
    *edits: tuple[str, str],
    code: str | None = None,
    discloses: str | None = None,
    trained: bool = False,
) -> Fixture:
    source = edited(honest_kernel(base), *edits)
    mode: Mode = "train" if trained else "eval"
    return Fixture(f"z-{name}", base, source, code, discloses, mode=mode)


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        _of(
            _LINEAR,
            "takes-a-weight-that-begins-real-for-real",
            (' - tl.dot(im, b, input_precision="ieee")', ""),
            ('tl.dot(re, b, input_precision="ieee") + ', ""),
            code="wrong_output",
        ),
        _of(
            _PHASORS,
            "divides-by-the-real-part",
            (
                "    root = tl.sqrt(a * a + b * b)\n",
                "    root = tl.abs(a) * tl.sqrt(1.0 + (b / a) * (b / a))\n",
            ),
            code="nonfinite",
        ),
        _of(
            _PHASORS,
            "no-phase-below-a-millionth",
            ("root == 0.0, 1.0", "most < 1e-6, 1e30"),
            code="wrong_output",
        ),
        _of(
            _PHASORS,
            "squares-of-parts-as-they-are",
            (' & (most < float("inf")), most, 1.0)', " & (most < 0.0), most, 1.0)"),
            discloses="differs_on_largest",
        ),
    ),
    61: (
        _of(
            _FILTER,
            "gradient-of-a-complex-weight-without-conjugation",
            ("db += p * im - q * re", "db += q * re - p * im"),
            code="wrong_output",
            trained=True,
        ),
        _of(
            _FILTER,
            "no-gradient-through-an-imaginary-upstream",
            (
                "q = tl.load(g_ptr + 2 * at + 1, mask=mask) + energy",
                "q = 0.0 * tl.load(g_ptr + 2 * at + 1, mask=mask) + energy",
            ),
            code="wrong_output",
            trained=True,
        ),
    ),
}
TWINS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        _of(
            _LINEAR,
            "products-of-complex-numbers-in-another-order",
            (
                ' - tl.dot(im, b, input_precision="ieee")',
                ' + tl.dot(-im, b, input_precision="ieee")',
            ),
        ),
        _of(
            _PHASORS,
            "divides-by-the-larger-part",
            (
                "a, b = re / scale, im / scale",
                "inverse = 1.0 / scale\n    a, b = re / scale, im / scale",
            ),
        ),
    ),
    61: (
        _of(
            _FILTER,
            "gradient-of-a-complex-weight-conjugated",
            ("db += p * im - q * re", "db -= q * re - p * im"),
            trained=True,
        ),
    ),
}
