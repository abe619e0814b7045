"""A probe and a look at the reference in words."""

from __future__ import annotations

from kernelagent.domain.evaluation import Reason
from kernelagent.domain.replies.tool_calls import (
    Difference,
    Probed,
    ReferenceLook,
    TensorStatistics,
)
from kernelagent.prompts.refusals import of_a_tool

_DETAIL = ("line", "text", "pattern", "share_wrong")
_TRACEBACK = 4


def fault_lines(fault: Reason) -> list[str]:
    """Why it failed, with what helps to find the place."""
    lines = [
        f"- {key.replace('_', ' ')}: {fault.detail[key]}"
        for key in _DETAIL
        if fault.detail.get(key)
    ]
    return [*lines, *(f"  {frame}" for frame in fault.detail.get("traceback", [])[-_TRACEBACK:])]


def probed_text(probed: Probed) -> str:
    """What differs, where, by how much, and what is allowed."""
    where = f"input set {probed.input_set!r}"
    if probed.executed is not None:
        where += f", executed as {probed.executed}"
    if probed.fault is None:
        what = "one comparison, on natural inputs"
        if probed.with_backward:
            what = "one forward with one backward, on natural inputs and one upstream gradient"
        lines = [f"Within what is allowed on {where}: {what}; nothing was verified."]
    else:
        code, why = of_a_tool(probed.fault)
        lines = [f"Refused on {where} ({code}): {why}"]
        lines += fault_lines(probed.fault)
    lines += [_difference(item) for item in probed.differences]
    if probed.kernels:
        lines.append(f"Launched: {', '.join(probed.kernels)}.")
    elif probed.fault is None:
        lines.append("No Triton kernel was launched: a turn would be refused.")
    return "\n".join(lines)


def probed_summary(probed: Probed) -> str:
    """One line."""
    if probed.fault is not None:
        return probed.fault.in_one_line
    return f"within what is allowed on input set {probed.input_set!r}, one comparison"


def reference_text(look: ReferenceLook) -> str:
    """The statistics, a line for each output."""
    what = f"Submodule `{look.submodule}`" if look.submodule else "The module"
    where = f"input set {look.input_set!r}"
    if look.executed is not None:
        where += f", executed as {look.executed}"
    calls = "once" if look.calls == 1 else f"{look.calls} times"
    lines = [f"{what} on {where}: called {calls} in one forward."]
    lines += [_statistics(item) for item in look.outputs]
    if not look.submodule and look.submodules:
        lines.append(f"Its submodules: {', '.join(look.submodules)}.")
    return "\n".join(lines)


def reference_summary(look: ReferenceLook) -> str:
    """One line."""
    what = f"submodule {look.submodule}" if look.submodule else "the module"
    return f"{what}, {len(look.outputs)} outputs"


def _difference(item: Difference) -> str:
    ulps = "" if item.ulps is None else f", {item.ulps:g} ulps apart"
    shape = list(item.shape)
    return (
        f"{item.output} ({item.dtype}{shape}): furthest at {list(item.worst)}, got {item.got}, expected "
        f"{item.expected}{ulps}; in the region nearest to its limits, or furthest over them, the RMS error is "
        f"{item.rms_error:.3g} of {item.rms_allowed:.3g} allowed, the largest {item.max_error:.3g} of "
        f"{item.max_allowed:.3g}{'' if item.within else ': too much'}."
    )


def _statistics(item: TensorStatistics) -> str:
    parts = [f"strides {list(item.strides)}"]
    if item.least is not None:
        parts += [
            f"{item.least:.4g} to {item.most:.4g}",
            f"mean {item.mean:.4g}",
            f"standard deviation {item.deviation:.4g}",
            f"RMS {item.rms:.4g}",
        ]
    parts += [f"{item.zeros:.1%} zeros"] if item.zeros else []
    parts += [f"{item.nonfinite:.1%} NaN or infinite"] if item.nonfinite else []
    return f"{item.name} ({item.dtype}{list(item.shape)}): {', '.join(parts)}."
