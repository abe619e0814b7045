"""The exception by which a check inside the judge rejects a candidate; `Judge.evaluate` makes it a value."""

from __future__ import annotations

from typing import Any

from kernelagent.domain.evaluation import Reason


class Rejected(Exception):
    """The candidate is refused for `reason`; every check after it is skipped."""

    def __init__(self, code: str, message: str, detail: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.reason = Reason(code, message, detail or {})


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
