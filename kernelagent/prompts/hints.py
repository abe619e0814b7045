"""What a kernel's evidence suggests to do next; nothing is suggested that no counted fact supports.

Each hint names the fact it rests on, and none of them leads to what the judge refuses: fp32 products are
only told to be formed as the problem's matmul precision permits. Thresholds are those from which the
estimate moves by more than a fifth, or, for compiler facts, from which a cost is plain.
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
_ARITHMETIC = ("dot", "fp", "special")
"""Bounds under which multiprocessors without a program cost time: the estimate charges them."""
_WASTED = 0.2
_TELLING = 0.05
_STAGES = 3
"""So many turns of loads in flight hide them, by the estimate."""
_ROUNDED = 'tl.dot of fp32 with input_precision="tf32", its default, which this problem\'s precision permits,'
_SPLIT = 'tl.dot of fp32 with input_precision="tf32x3" (three products, nearly fp32 accuracy) would use them'
_FP32_PRODUCTS = {"high": f"{_ROUNDED} would use them", "medium": f"{_ROUNDED} would use them"}
"""How fp32 products come onto tensor cores, by `Evaluation.matmul_precision`; else only by three of them.

`bf16x3` is never named: its products are not as exact as fp32's, and the judge refuses them.
"""


def hints_for(evaluation: Evaluation) -> list[str]:
    """At most one sentence for the launches together and one for each heavy kernel, dearest first."""
    result = []
    if (text := _launches(evaluation)) is not None:
        result.append(text)
    for kernel in by_cost(evaluation):
        if (text := _idle(kernel, evaluation.device.multiprocessors)) is not None:
            result.append(f"Kernel `{kernel.name}`: {text}.")
            continue
        if (kernel.share_of_device_time or 0.0) < _HEAVY:
            continue
        if (text := _hint(kernel, evaluation)) is not None:
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


def memory_again(kernel: KernelFacts) -> float | None:
    """How many times the fewest bytes memory moves for a kernel; None where it was not counted."""
    fewest = (kernel.fewest_loaded_bytes or 0) + (kernel.stored_bytes or 0)
    return kernel.dram_bytes / fewest if kernel.dram_bytes and fewest else None


def _launches(evaluation: Evaluation) -> str | None:
    launches = sum(kernel.launches for kernel in evaluation.kernels)
    headroom = evaluation.headroom
    if launches < 2 or headroom is None or headroom.binds != "launch" or headroom.left < _HEAVY:
        return None
    return (
        f"{launches} launches cost more than the work in them; one kernel that does it all could "
        f"come near {headroom.least_us:.1f} µs"
    ) + "."


def _hint(kernel: KernelFacts, evaluation: Evaluation) -> str | None:
    return (
        _spills(kernel)
        or _no_tensor_cores(kernel, evaluation.matmul_precision)
        or _few_stages(kernel, evaluation.device.shared_bytes)
        or _uneven(kernel, evaluation.device.multiprocessors)
        or _passes(kernel)
        or _narrow(kernel)
        or _occupancy(kernel)
    )


def programs_of(kernel: KernelFacts) -> int | None:
    """How many programs its grid has; None where the grid is not known."""
    return None if kernel.grid is None else kernel.grid[0] * kernel.grid[1] * kernel.grid[2]


def blocks_of(kernel: KernelFacts) -> int | None:
    """How many blocks these are, of which each takes a multiprocessor: a program of a cluster has several."""
    programs = programs_of(kernel)
    return None if programs is None else programs * (kernel.num_ctas or 1)


def _units(kernel: KernelFacts) -> str:
    return "blocks" if (kernel.num_ctas or 1) > 1 else "programs"


def tail(kernel: KernelFacts, multiprocessors: int | None) -> int | None:
    """How many multiprocessors its last blocks keep busy, where the others have nothing left to do.

    Blocks go to the multiprocessors in rounds of one each. None where the last round is a whole one, the only
    one, or less than a twentieth of the time.
    """
    blocks = blocks_of(kernel)
    if not blocks or not multiprocessors or blocks <= multiprocessors:
        return None
    last = blocks % multiprocessors
    rounds = -(-blocks // multiprocessors)
    return last if last and blocks / (rounds * multiprocessors) < 1 - _TELLING else None


def few_programs(kernel: KernelFacts, multiprocessors: int | None) -> str | None:
    """A heavy kernel that leaves multiprocessors without a program, or many of them while its last ones run."""
    return _idle(kernel, multiprocessors) or _uneven(kernel, multiprocessors)


def _idle(kernel: KernelFacts, multiprocessors: int | None) -> str | None:
    blocks = blocks_of(kernel)
    if blocks is None or not multiprocessors or blocks >= multiprocessors:
        return None
    few = 1 - blocks / multiprocessors < _WASTED
    if few or kernel.bound == "launch" or (kernel.share_of_device_time or 0.0) < _HEAVY:
        # More programs make no launch cheaper.
        return None
    return (
        f"{blocks} {_units(kernel)} on {multiprocessors} multiprocessors leave "
        f"{multiprocessors - blocks} idle; split the work into more programs"
    )


def _uneven(kernel: KernelFacts, multiprocessors: int | None) -> str | None:
    """A tail that costs: where arithmetic binds, the time is that of the multiprocessor with the most programs."""
    blocks, last = blocks_of(kernel), tail(kernel, multiprocessors)
    if blocks is None or not multiprocessors or last is None or kernel.bound not in _ARITHMETIC:
        return None
    rounds = -(-blocks // multiprocessors)
    idle = 1 - blocks / (rounds * multiprocessors)
    if idle < _WASTED or (kernel.share_of_device_time or 0.0) < _HEAVY:
        return None
    return (
        f"{last} of {multiprocessors} multiprocessors get {rounds} of the {blocks} {_units(kernel)} and the others "
        f"{rounds - 1}, so {idle:.0%} of their time is idle; blocks of another size, or programs that share the work "
        f"evenly, would leave less"
    )


_WARPS_WITH_ALL_REGISTERS = 8
"""Of one program: 65,536 registers of a multiprocessor are 255 for each thread of so many warps, and 128 of twice as many
(CUDA C++ Programming Guide, technical specifications)."""


def _spills(kernel: KernelFacts) -> str | None:
    if not kernel.spills:
        return None
    used = f" at {kernel.registers} registers a thread" if kernel.registers else ""
    cost = f" cost {kernel.spills_us:.3g} µs by the estimate" if kernel.spills_us else ""
    ways = ["smaller blocks", "more warps"]
    if kernel.product_types:
        ways = ["more warps", "an epilogue that takes its block in parts", "smaller blocks"]
    if kernel.num_warps is not None and 2 * kernel.num_warps > _WARPS_WITH_ALL_REGISTERS:
        ways.remove("more warps")
    choice = " or ".join(ways) if len(ways) < 3 else f"{', '.join(ways[:-1])}, or {ways[-1]}"
    return f"{kernel.spills} spill instructions{used}{cost}; {choice} would keep the values in registers"


def _no_tensor_cores(kernel: KernelFacts, matmul_precision: str) -> str | None:
    """Of fp32 operands, and of those nothing is known of; what has no faster form gets no advice."""
    if kernel.bound != "dot" or kernel.tensor_core is not None:
        return None
    if kernel.product_types and "fp32" not in kernel.product_types:
        return None
    how = _FP32_PRODUCTS.get(matmul_precision, _SPLIT)
    return f"its products run without tensor cores; {how}"


def _few_stages(kernel: KernelFacts, most_shared: int | None) -> str | None:
    """Where loads that products wait for are dear, and a program has room for more of them."""
    if not kernel.stages_us or not kernel.estimate_us or kernel.num_stages is None:
        return None
    if kernel.stages_us < _HEAVY * kernel.estimate_us or not most_shared:
        return None
    if not kernel.shared_bytes:
        return None
    needed = kernel.shared_bytes * _STAGES / max(1, kernel.num_stages - 1)
    if needed > most_shared:
        return None
    return (
        f"with num_stages={kernel.num_stages} its products wait {kernel.stages_us:.3g} of "
        f"{kernel.estimate_us:.3g} µs for loads, by the estimate; num_stages={_STAGES} would load ahead"
    )


def _passes(kernel: KernelFacts) -> str | None:
    times = read_again(kernel)
    if times is None or times < _READ_AGAIN or kernel.bound not in _MEMORY:
        return None
    if kernel.bound == "dram" and (memory_again(kernel) or times) < _READ_AGAIN:
        # The caches hold what is read again: memory moves no more for it.
        return None
    if kernel.product_types:
        return (
            f"it reads {times:.1f}× the fewest bytes{_which(kernel)}; larger blocks of its product read "
            f"each less often"
        )
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
    if kernel.rows_aligned is False:
        return (
            f"its widest loads are {max(widths)} bits; not all rows of its tensors begin at multiples of 16 bytes, so "
            f"that only loads which run flat over several rows can have {_WIDE_BITS}"
        )
    return (
        f"its widest loads are {max(widths)} bits; addresses that are contiguous and aligned along "
        f"the fastest dimension allow {_WIDE_BITS}-bit loads"
    )


def _occupancy(kernel: KernelFacts) -> str | None:
    if kernel.occupancy is None or kernel.occupancy >= _LOW_OCCUPANCY:
        return None
    if kernel.bound != "dram" or kernel.product_types:
        # Large blocks of products are few at a time and read less: smaller ones would cost more.
        return None
    return (
        f"occupancy is {kernel.occupancy:.0%}, limited by {kernel.occupancy_limiter}; smaller blocks "
        f"would let more programs run side by side"
    )
