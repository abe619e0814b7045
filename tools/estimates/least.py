"""The least time in which a module's formula can be computed: its inputs, weights, outputs, operations.

Unlike the hard floor of `tools/judge/bounds/headroom.py`, by which candidates are refused, this counts what the
reference's own operators do: algebra may need less. It is reported only and decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernelagent.domain.evaluation import HeadroomFacts
from kernelagent.tools.estimates.library import Library
from kernelagent.tools.estimates.operations import Operation
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings

_FIRST_RESULT_ONLY = frozenset({"pool", "batch_norm", "layer_norm", "group_norm"})
_MASKING = frozenset({"masked_fill", "where", "tril", "triu"})
_KEEPS_PLACES = frozenset({"pointwise", "copy"})
_FORMED = frozenset({"fill", "random"})


_MOSTLY_LAUNCH = 2.0
"""A launch that takes so many times its work on the device is mostly the host's."""


@dataclass(frozen=True)
class Least:
    """What one forward must move and compute."""

    moved_bytes: int
    """Inputs, weights and buffers that are read, once, and outputs."""
    flops: dict[str, int]
    """Of products, by the type they are computed in; a multiply-add counts twice."""
    elementwise: int
    """Results of all other operators."""
    dram_us: float
    math_us: float

    @property
    def device_us(self) -> float:
        """What it keeps the device busy for, with the efficiencies that an estimate assumes."""
        return max(self.dram_us, self.math_us)


def least_of(operations: Sequence[Operation], gpu: DeviceCeilings) -> Least:
    """The least of one forward, with the efficiencies that an estimate assumes."""
    given, made = _bytes(operations)
    flops: dict[str, int] = {}
    elementwise = 0
    left_out = _of_masked_attention(operations)
    for at, operation in enumerate(operations):
        if at in left_out:
            continue
        if operation.flops:
            kind = gpu.dot_kind(operation.dtype, rounds=_rounds(operation))
            flops[kind] = flops.get(kind, 0) + operation.flops
        else:
            elementwise += max((o.elements for o in operation.writes), default=0)
    products = sum(count / gpu.fastest_rate(kind) for kind, count in flops.items())
    return Least(
        moved_bytes=given + made,
        flops=flops,
        elementwise=elementwise,
        dram_us=1e6 * (given + made) / (gpu.dram_bytes_per_s * gpu.dram_efficiency),
        math_us=1e6 * (products / gpu.dot_efficiency + elementwise / gpu.fp32_flops_per_s),
    )


def least_us(least: Least, eager_us: float, library: Library) -> float:
    """The time of one launch that does no more than it must; never above eager's estimate.

    The launch costs the host what a candidate's own are estimated to cost: small modules would else have "headroom" that
    no kernel can reach.
    """
    return min(library.in_one_launch(least.device_us), eager_us)


def facts_of_least(
    input_set: str, least: Least, time_us: float, eager_us: float, library: Library
) -> HeadroomFacts:
    """How near `time_us` comes to the least time."""
    lowest = least_us(least, eager_us, library)
    attained = min(1.0, lowest / time_us)
    return HeadroomFacts(
        input_set=input_set,
        fewest_bytes=least.moved_bytes,
        fewest_flops=least.flops,
        least_us=round(lowest, 3),
        binds=_binds(least, lowest),
        attained=round(attained, 4),
        left=round(1 - attained, 4),
        ceilings="data sheet",
    )


def _binds(least: Least, us: float) -> Literal["dram", "math", "launch"]:
    if us > _MOSTLY_LAUNCH * least.device_us:
        return "launch"
    return "math" if least.math_us > least.dram_us else "dram"


def _of_masked_attention(operations: Sequence[Operation]) -> set[int]:
    """Products before and behind a softmax over which a mask was laid: as causal attention is written out.

    A kernel leaves out what the mask hides, and how much that is only values tell: nothing of them is counted.
    """
    moved = [
        (operation, {o.key for o in operation.reads}, {o.key for o in operation.writes})
        for operation in operations
    ]
    masked: set[int] = set()
    probabilities: set[int] = set()
    behind: set[int] = set()
    for at, (operation, read, written) in enumerate(moved):
        if operation.name.rstrip("_") in _MASKING:
            masked |= written
        elif operation.kind == "softmax" and read & masked:
            probabilities |= written
        elif operation.kind in _KEEPS_PLACES:
            masked |= written if read & masked else set()
            probabilities |= written if read & probabilities else set()
        elif operation.kind == "matmul" and read & probabilities:
            behind.add(at)
    if not behind:
        return set()
    scores: set[int] = set()
    before: set[int] = set()
    for at, (operation, read, written) in reversed(list(enumerate(moved))):
        softmax = operation.kind == "softmax" and written & probabilities
        passes = operation.kind in _KEEPS_PLACES and written & scores
        if softmax or passes:
            scores |= read
        elif operation.kind == "matmul" and written & scores:
            before.add(at)
    return behind | before


def _bytes(operations: Sequence[Operation]) -> tuple[int, int]:
    given: dict[int, int] = {}
    pending: dict[int, int] = {}
    made: set[int] = set()
    for operation in operations:
        for at, operand in enumerate(operation.reads):
            pending.pop(operand.key, None)
            if operand.key not in made:
                # Of a convolution and a pooling the input is the first.
                share = operation.facts.get("read_share", 1.0) if at == 0 else 1.0
                read = math.ceil(share * operand.moved_bytes)
                given[operand.key] = max(given.get(operand.key, 0), read)
        results = operation.writes
        if operation.kind in _FIRST_RESULT_ONLY:
            results = results[:1]
        for operand in results:
            made.add(operand.key)
            if operation.kind not in _FORMED:
                pending[operand.key] = operand.moved_bytes
    return sum(given.values()), sum(pending.values())


def _rounds(operation: Operation) -> bool:
    from kernelagent.tools.calls import float32_precision

    if operation.kind == "convolution":
        return float32_precision.convolutions_round()
    if operation.kind == "recurrent":
        return float32_precision.recurrences_round()
    return float32_precision.matmul_precision() != "highest"
