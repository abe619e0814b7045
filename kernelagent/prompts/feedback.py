"""An evaluation in words: what the model reads after its turn, the fact first, at most about 25 lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelagent.domain.evaluation import (
    WITHOUT_ESTIMATE,
    DeviceFacts,
    Evaluation,
    HeadroomFacts,
    KernelFacts,
    Reason,
)
from kernelagent.prompts.hints import (
    by_cost,
    hints_for,
    memory_again,
    programs_of,
    read_again,
    tail,
)
from kernelagent.prompts.refusals import for_the_writer

_LINES = 25
_KERNELS = 6
_HINTS = 3
_NOTES = 4
NOTHING_LEFT = 0.05
"""Of the time: where less can be gained, no estimate says that there is anything."""
_NEARLY_ALL_LEFT = 0.999
_AGAIN = 1.15
"""Times the fewest bytes; less is not worth a word."""
_DETAIL_KEYS = ("pattern", "first_mismatch", "input_set", "probe", "launch")


def feedback_for(evaluation: Evaluation, before: Evaluation | None = None) -> str:
    """The verdict's first sentence, then evidence, the largest cost first, then what it suggests.

    Never a seed, never the expected tensor. `before`: of the version that was changed: notes that it had as well come last.
    """
    lines = _verdict(evaluation)
    if evaluation.reason is not None:
        lines += _evidence(evaluation.reason)
    lines += [_kernel(kernel, evaluation.device) for kernel in by_cost(evaluation)[:_KERNELS]]
    if evaluation.accepted:
        lines += [f"Hint: {hint}" for hint in hints_for(evaluation)[:_HINTS]]
    known = () if before is None else before.disclosures
    codes = {note.code for note in known}
    # Why there is no number comes first: the next prompt points to it. Then what is new, then what says something else.
    notes = sorted(
        evaluation.disclosures,
        key=lambda note: (
            note.code not in WITHOUT_ESTIMATE,
            (note.code in codes) + (note in known),
        ),
    )
    lines += [f"Note: {d.message}" for d in notes[:_NOTES]]
    return "\n".join(lines[:_LINES])


def void_feedback(why: str) -> str:
    """What a reply without code is answered with."""
    return f"Nothing was evaluated: {why}."


def _verdict(evaluation: Evaluation) -> list[str]:
    reason = evaluation.reason
    if reason is not None:
        word = "Rejected" if evaluation.verdict == "rejected" else "Could not be judged"
        lines = [f"{word} ({reason.code}): {for_the_writer(reason)}"]
        if "means" in reason.detail and "smaller" not in reason.detail:
            lines.append("Nothing was found wrong: this machine could not finish judging it.")
        return lines
    lines = [f"Accepted: correct on all {_trials(evaluation)} trials{_gradients(evaluation)}."]
    lines += _timing(evaluation)
    if evaluation.estimate is not None:
        e = evaluation.estimate
        lines.append(
            f"Estimate (not measured): {e.candidate_us:.1f} µs against {e.eager_us:.1f} µs for the "
            f"eager module at {e.shapes}; bound by {e.bound}."
        )
    if evaluation.headroom is not None:
        lines.append(headroom_sentence(evaluation.headroom))
    return lines


def _gradients(evaluation: Evaluation) -> str:
    result = evaluation.correctness
    if result is None or not result.gradients:
        return ""
    return f", with the gradients of {', '.join(result.gradients)}"


def _timing(evaluation: Evaluation) -> list[str]:
    if evaluation.timing is None:
        return []
    t, ratio = evaluation.timing, evaluation.timing.speedup_eager
    lines = [
        f"Measured: {t.candidate_us:.1f} µs against {t.eager_us:.1f} µs eager: "
        f"{ratio.value:.2f}× (95 % interval {ratio.low:.2f}–{ratio.high:.2f})."
    ]
    if t.compile_us is not None and t.speedup_compile is not None:
        lines.append(
            f"torch.compile takes {t.compile_us:.1f} µs: {t.speedup_compile.value:.2f}× against it."
        )
    return lines


def headroom_sentence(facts: HeadroomFacts) -> str:
    """The least time and what makes it so, what is reached of it, and what is left."""
    why = {
        "dram": f"{size(facts.fewest_bytes)} moved once",
        "math": "the matrix products alone",
        "launch": f"one launch, and {size(facts.fewest_bytes)} moved once",
    }[facts.binds]
    if facts.binds == "launch" and facts.ceilings == "measured":
        why = f"launch-bound: moving {size(facts.fewest_bytes)} once takes less than one launch"
    message = f"Headroom: {facts.least_us:.1f} µs is the least here ({why})"
    if facts.left < NOTHING_LEFT:
        return f"{message}; next to nothing is left to gain."
    return f"{message}; {facts.attained:.0%} of that speed is reached, {_more(facts.left)} is possible."


def _more(left: float) -> str:
    """How much faster at most; `left` is rounded, and of a tiny module it may be everything."""
    if left >= _NEARLY_ALL_LEFT:
        return f"more than {1 / (1 - _NEARLY_ALL_LEFT):.0f}× more"
    return f"at most {1 / (1 - left):.1f}× more"


def _trials(evaluation: Evaluation) -> int:
    return evaluation.correctness.trials if evaluation.correctness else 0


def _evidence(reason: Reason) -> list[str]:
    detail = reason.detail
    lines = [f"- {key.replace('_', ' ')}: {detail[key]}" for key in _DETAIL_KEYS if detail.get(key)]
    if detail.get("text"):
        lines.append(f"- {_at_line(detail)}: {detail['text']}")
    if (error := _error(detail)) is not None:
        lines.append(f"- error: {error}")
    lines += [f"  {frame}" for frame in detail.get("traceback", [])[-4:]]
    return lines


def _count(ulps: float) -> str:
    return f"{ulps:.3g}" if ulps < 1000 else f"{ulps:,.0f}"


def _at_line(detail: Mapping[str, Any]) -> str:
    return f"line {detail['line']}" if detail.get("line") else "text"


def _error(detail: Mapping[str, Any]) -> str | None:
    """How large it is, in the region of the output that is furthest over its limits, beside what is allowed."""
    if "max_budget" not in detail:
        return None
    largest, allowed = detail["max_error"], detail["max_budget"]
    rms, rms_allowed = detail["rms_error"], detail["rms_budget"]
    ulps = f" ({_count(detail['ulps'])} ulps of {detail['dtype']})" if "ulps" in detail else ""
    if largest <= allowed and rms <= rms_allowed:
        return f"the largest {largest:.3g}{ulps}, too much for an element of its size"
    return f"the largest {largest:.3g}{ulps} of {allowed:.3g} allowed, RMS {rms:.3g} of {rms_allowed:.3g}"


def _kernel(kernel: KernelFacts, device: DeviceFacts) -> str:
    parts = [f"{kernel.launches} launch{'es' if kernel.launches != 1 else ''}"]
    if kernel.share_of_device_time is not None:
        word = "of device time" if "cupti" in kernel.tier else "of the estimated device time"
        parts.append(f"{kernel.share_of_device_time:.0%} {word}")
    if (programs := _programs(kernel, device.multiprocessors)) is not None:
        parts.append(programs)
    times = read_again(kernel)
    if times is not None and times > _AGAIN:
        parts.append(f"reads {times:.1f}× the fewest bytes it needs{_from_memory(kernel)}")
    if kernel.spills:
        parts.append(spilled(kernel))
    if (exposed := loads_not_hidden(kernel)) is not None:
        parts.append(exposed)
    if kernel.registers is not None:
        parts.append(f"{kernel.registers} registers a thread")
    if kernel.occupancy is not None and kernel.occupancy < 0.5:
        parts.append(f"occupancy {kernel.occupancy:.0%}, limited by {kernel.occupancy_limiter}")
    if kernel.tensor_core is not None:
        parts.append(f"tensor cores by {kernel.tensor_core}")
    if kernel.bound is not None:
        parts.append(f"bound by {kernel.bound}")
    return f"Kernel `{kernel.name}`: " + "; ".join(parts) + "."


def _from_memory(kernel: KernelFacts) -> str:
    """Where what is read again comes from."""
    again = memory_again(kernel)
    if again is None:
        return ""
    return ", again from caches" if again <= _AGAIN else f" (memory moves {again:.1f}×)"


def _programs(kernel: KernelFacts, multiprocessors: int | None) -> str | None:
    """How many there are, in how many waves, and how many multiprocessors the last of them keep busy."""
    programs = programs_of(kernel)
    if programs is None:
        return None
    words = f"{programs} program{'s' if programs != 1 else ''}{of_blocks(kernel)}"
    if kernel.waves is not None:
        words += f" in {kernel.waves:g} waves"
    last = tail(kernel, multiprocessors)
    return (
        words
        if last is None
        else f"{words}, the last on {last} of {multiprocessors} multiprocessors"
    )


def of_blocks(kernel: KernelFacts) -> str:
    """What a program of a cluster is made of; empty where it is one block."""
    blocks = kernel.num_ctas or 1
    return f" of {blocks} blocks each" if blocks > 1 else ""


def spilled(kernel: KernelFacts) -> str:
    """The instructions that move registers to memory and back, their price, and the lines with most of them."""
    lines = kernel.spill_lines
    where = f", most of line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}" if lines else ""
    return f"{kernel.spills} spill instructions{where}{_costing(kernel.spills_us)}"


def loads_not_hidden(kernel: KernelFacts) -> str | None:
    """What products wait for, and its price; None where they wait for nothing."""
    if not kernel.stages_us or kernel.num_stages is None:
        return None
    stages = f"{kernel.num_stages} stage{'s' if kernel.num_stages != 1 else ''}"
    return f"loads not hidden by {stages}{_costing(kernel.stages_us)}"


def _costing(us: float | None) -> str:
    return f" (estimate: {us:.3g} µs)" if us else ""


def size(count: int) -> str:
    """A size for a reader: 57.6 kB, 2.0 MB."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
