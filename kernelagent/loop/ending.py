"""Why a run ends although its budget is not spent: more turns would only wait, or gain nothing."""

from __future__ import annotations

from collections.abc import Sequence

from kernelagent.domain.better import standing
from kernelagent.domain.history import Turn

_UNJUDGED = 3
"""The run ends after so many judgings in a row that took too long: a policy would go on "repairing" what is right."""


def too_slow_to_judge(turns: Sequence[Turn], since: int) -> str | None:
    """Why more turns would only wait: the last few from `since` on ended at the judge's limit of time; None: they did not."""
    last = [turn for turn in turns if turn.index >= since][-_UNJUDGED:]
    if len(last) < _UNJUDGED or not all(_ran_out_of_time(turn) for turn in last):
        return None
    return (
        f"the last {_UNJUDGED} candidates could not be judged within the time allowed, and nothing was found wrong with them: "
        f"go on with --resume and a larger --judging-seconds, or begin again with smaller inputs"
    )


def _ran_out_of_time(turn: Turn) -> bool:
    reason = None if turn.evaluation is None else turn.evaluation.reason
    return (
        reason is not None
        and reason.code == "unverifiable"
        and reason.detail.get("means") == "time"
    )


def nothing_left(turns: Sequence[Turn]) -> str | None:
    """Why more turns would gain nothing: an accepted one takes about the least time that is possible; None: none does."""
    for turn in turns:
        judged = turn.evaluation
        if judged is None or not judged.accepted or judged.headroom is None:
            continue
        if judged.headroom.nothing_left and standing(judged) == "faster":
            return (
                f"turn {turn.index} takes about the least time that is possible here ({judged.headroom.least_us:.1f} µs), so that "
                f"more turns would gain next to nothing; `--stop-when-done never` goes on all the same"
            )
    return None
