"""Whether a run may end because its best is as fast as the user asks: more turns would cost more than they can bring."""

from __future__ import annotations

from kernelagent.domain.history import Turn


def close_enough(best: Turn | None, share: float) -> str | None:
    """Why the run ends: of the best's time at most `share` (above 0, to 1) is left to gain. None: it goes on.

    The time is measured where the device is there, else an estimate.
    """
    judged = None if best is None else best.evaluation
    headroom = None if judged is None else judged.headroom
    if best is None or judged is None or headroom is None or not share or headroom.left > share:
        return None
    how = "by the estimate " if judged.timing is None else ""
    return (
        f"{how}at most {headroom.left:.0%} of the time of turn {best.index} is left to gain, and --stop-at-headroom "
        f"{share:g} asks for no more"
    )
