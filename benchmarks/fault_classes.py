"""Planted faults to mend: forty of them by class, and what an ideal message says of each mistake.

The faults are those of `benchmarks.faults`: four of each kernel, each by another mistake, chosen once by a fixed
seed so that the classes are met about equally often.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from benchmarks.faults import KERNELS, Fault, faults

OF_EACH_KERNEL = 4
_SEED = 19

CLASSES = {
    "mask or bound": {
        "store without its mask": "the store that writes past its tensor, its line, and that it has no mask",
        "load without its mask": "the load that reads past its tensor, its line, and that it has no mask",
        "bound one too small": "the last place of each row or block is not computed: the bound excludes it",
        "bound one too large": "the access reaches one element past the end: the bound includes one too many",
        "wrong fill": "masked places enter the result: the fill is not neutral for the operation",
    },
    "program or block": {
        "too few programs": "the tail is never written: the grid is rounded down instead of up",
        "wrong grid": "a part of the output is never written: programs are missing in the grid",
        "first program skipped": "the first block is never written, and the last program is past the end",
        "axes swapped": "blocks off the diagonal are never written: both program ids are of one axis",
        "block overlaps the next": "programs write each other's places: the offset is not the block's width",
        "half a block": "the second half of each row is never read or written: the block is too narrow",
        "only the last block": "only the last turn of the loop counts: the sum is overwritten, not added to",
        "first block skipped": "the first block of the inner dimension is left out of the sum",
        "last block skipped": "the last block of the inner dimension is left out of the sum",
    },
    "place": {
        "wrong stride": "every row but the first starts too late: the row's stride is not the row's width",
        "index one too high": "the output is shifted by one along the last dimension",
        "stored one too far": "the output is shifted by one: the store's address is one too high",
        "loaded one too far": "the input is read shifted by one: the load's address is one too high",
        "wrong row": "neighbouring rows are exchanged",
        "wrong column": "the vector's element is that of the row, not of the column",
        "one element off": "one element is stored at its neighbour's place",
        "one row of the input twice": "one row is computed from the row before it",
        "mean over the other axis": "the buffer is averaged over the wrong dimension",
    },
    "formula": {
        "term left out": "which operand's term is missing: the answer is right without it",
        "factor left out": "which operand's factor is missing: the answer is right without it",
        "wrong sign": "a difference is computed as a sum, and of what",
        "wrong operator": "a quotient is computed as a product: the result's factor",
        "sum for maximum": "the largest value of a row is replaced by the sum",
        "maximum for sum": "the sum of a row is replaced by its largest value",
        "smallest for largest": "the index of the smallest value is returned",
        "other base": "the exponential has another base than e",
        "no maximum subtracted": "large inputs overflow: the maximum is not subtracted before the exponential",
        "no root": "the square root of the variance is missing",
        "wrong constant": "the whole result is off by a constant factor, and by which",
        "wrong threshold": "values below a threshold are raised to it",
        "wrong comparison": "small values are compared with another threshold",
        "another eps": "inputs with little variance are off: eps is another one",
        "decay of another order": "the buffer's old and new parts have exchanged weights",
        "result in other units": "the result is a multiple of the right one, by the count of elements",
        "result twice": "the result is twice the right one",
    },
    "precision or type": {
        "narrow accumulator": "the error is that of float16 inside: sums are kept in a narrow type",
        "narrow values": "the error is that of float16 inside: values are rounded when loaded",
        "narrow products": "the error is that of tf32 in products that must be exact",
        "result rounded": "the error is that of bfloat16: the result is rounded before it is stored",
        "other output type": "the output's type, and that of the reference",
    },
    "operand": {
        "arguments swapped": "which two operands have changed places",
        "input returned": "the input is returned instead of the output",
        "scale left out": "which scalar is ignored",
        "update left out": "which buffer is not updated",
    },
}
"""Mistakes by class, with what an ideal message says of each."""

NOT_CAUGHT = {
    ("relu_affine", "w = tl.load(w_ptr + i % width)"),
    (
        "running_mean",
        "y = tl.load(x_ptr + i, mask=mask) - tl.load(m_ptr + i % width)",
    ),
}
"""Kernel and changed line of faults that the judge accepts: nothing reads past the end (results/faults.md)."""


@dataclass(frozen=True)
class ToMend:
    """One fault with its number on the desk."""

    number: int
    fault: Fault

    @property
    def kind(self) -> str:
        """Its class."""
        return class_of(self.fault.mistake)

    @property
    def ideal(self) -> str:
        """What an ideal message says."""
        return CLASSES[self.kind][self.fault.mistake]


def class_of(mistake: str) -> str:
    """The class of a mistake; raises `KeyError` for one that has none."""
    return next(name for name, mistakes in CLASSES.items() if mistake in mistakes)


def to_mend() -> tuple[ToMend, ...]:
    """The forty, the same in every process; ten in a row are of ten kernels."""
    drawn = random.Random(_SEED)
    classes, mistakes = Counter[str](), Counter[str]()
    chosen: dict[str, list[Fault]] = {}
    for kernel in KERNELS:
        choice = [f for f in faults(kernel) if _is_caught(f)]
        drawn.shuffle(choice)
        for _ in range(OF_EACH_KERNEL):
            mine = chosen.setdefault(kernel, [])
            used = {fault.mistake for fault in mine}
            fault = min(
                (fault for fault in choice if fault.mistake not in used),
                key=lambda f: (classes[class_of(f.mistake)], mistakes[f.mistake]),
            )
            mine.append(fault)
            classes[class_of(fault.mistake)] += 1
            mistakes[fault.mistake] += 1
    for mine in chosen.values():
        drawn.shuffle(mine)
    in_turn = [chosen[kernel][turn] for turn in range(OF_EACH_KERNEL) for kernel in KERNELS]
    return tuple(ToMend(number, fault) for number, fault in enumerate(in_turn, 1))


def _is_caught(fault: Fault) -> bool:
    return fault.equivalent is None and (fault.kernel, fault.after) not in NOT_CAUGHT
