"""Answers with infinities where a mask hides: probes are made there as elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

_LOGS = "q_log_softmax"
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
    ),
}
