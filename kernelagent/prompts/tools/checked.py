"""A check in words: what a writer reads before it spends a turn."""

from __future__ import annotations

from collections.abc import Iterable

from kernelagent.domain.evaluation import DeviceFacts, KernelFacts
from kernelagent.domain.replies.tool_calls import Checked
from kernelagent.prompts.feedback import loads_not_hidden, of_blocks, spilled
from kernelagent.prompts.hints import by_share, few_programs, programs_of
from kernelagent.prompts.refusals import of_a_tool

_DETAIL = ("line", "text")
_TRACEBACK = 4


def checked_text(checked: Checked, device: DeviceFacts) -> str:
    """The fault, or each kernel's facts, dearest first, and the estimate called so."""
    if checked.fault is not None:
        code, why = of_a_tool(checked.fault)
        lines = [f"Stopped ({code}): {why}"]
        detail = checked.fault.detail
        lines += [f"- {key}: {detail[key]}" for key in _DETAIL if detail.get(key)]
        lines += [f"  {frame}" for frame in detail.get("traceback", [])[-_TRACEBACK:]]
        return "\n".join(lines)
    lines = ["It compiles and launches; nothing was verified."]
    lines += [_kernel(kernel, device) for kernel in by_share(checked.kernels)]
    if checked.torch_operations:
        lines.append(f"torch still computes {', '.join(checked.torch_operations)}.")
    if checked.estimate is not None:
        e = checked.estimate
        between = ""
        if e.speedup is not None:
            between = f", {e.speedup.value:.2f} of its speed ({e.speedup.low:.2f} to {e.speedup.high:.2f})"
        lines.append(
            f"Estimate (not measured): {e.candidate_us:.1f} us against {e.eager_us:.1f} us for the "
            f"eager module{between}; bound by {e.bound}."
        )
    lines += loops_by_values(checked.loops_by_values)
    return "\n".join(lines)


def loops_by_values(kernels: Iterable[str]) -> list[str]:
    """A sentence for each kernel whose cost was counted without the values that decide it."""
    return [
        f"Loaded values say how many rounds a loop of `{name}` has. Nothing was loaded here, so that the loop may have "
        f"counted none: what stands above is not its cost."
        for name in kernels
    ]


def checked_summary(checked: Checked) -> str:
    """One line for the terminal and the log."""
    if checked.fault is not None:
        return checked.fault.in_one_line
    count = len(checked.kernels)
    kernels = f"{count} kernel{'s' * (count != 1)}"
    if checked.estimate is None:
        return f"{kernels}, not timed"
    return f"{kernels}, estimate {checked.estimate.candidate_us:.1f} us"


def _kernel(kernel: KernelFacts, device: DeviceFacts) -> str:
    parts = [f"{kernel.launches} launch{'es' * (kernel.launches != 1)}"]
    if (programs := programs_of(kernel)) is not None:
        parts.append(f"{programs} programs{of_blocks(kernel)}")
    if kernel.waves is not None:
        parts.append(f"{kernel.waves:g} waves")
    known = (
        (kernel.num_warps, "{} warps"),
        (kernel.num_stages, "{} stages"),
        (kernel.registers, "{} registers a thread"),
        (None if kernel.spills is None else spilled(kernel), "{}"),
        (loads_not_hidden(kernel), "{}"),
        (kernel.shared_bytes, "{} bytes of shared memory"),
        (kernel.tensor_core, "tensor cores by {}"),
    )
    parts += [text.format(value) for value, text in known if value is not None]
    if kernel.occupancy is not None:
        parts.append(f"occupancy {kernel.occupancy:.0%}, limited by {kernel.occupancy_limiter}")
    if kernel.estimate_us is not None:
        parts.append(f"estimate {kernel.estimate_us:g} us, bound by {kernel.bound}")
    text = f"Kernel `{kernel.name}`: {'; '.join(parts)}."
    idle = few_programs(kernel, device.multiprocessors)
    return f"{text} {idle.capitalize()}." if idle else text
