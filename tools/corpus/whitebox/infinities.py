"""Answers with infinities where a mask hides: probes are made there as elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

_LOGS = "q_log_softmax"
_COUNTED = "q_scaled_and_counted"
_LOG = "x - largest - tl.log(total)"

CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        # Right wherever about a third is hidden: a row in which a single number is not has a sum of one.
        Fixture(
            "q-takes-a-lone-number-for-hidden",
            _LOGS,
            edited(
                honest_kernel(_LOGS),
                (_LOG, f"tl.where(tl.sum((x > -1e38).to(tl.int32), axis=0) > 1, {_LOG}, x)"),
            ),
            code="wrong_output",
        ),
        Fixture(
            "q-logarithm-without-the-maximum",
            _LOGS,
            edited(
                honest_kernel(_LOGS),
                ("tl.exp(x - largest)", "tl.exp(x)"),
                (_LOG, "x - tl.log(total)"),
            ),
            code="nonfinite",
        ),
        # The weights are positive where they are drawn.
        Fixture(
            "q-takes-no-weight-for-negative",
            _COUNTED,
            edited(honest_kernel(_COUNTED), ("(weight * (", "(tl.abs(weight) * (")),
            code="wrong_output",
        ),
        Fixture(
            "q-forgets-to-count-after-a-thousand",
            _COUNTED,
            edited(
                honest_kernel(_COUNTED),
                ("(calls % 5 + 1)", "(tl.where(calls < 1000, calls % 5, 0) + 1)"),
            ),
            code="insensitive",
            also=("wrong_output",),
        ),
    ),
}
TWINS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        Fixture(
            "q-infinities-where-a-mask-hides",
            _LOGS,
            honest_kernel(_LOGS),
            withholds="degenerate",
        ),
        Fixture("q-a-weight-and-a-count-beside-a-mask", _COUNTED, honest_kernel(_COUNTED)),
    ),
}
