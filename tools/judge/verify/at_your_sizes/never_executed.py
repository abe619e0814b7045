"""What a candidate does by the sizes of the user's constructor alone, where smaller ones were executed and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.judge.problem.trials.planting.literals import conditions_of

_SHOWN = 3


def decided_otherwise(source: str, sizes: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """Conditions of the text that hold for a size and not for the one that was executed instead, or the other way round.

    `sizes`: each as it was and as it is executed.
    """
    found: dict[str, None] = {}
    for condition in conditions_of(source):
        for pair in sizes:
            held = condition.holds(dict.fromkeys(condition.open, np.array(pair, dtype=np.int64)))
            if held is not None and held.size == len(pair) and held.min() != held.max():
                found[condition.text] = None
    return tuple(found)


def nothing_compared(source: str, sizes: Sequence[tuple[int, int]]) -> Disclosure:
    """Where there was no time for a call with the user's sizes."""
    executed = ", ".join(f"{was} as {now}" for was, now in sizes)
    conditions = decided_otherwise(source, sizes)
    message = (
        f"of your constructor's sizes smaller ones were executed ({executed}), and there was no time for a call with yours: "
        f"what the candidate does at them alone was compiled and counted, and no answer was compared"
    )
    if conditions:
        shown = ", ".join(f"`{text}`" for text in conditions[:_SHOWN])
        more = f" and {len(conditions) - _SHOWN} more" * (len(conditions) > _SHOWN)
        message += f"; these of its conditions come out otherwise at yours: {shown}{more}"
    return Disclosure("not_compared_at_your_sizes", message)
