"""How fast the user's module could be at most: a lower bound of its time that trusts no candidate.

Bytes: every input, parameter and buffer that the result depends on, read once, and every output,
written once, at peak DRAM bandwidth. Operations: the products of the reference, in the order it
makes them, at dense peak. Assumed: inputs and parameters hold ordinary floats (no product with zero,
no infinity), labels are not ignored, sums are not rearranged by algebra. Rows that indices pick, and
operands that a mask, an integer or a table may switch off, count nothing at all, and neither do products with a triangle,
or with what a mask leaves a part of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.utils.flop_counter import flop_registry

from kernelagent.domain.evaluation import HeadroomFacts
from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.calls.torch_dtypes import allowed_product, widened
from kernelagent.tools.estimates.recurrent import NAMES as RECURRENT
from kernelagent.tools.estimates.recurrent import Layers
from kernelagent.tools.judge.bounds.minimum_traffic import Necessary, Need, necessary
from kernelagent.tools.judge.bounds.operation_needs import (
    ATTENTION,
    Operation,
    attention_pairs,
    key_of,
    tensors_of,
)
from kernelagent.tools.judge.problem.trials.interpreted_work import meta_twin
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings

_HARD_SHARE = 0.95
"""A measured time below this share of the time needed to write the outputs is refused."""


@dataclass(frozen=True)
class Headroom:
    """The lower bound for one call on one device, caches cold."""

    input_bytes: int
    state_bytes: int
    """Of parameters and buffers."""
    output_bytes: int
    fewest_flops: dict[str, int]
    """By operand type of the product; a multiply-add counts twice."""
    dram_us: float
    math_us: float
    floor_us: float
    """What even writing the outputs takes, part of them left in the L2 cache: the hard floor."""

    @property
    def fewest_bytes(self) -> int:
        return self.input_bytes + self.state_bytes + self.output_bytes

    @property
    def bound_us(self) -> float:
        return max(self.dram_us, self.math_us)

    @property
    def binds(self) -> Literal["dram", "math"]:
        """The resource that takes longest."""
        return "math" if self.math_us > self.dram_us else "dram"

    def attained(self, time_us: float) -> float:
        """Share of the possible speed; above 1 only where caches were warm or a ceiling is wrong."""
        return self.bound_us / time_us


def headroom_of(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    ceilings: DeviceCeilings,
    promised: DeviceCeilings | None = None,
) -> Headroom:
    """The bound of `module(*args, **kwargs)`; the arguments' tensors are on the meta device.

    The module keeps its own device and is not changed; the values of its buffers tell whether they
    can switch something off. `promised`: what the hard floor is made of, where it is not `ceilings`.
    Raises what its forward raises on meta tensors.
    """
    twin = meta_twin(module)
    state = [*twin.parameters(), *twin.buffers()]
    result = necessary(twin, args, kwargs, state, _switches(module, twin))
    flops = _flops(result)
    input_bytes = _bytes(result.needs, tensors_of((args, kwargs)))
    state_bytes = _bytes(result.needs, state)
    output_bytes = sum(need.bytes() for need in result.written.values())
    moved = input_bytes + state_bytes + output_bytes
    return Headroom(
        input_bytes=input_bytes,
        state_bytes=state_bytes,
        output_bytes=output_bytes,
        fewest_flops=flops,
        dram_us=1e6 * moved / ceilings.dram_bytes_per_s,
        math_us=1e6 * sum(count / ceilings.fastest_rate(kind) for kind, count in flops.items()),
        floor_us=_floor_us(output_bytes, promised or ceilings),
    )


def implausible(time_us: float, headroom: Headroom) -> str | None:
    """Why no kernel that writes its outputs can be so fast; None when one can.

    Inputs and operations are left out: caches, and algebra, may make them cheaper.
    """
    least = _HARD_SHARE * headroom.floor_us
    if time_us >= least:
        return None
    return (
        f"{time_us:.2f} us a call is less than the {least:.2f} us that writing "
        f"{headroom.output_bytes} bytes of output takes on this device"
    )


def facts_of(
    input_set: str,
    headroom: Headroom,
    time_us: float,
    ceilings: DeviceCeilings,
    *,
    estimated: bool,
    source: Literal["data sheet", "measured"] = "data sheet",
) -> HeadroomFacts:
    """What a candidate that takes `time_us` a call has left; `estimated`: the time is a prediction.

    A prediction assumes efficiencies and pays each launch, so its bound does the same, once. Calls
    that are measured are queued, so that a launch overlaps with the work of the previous call.
    """
    dram, math, launch = headroom.dram_us, headroom.math_us, ceilings.launch_us
    if estimated:
        dram /= ceilings.dram_efficiency
        math /= ceilings.dot_efficiency
        least = max(dram, math) + launch
    else:
        # The launch overhead is an assumption: a measured time below it shows that it is smaller here.
        least = max(dram, math, min(launch, time_us))
    return HeadroomFacts(
        input_set=input_set,
        fewest_bytes=headroom.fewest_bytes,
        fewest_flops=headroom.fewest_flops,
        least_us=round(least, 3),
        binds="launch" if launch > max(dram, math) else headroom.binds,
        attained=round(least / time_us, 4),
        left=round(max(0.0, 1 - least / time_us), 4),
        ceilings=source,
    )


def most_left(by_set: Iterable[HeadroomFacts]) -> HeadroomFacts | None:
    """Of several input sets, the one where most could be gained."""
    return max(by_set, key=lambda facts: facts.left, default=None)


def _floor_us(output_bytes: int, ceilings: DeviceCeilings) -> float:
    # The last outputs may stay in the L2 cache, and be overwritten there by the next call's.
    beyond = max(0, output_bytes - ceilings.l2_bytes)
    return 1e6 * max(
        output_bytes / max(ceilings.l2_bytes_per_s, ceilings.dram_bytes_per_s),
        beyond / ceilings.dram_bytes_per_s,
    )


def _bytes(needs: Mapping[int, Need], tensors: Sequence[torch.Tensor]) -> int:
    keys = {key_of(tensor) for tensor in tensors}
    return sum(needs[key].bytes() for key in keys if key in needs)


def _switches(module: torch.nn.Module, twin: torch.nn.Module) -> dict[int, int]:
    """Which of the twin's buffers hold zeros (1) or infinities (2), by the module's own values."""
    values = dict(module.named_buffers())
    return {key_of(twin_of): _level(values[name]) for name, twin_of in twin.named_buffers()}


def _level(values: torch.Tensor) -> int:
    if values.device.type == "meta":
        return 2
    # Large finite values, such as -1e9, mask other operands just as infinities do; so does NaN.
    if is_inexact(values) and not bool((widened(values).abs() <= 1e3).all()):
        return 2
    return int(bool((values == 0).any()))


def _flops(needed: Necessary) -> dict[str, int]:
    flops: dict[str, int] = {}
    for operation in needed.operations:
        operands = tensors_of((operation.args, operation.kwargs))
        if any(key_of(tensor) in needed.masked for tensor in operands):
            continue
        count = _flops_of(operation)
        if count:
            name = "mm" if operation.name in RECURRENT else operation.name
            kind = allowed_product(name, tensors_of(operation.args)[-1].dtype)
            flops[kind] = flops.get(kind, 0) + count
    return flops


def _flops_of(operation: Operation) -> int:
    if operation.name == ATTENTION:
        return _attention_flops(*operation.args, **operation.kwargs)
    if operation.name in RECURRENT:
        return Layers.of(operation.name, operation.args).flops
    packet = operation.function.overloadpacket
    if packet not in flop_registry:
        return 0
    result = operation.results[0] if len(operation.results) == 1 else operation.results
    return int(flop_registry[packet](*operation.args, **operation.kwargs, out_val=result))


def _attention_flops(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **_: Any,
) -> int:
    if attn_mask is not None:
        return 0
    return 2 * attention_pairs(query, key, is_causal) * (query.shape[-1] + value.shape[-1])
