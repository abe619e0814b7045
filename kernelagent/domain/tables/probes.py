"""The kinds of inputs that a candidate is judged on: a row each, which judge, report and tests read.

How the values of a kind are made stands in `tools/judge/problem/trials/probes.py`, under its name, or in `planted.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ProbeKind:
    """One kind of inputs."""

    name: str
    description: str
    """What such inputs are, as the report says it."""
    rounds: tuple[int, ...]
    """The numbers of the rounds of calls that it is part of, one for each call; `trials` has the rounds' weights."""
    steps: tuple[int, ...] = ()
    """The same for the rounds of training steps (`training`)."""
    refuses: str | None = None
    """The candidate of the shipped corpora that this kind alone refuses."""
    needs: Literal["masks", "bfloat16"] | None = None
    """Tensors without which no call is made with it."""
    planted: bool = False
    """Made for one candidate, by `tools/judge/problem/trials/planting/planted.py` or, without rounds, by a file of its own."""


AT_THE_END = 5
"""The round that only a final judging has."""
NATURAL = ProbeKind(
    "natural", "drawn by the problem's own function", (0, 0, 1, 2, 3), (0, 1, 2, 3, 4, 5, 6)
)
LIKE_EXAMPLES = "drawn like the example tensors"
"""What natural inputs are where the user gave tensors and no function that draws."""
PROBES = (
    NATURAL,
    ProbeKind(
        "rowaffine",
        "rows of very different scale and offset",
        (1,),
        (1,),
        refuses="mean-and-variance-of-uniform-numbers",
    ),
    ProbeKind("onehot", "all zero but for one element", (1,), refuses="ninety-percent-of-a-sum"),
    ProbeKind("times30", "30 times as large", (1,), (1,), refuses="cubic-for-relu"),
    ProbeKind("times1e-3", "a thousandth as large", (2,), (2,), refuses="another-eps"),
    ProbeKind("mean100", "around a mean of 100", (2,), (2,), refuses="variance-in-one-pass"),
    ProbeKind(
        "large_logits",
        "logits whose exponential overflows",
        (2,),
        refuses="no-maximum-subtracted",
    ),
    ProbeKind("spikes", "a few very large values", (2,), (2,), refuses="maximum-of-the-first-half"),
    ProbeKind(
        "times1e5",
        "100,000 times as large",
        (2,),
        refuses="float16-for-bfloat16",
        # They overflow float16, and in float32 other probes reveal float16 intermediates.
        needs="bfloat16",
    ),
    ProbeKind(
        "one_truth",
        "masks in which every other row holds one value only",
        (2,),
        (2,),
        needs="masks",
    ),
    ProbeKind(
        "edges",
        "zeros of both signs, ties, very small numbers and a row of equal values",
        (0,),
        (0,),
        refuses="zero-becomes-a-half",
    ),
    ProbeKind(
        "rows",
        "rows in order, shifted, and of sizes beside the numbers in the source",
        (3,),
        refuses="w-zeros-for-ascending-rows",
        planted=True,
    ),
    ProbeKind(
        "mask_shapes",
        "masks with one place, with one missing, beginnings, ends and bands",
        (2,),
        (1,),
        refuses="w-wrong-for-a-mask-of-one-place",
        needs="masks",
        planted=True,
    ),
    ProbeKind(
        "row_patterns",
        "rows with structure: sparse, of whole numbers, of one sign, alternating, repeated, of one norm",
        (3, AT_THE_END, AT_THE_END),
        (1, 2, 4, 4),
        refuses="w-wrong-for-rows-of-whole-numbers",
        planted=True,
    ),
    ProbeKind(
        "mixed_rows",
        "rows of many kinds and sizes beside one another, along any dimension",
        (AT_THE_END,),
        planted=True,
    ),
    ProbeKind(
        "structures",
        "tensors as batches have them: all rows alike, of one sign, mostly zero; causal, padded and open "
        "masks; consecutive and equal ids; one input equal to another, indices of the largest beside them",
        (2, 3, 4, 4, *(AT_THE_END,) * 12),
        (1, 2, 3, *(4,) * 6),
        refuses="w-one-more-where-all-masks-are-alike",
        planted=True,
    ),
    ProbeKind(
        "camps",
        "two inputs whose rows are as long: all near one row, or its opposite, or one of them far ahead of the rest",
        (1, 2, 3, *(AT_THE_END,) * 4),
        planted=True,
    ),
    ProbeKind(
        "beside_numbers",
        "rows whose mean, sum or one element is a number of the source or between two, and two inputs whose "
        "product, sum, difference or ratio is",
        (3,),
        (3,),
        refuses="f-half-of-outliers",
        planted=True,
    ),
    ProbeKind(
        "ends",
        "inputs at and near the ends of the interval they are drawn from, and two inputs that are nearly alike, opposite "
        "or proportional",
        (2, AT_THE_END, AT_THE_END),
        refuses="e-angles-of-cosines-as-they-were-drawn",
        planted=True,
    ),
    ProbeKind(
        "solved",
        "whole numbers for which what the module divides or compares comes out at a boundary",
        (),
        planted=True,
    ),
    ProbeKind(
        "literals",
        "the numbers in the source, in inputs and weights, and sizes between and beyond them",
        (4,),
        refuses="w-another-answer-at-one-value",
        planted=True,
    ),
)
PROBE = {kind.name: kind for kind in PROBES}
"""By name."""


def names_in(number: int, *, steps: bool = False) -> tuple[str, ...]:
    """The names of what round `number` of calls (`steps`: of training steps) consists of, in order."""
    return tuple(
        kind.name
        for kind in PROBES
        for at in (kind.steps if steps else kind.rounds)
        if at == number
    )
