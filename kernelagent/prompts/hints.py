"""What a kernel's evidence suggests to do next; nothing is suggested that no counted fact supports.

Each hint names the fact it rests on. Thresholds are those from which the estimate moves by more than
a fifth, or, for compiler facts, from which a cost is plain.
"""

from __future__ import annotations

from collections.abc import Iterable

from kernelagent.domain.evaluation import Evaluation, KernelFacts

_HEAVY = 0.2
"""Share of the device time from which a kernel is worth a hint."""
_READ_AGAIN = 1.5
_LOW_OCCUPANCY = 0.25
_NARROW_BITS = 32
_WIDE_BITS = 128
_MEMORY = ("dram", "l2")


def hints_for(evaluation: Evaluation) -> list[str]:
    """At most one sentence for the launches together and one for each heavy kernel, dearest first."""
    result = []
    if (text := _launches(evaluation)) is not None:
        result.append(text)
    for kernel in by_cost(evaluation):
        if (text := few_programs(kernel, evaluation.device.multiprocessors)) is not None:
            result.append(f"Kernel `{kernel.name}`: {text}.")
            continue
        if (kernel.share_of_device_time or 0.0) >= _HEAVY and (text := _hint(kernel)) is not None:
            result.append(f"Kernel `{kernel.name}`: {text}.")
    return result


def by_cost(evaluation: Evaluation) -> list[KernelFacts]:
    """The kernels, the one with the largest share of the device time first."""
    return by_share(evaluation.kernels)


def by_share(kernels: Iterable[KernelFacts]) -> list[KernelFacts]:
    """The same of kernels that no evaluation holds."""
    return sorted(kernels, key=lambda k: -(k.share_of_device_time or 0.0))


def read_again(kernel: KernelFacts) -> float | None:
    """How many times the fewest bytes a kernel loads; None where it was not counted."""
    if not kernel.loaded_bytes or not kernel.fewest_loaded_bytes:
        return None
    return kernel.loaded_bytes / kernel.fewest_loaded_bytes


def _launches(evaluation: Evaluation) -> str | None:
    launches = sum(kernel.launches for kernel in evaluation.kernels)
    headroom = evaluation.headroom
    if launches < 2 or headroom is None or headroom.binds != "launch" or headroom.left < _HEAVY:
        return None
    return (
        f"{launches} launches cost more than the work in them; one kernel that does it all could "
        f"come near {headroom.least_us:.1f} µs"
    ) + "."


def _hint(kernel: KernelFacts) -> str | None:
    for look in (_spills, _no_tensor_cores, _passes, _narrow, _occupancy):
        if (text := look(kernel)) is not None:
            return text
    return None


def few_programs(kernel: KernelFacts, multiprocessors: int | None) -> str | None:
    """A heavy kernel that leaves multiprocessors without a program, or most of its last wave."""
    if kernel.grid is None or not multiprocessors:
        return None
    if (kernel.share_of_device_time or 0.0) < _HEAVY:
        return None
    programs = kernel.grid[0] * kernel.grid[1] * kernel.grid[2]
    if programs < multiprocessors:
        return (
            f"{programs} programs on {multiprocessors} multiprocessors leave "
            f"{multiprocessors - programs} idle; split the work into more programs"
        )
    return None


def _spills(kernel: KernelFacts) -> str | None:
    if not kernel.spills:
        return None
    used = f" at {kernel.registers} registers a thread" if kernel.registers else ""
    return (
        f"{kernel.spills} spill instructions{used}; smaller blocks or more warps would keep the "
        f"values in registers"
    )


def _no_tensor_cores(kernel: KernelFacts) -> str | None:
    if kernel.bound != "dot" or kernel.tensor_core is not None:
        return None
    return (
        "its products run without tensor cores; tl.dot on 16-bit operands, or of fp32 with "
        'input_precision="tf32x3" (three products, nearly fp32 accuracy), would use them'
    )


def _passes(kernel: KernelFacts) -> str | None:
    times = read_again(kernel)
    if times is None or times < _READ_AGAIN or kernel.bound not in _MEMORY:
        return None
    stored = kernel.stored_bytes or 0
    loaded, fewest = kernel.loaded_bytes or 0, kernel.fewest_loaded_bytes or 0
    allowed = (loaded + stored) / (fewest + stored)
    return (
        f"it reads {times:.1f}× the fewest bytes{_which(kernel)}; one pass over its data would allow "
        f"{allowed:.1f}×"
    )


def _which(kernel: KernelFacts) -> str:
    """The arguments that are read most often, at most three."""
    often = sorted(kernel.argument_reads.items(), key=lambda entry: -entry[1])
    named = [f"`{name}` {times:.0f}×" for name, times in often if times >= 2][:3]
    return f" ({', '.join(named)})" if named else ""


def _narrow(kernel: KernelFacts) -> str | None:
    widths = {int(width): count for width, count in kernel.load_widths.items()}
    if kernel.bound not in _MEMORY or not widths or max(widths) > _NARROW_BITS:
        return None
    return (
        f"its widest loads are {max(widths)} bits; addresses that are contiguous and aligned along "
        f"the fastest dimension allow {_WIDE_BITS}-bit loads"
    )


def _occupancy(kernel: KernelFacts) -> str | None:
    if kernel.occupancy is None or kernel.occupancy >= _LOW_OCCUPANCY:
        return None
    return (
        f"occupancy is {kernel.occupancy:.0%}, limited by {kernel.occupancy_limiter}; smaller blocks "
        f"would let more programs run side by side"
    )
