"""The exception by which a check inside the judge rejects a candidate; `Judge.evaluate` makes it a value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernelagent.domain.evaluation import Reason

_RAISED = frozenset({"runtime_error", "compile_error"})


class Rejected(Exception):
    """The candidate is refused for `reason`; every check after it is skipped."""

    def __init__(self, code: str, message: str, detail: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.reason = Reason(code, message, detail or {})


def with_the_line(reason: Reason, source: str) -> Reason:
    """The same with the text of the candidate's line that it names, where it has none yet."""
    line, lines = reason.detail.get("line"), source.splitlines()
    if "text" in reason.detail or not isinstance(line, int) or not 0 < line <= len(lines):
        return reason
    return replace(reason, detail={**reason.detail, "text": lines[line - 1].strip()})


def compiled_by_torch() -> Rejected:
    """Why a forward that torch.compile computes, without a kernel of its own, is refused."""
    return Rejected(
        "calls_reference",
        "torch.compile computes the result, which is somebody else's kernel; write a @triton.jit "
        "kernel in the file, or ask for --policy any",
    )


def beyond_means(refused: Rejected) -> bool:
    """Whether the interpreter ran out of its time budget, which is not the candidate's fault."""
    return refused.reason.code == "unverifiable" and "means" in refused.reason.detail


def raised_by_the_forward(reason: Reason) -> bool:
    """Whether it is the candidate's own Python that ended the call: of a kernel's fault nothing but the fault is known."""
    return reason.code == "runtime_error" and "where" in reason.detail


def of_smaller_sizes(refused: Rejected, too_large: Rejected) -> Rejected:
    """Why it is refused, where the user's sizes were too large for the device and smaller ones were tried.

    A candidate may be written for the user's sizes alone and raise at others: that is no fault of its own.
    """
    if refused.reason.code not in _RAISED:
        return refused
    first = too_large.reason
    message = f"{first.message}; at smaller sizes it ends with: {refused.reason.message}"
    return Rejected("unverifiable", message, {**first.detail, "smaller": refused.reason.detail})
