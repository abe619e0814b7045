"""How a run stands: over, going on, paused, or killed, by its log and by whether a process has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kernelagent.domain.events import Logged
from kernelagent.prompts.wording import doing_after
from kernelagent.storage.run_state import RunState

Outcome = Literal[
    "better",
    "not_faster",
    "none",
    "interrupted",
    "failed",
    "running",
    "paused",
    "killed",
    "unreadable",
]
"""`running` and `paused`: a process has it; `killed`: none has, and its log has no end."""


def outcome_of(
    run: str, events: Sequence[Logged], state: RunState, *, going_on: bool
) -> tuple[Outcome, str]:
    """The outcome, and a sentence why or what is to be done; `state` is the fold of `events`.

    `going_on`: whether a process held the run's lock before the log was read.
    """
    if state.finished is not None:
        return state.finished.outcome, state.finished.why
    if going_on and state.steering.paused:
        return "paused", f"`kernelagent steer {run} resume` goes on with it"
    if going_on:
        return "running", (doing_after(events[-1]) if events else None) or "a process has it"
    while_paused = " while it was paused" if state.steering.paused else ""
    return "killed", (
        f"no process here has it and its log has no end, so it was killed{while_paused}; "
        f"`kernelagent optimize --resume {run}` goes on with it"
    )
