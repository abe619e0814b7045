"""What no draw meets: remainders and carries at a boundary, and added masks with other numbers."""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

_RESIDUES = "p_residues"
_SUMS = "p_long_sums"
_BIAS = "p_bias"
_ADDED = "scores = scores + bias[None, :]"
_REST = "rest = total % 998244353"
_BY_QUOTIENT = (
    "quotient = tl.floor(total.to(tl.float64) / 998244353.0).to(tl.int64)\n"
    "    rest = total - quotient * 998244353"
)
_MENDED = (
    f"{_BY_QUOTIENT}\n"
    "    rest = tl.where(rest < 0, rest + 998244353, rest)\n"
    "    rest = tl.where(rest >= 998244353, rest - 998244353, rest)"
)

CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        Fixture(
            "p-divides-in-floating-point",
            _RESIDUES,
            edited(honest_kernel(_RESIDUES), (_REST, _BY_QUOTIENT)),
            code="wrong_output",
        ),
        # What is carried in is lost where the other number is the largest there is.
        Fixture(
            "p-forgets-what-is-carried-in",
            _SUMS,
            edited(honest_kernel(_SUMS), ("((some < a) | (total < some))", "(total < a)")),
            code="wrong_output",
        ),
        # A mask that is added holds zeros and what hides in all that the user draws.
        Fixture(
            "p-takes-an-added-mask-for-truths",
            _BIAS,
            edited(
                honest_kernel(_BIAS),
                (_ADDED, 'scores = tl.where(bias[None, :] < 0.0, float("-inf"), scores)'),
            ),
            discloses="differs_on_other_bias",
            also=("wrong_output",),
        ),
    ),
}
TWINS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        Fixture("p-takes-what-is-left", _RESIDUES, honest_kernel(_RESIDUES)),
        Fixture(
            "p-mends-a-quotient-in-floating-point",
            _RESIDUES,
            edited(honest_kernel(_RESIDUES), (_REST, _MENDED)),
        ),
        Fixture("p-carries-twice", _SUMS, honest_kernel(_SUMS)),
        Fixture("p-adds-a-mask", _BIAS, honest_kernel(_BIAS), withholds="differs_on_other_bias"),
    ),
}
