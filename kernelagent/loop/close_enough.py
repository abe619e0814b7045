"""Whether a run may end because it is as fast as the user asks: more turns would cost more than they can bring."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kernelagent.domain.history import Turn


def close_enough(turns: Iterable[Turn], share: float) -> str | None:
    """Why the run ends: of an accepted turn's time at most `share` (above 0, to 1) is left to gain. None: it goes on.

    Any turn counts, also one whose time cannot be told apart from the best's. A measured time near that of one launch says
    nothing of what is left, and ends no run.
    """
    near = [(left, turn) for turn in turns if (left := _left(turn)) is not None and left <= share]
    if not share or not near:
        return None
    left, turn = min(near, key=lambda item: (item[0], item[1].index))
    assert turn.evaluation is not None
    how = "by the estimate " if turn.evaluation.timing is None else ""
    return (
        f"{how}at most {math.ceil(1000 * left) / 10:g}% of the time of turn {turn.index} is left to gain, and "
        f"--stop-at-headroom {share:g} asks for no more"
    )


def _left(turn: Turn) -> float | None:
    judged = turn.evaluation
    if judged is None or not turn.accepted or judged.headroom is None:
        return None
    measured_launch = judged.timing is not None and judged.headroom.binds == "launch"
    return None if measured_launch else judged.headroom.left
