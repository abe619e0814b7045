"""What decides about speed and accuracy, known before the first turn: the lines of the task that say it.

Times are estimates and said to be so; a fact that is not known has no line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.problem import ProblemFacts, ReferenceEstimate, TensorFacts, Tolerance
from kernelagent.domain.profile import Operation
from kernelagent.domain.tables.dtypes import half_ulp
from kernelagent.prompts.feedback import size

_OPERATIONS = 6
"""Operations of the reference that have a line of their own."""
_SMALL_SHARE = 0.01
_PRODUCTS_OF_FP32 = frozenset({"fp32", "tf32"})
_BOUNDS = {"dram": "memory", "dot": "tensor cores", "fp": "fp32 units", "launch": "launches"}
_LEAST_ULPS = 0.5
_WHOLE_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


def device_lines(device: DeviceFacts) -> list[str]:
    """Peak rates, and what a launch costs."""
    lines = []
    if device.operations_per_s:
        rates: dict[float, list[str]] = {}
        for kind, rate in device.operations_per_s:
            rates.setdefault(rate, []).append("fp32 (no tensor cores)" if kind == "fp32" else kind)
        ordered = sorted(rates.items(), key=lambda entry: -entry[0])
        words = ", ".join(f"{'/'.join(kinds)} {rate / 1e12:.0f}" for rate, kinds in ordered)
        lines.append(f"peak rates, in 10^12 operations a second: {words}")
    if device.launch_us is not None:
        cost = f"about {device.launch_us:.0f} us"
        lines.append(f"each launch costs the host {cost}, which counts where kernels are shorter")
    return lines


def reference_lines(facts: ProblemFacts) -> list[str]:
    """What the reference takes on this device, its dearest operations, and the least possible."""
    lines: list[str] = []
    several = len(facts.estimates) > 1
    for estimate in facts.estimates:
        if not estimate.operations or estimate.least is None:
            continue
        where = f" on input set `{estimate.input_set}`" if several else ""
        lines.append(
            f"Estimates for the reference{where} (not measured): eager {_us(estimate.eager_us.value)}, "
            f"torch.compile {_us(estimate.compile_us.value)}. Device time of eager by operation:"
        )
        lines += [f"- {row}" for row in _operations(estimate.operations)]
        lines.append(_least(estimate))
    return lines


def _operations(operations: tuple[Operation, ...]) -> Iterator[str]:
    shown = [row for row in operations[:_OPERATIONS] if row.share >= _SMALL_SHARE] or operations[:1]
    for row in shown:
        times = f" ({row.launches} kernels)" if row.launches > 1 else ""
        moved = f", moves {size(row.moved_bytes)}" if row.moved_bytes else ""
        flops = f", {_count(row.flops)}" if row.flops else ""
        bound = f", bound by {_BOUNDS.get(row.bound, row.bound)}" if row.bound else ""
        yield f"{row.name}{times}: {_us(row.us)} ({row.share:.0%}){moved}{flops}{bound}"
    rest = operations[len(shown) :]
    if rest:
        us, share = sum(row.us for row in rest), sum(row.share for row in rest)
        yield f"{len(rest)} more: {_us(us)} ({share:.0%})"


def _least(estimate: ReferenceEstimate) -> str:
    least = estimate.least
    assert least is not None
    products = ", ".join(f"{_count(count)} of {kind}" for kind, count in least.flops.items())
    how = "".join(words for kind, words in _FASTEST_WAYS.items() if kind in least.flops)
    reached = f"{how}, at the share of the peak that kernels reach" if products else ""
    operations = f" ({products}{reached})" if products else ""
    near = least.us / estimate.eager_us.value if estimate.eager_us.value else 1.0
    return (
        f"The least possible: {_us(least.bytes_us)} for moving {size(least.moved_bytes)} once, "
        f"{_us(least.operations_us)} for the operations{operations}, so {_us(least.us)} in one launch; "
        f"eager reaches {near:.0%} of that speed."
    )


def tolerance_lines(facts: ProblemFacts) -> list[str]:
    """The errors that are accepted, as numbers, and which precision of products stays within them."""
    lines = [_tolerance(item, facts) for item in facts.tolerances]
    if facts.convolutions_round:
        lines.append(_CONVOLUTIONS)
    if _has_fp32_products(facts):
        lines += _PRECISION.get(facts.matmul_precision, [])
    return lines


_FASTEST_WAYS = {
    "fp32": "; fp32 as three products of a narrower type",
    "tf32": "; tf32 as fp16, of as many bits",
}
_HALVES = (
    "fp16 operands have as many bits at twice the rate and are judged by their error alone, also on inputs and weights "
    "beyond fp16's range (scale each row or channel into it)"
)
_CONVOLUTIONS = (
    "float32 convolutions may be TF32, as cuDNN's are by default: `tl.dot`'s default does; bf16 is refused; "
    f"{_HALVES}"
)
_PRECISION = {
    "highest": [
        'float32 products must be as exact as float32: `tl.dot(a, b, input_precision="ieee")` uses no '
        'tensor cores, `input_precision="tf32x3"` (3xTF32: three products on tensor cores) is accurate '
        "enough and mostly faster; plain tf32, which is `tl.dot`'s default, and bf16 are refused; a split of "
        "your own (each operand as a sum of two or three fp16 or bf16 parts, their products added in fp32) is "
        "judged by its error alone, also on inputs and weights beyond fp16's range"
    ],
    "high": [
        f"float32 products may be TF32, which is `tl.dot`'s default; bf16 is refused; {_HALVES}"
    ],
    "medium": ["float32 products may be TF32 (`tl.dot`'s default) or of bf16 operands"],
}


def _tolerance(item: Tolerance, facts: ProblemFacts) -> str:
    dtype = next((o.dtype for o in facts.outputs if o.name == item.output), None)
    at = f"{item.output}: on ordinary inputs (values of RMS {item.scale:.3g})"
    unit = half_ulp(dtype or "")
    in_ulps = ""
    if unit is not None and item.scale > 0:
        ulps = item.rms_error / (2 * unit * item.scale)
        in_ulps = f", about {max(ulps, _LEAST_ULPS):.2g} ulps of {dtype}"
    return (
        f"{at} an RMS error up to {item.rms_error:.2g}{in_ulps}, and no element off by more than "
        f"{item.max_error:.2g}; other inputs in proportion to eager's own error there"
    )


def _has_fp32_products(facts: ProblemFacts) -> bool:
    counted = [e.least.flops for e in facts.estimates if e.least is not None]
    if counted:
        # What is counted as tf32 at "highest" are convolutions.
        exact = facts.convolutions_round and facts.matmul_precision == "highest"
        kinds = {"fp32"} if exact else _PRODUCTS_OF_FP32
        return any(kinds & flops.keys() for flops in counted)
    tensors = (*facts.state, *(t for s in facts.input_sets for t in s.tensors))
    return any(tensor.dtype == "float32" for tensor in tensors)


def stride_lines(facts: ProblemFacts) -> list[str]:
    """The tensors that do not lie as torch lays them out by default."""
    sets = [(s.name, s.tensors) for s in facts.input_sets]
    named = [*sets, ("", facts.state), ("", facts.outputs)]
    lines = []
    for name, tensors in named:
        where = f" (input set `{name}`)" if len(sets) > 1 and name else ""
        lines += [
            f"{tensor.name}{where}: strides {list(tensor.strides)}"
            for tensor in tensors
            if not tensor.contiguous
        ]
    return list(dict.fromkeys(lines))


def executed_lines(facts: ProblemFacts) -> list[str]:
    """The sizes at which candidates are executed, where they are smaller than the user's."""
    lines = []
    for item in facts.input_sets:
        if item.executed is None:
            continue
        smaller = _smaller(item.tensors, item.executed)
        lines.append(f"input set `{item.name}`: {', '.join(smaller)}")
    given = set(_WHOLE_NUMBER.findall(facts.init_arguments))
    pairs = [f"{was} as {now}" for was, now in facts.executed_arguments if str(was) in given]
    if lines and pairs:
        lines.append(f"there the constructor gets {', '.join(pairs)}")
    return lines


def _smaller(given: tuple[TensorFacts, ...], executed: tuple[TensorFacts, ...]) -> list[str]:
    return [
        f"{small.name}{list(small.shape)}"
        for full, small in zip(given, executed, strict=True)
        if full.shape != small.shape
    ] or [f"{small.name}{list(small.shape)}" for small in executed]


def _us(us: float) -> str:
    if us >= 10_000:
        return f"{us / 1000:.3g} ms"
    return f"{us:.3g} us" if us < 1000 else f"{us:.0f} us"


def _count(count: int) -> str:
    for unit, name in ((10**12, "T"), (10**9, "G"), (10**6, "M")):
        if count >= unit:
            return f"{count / unit:.3g} {name}FLOP"
    return f"{count} FLOP"
