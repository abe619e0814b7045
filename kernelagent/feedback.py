"""An evaluation in words: what the model reads after its turn, the fact first, at most about 25 lines."""

from __future__ import annotations

from kernelagent.evaluation import Evaluation, KernelFacts, Reason

_LINES = 25
_DETAIL_KEYS = ("pattern", "first_mismatch", "share_wrong", "input_set", "probe", "launch", "text")


def feedback_for(evaluation: Evaluation) -> str:
    """The verdict's first sentence, then evidence; never a seed, never the expected tensor."""
    lines = _verdict(evaluation)
    if evaluation.reason is not None:
        lines += _evidence(evaluation.reason)
    lines += [_kernel(kernel) for kernel in _by_cost(evaluation)[:6]]
    lines += [f"Note: {d.message}" for d in evaluation.disclosures[:4]]
    return "\n".join(lines[:_LINES])


def void_feedback(why: str) -> str:
    """What a reply without code is answered with."""
    return f"Nothing was evaluated: {why}."


def _verdict(evaluation: Evaluation) -> list[str]:
    reason = evaluation.reason
    if reason is not None:
        word = "Rejected" if evaluation.verdict == "rejected" else "Could not be judged"
        return [f"{word} ({reason.code}): {reason.message}"]
    lines = [f"Accepted: correct on all {_trials(evaluation)} trials."]
    if evaluation.timing is not None:
        t, ratio = evaluation.timing, evaluation.timing.speedup_eager
        lines.append(
            f"Measured: {t.candidate_us:.1f} µs against {t.eager_us:.1f} µs eager: "
            f"{ratio.value:.2f}× (95 % interval {ratio.low:.2f}–{ratio.high:.2f})."
        )
        if t.compile_us is not None and t.speedup_compile is not None:
            lines.append(
                f"torch.compile takes {t.compile_us:.1f} µs: {t.speedup_compile.value:.2f}× against it."
            )
    if evaluation.estimate is not None:
        e = evaluation.estimate
        lines.append(
            f"Estimate (not measured): {e.candidate_us:.1f} µs against {e.eager_us:.1f} µs for the "
            f"eager module at {e.shapes}; bound by {e.bound}."
        )
    return lines


def _trials(evaluation: Evaluation) -> int:
    return evaluation.correctness.trials if evaluation.correctness else 0


def _evidence(reason: Reason) -> list[str]:
    detail = reason.detail
    lines = [f"- {key.replace('_', ' ')}: {detail[key]}" for key in _DETAIL_KEYS if detail.get(key)]
    lines += [f"  {frame}" for frame in detail.get("traceback", [])[-4:]]
    return lines


def _by_cost(evaluation: Evaluation) -> list[KernelFacts]:
    return sorted(evaluation.kernels, key=lambda k: -(k.share_of_device_time or 0.0))


def _kernel(kernel: KernelFacts) -> str:
    parts = [f"{kernel.launches} launch{'es' if kernel.launches != 1 else ''}"]
    if kernel.share_of_device_time is not None:
        word = "of device time" if "cupti" in kernel.tier else "of the estimated device time"
        parts.append(f"{kernel.share_of_device_time:.0%} {word}")
    if kernel.loaded_bytes and kernel.fewest_loaded_bytes:
        times = kernel.loaded_bytes / kernel.fewest_loaded_bytes
        if times > 1.15:
            parts.append(f"reads {times:.1f}× the fewest bytes it needs")
    if kernel.spills:
        parts.append(f"{kernel.spills} spill instructions (use smaller blocks or more warps)")
    if kernel.registers is not None:
        parts.append(f"{kernel.registers} registers a thread")
    if kernel.occupancy is not None and kernel.occupancy < 0.5:
        parts.append(f"occupancy {kernel.occupancy:.0%}, limited by {kernel.occupancy_limiter}")
    if kernel.bound is not None:
        parts.append(f"bound by {kernel.bound}")
    return f"Kernel `{kernel.name}`: " + "; ".join(parts) + "."
