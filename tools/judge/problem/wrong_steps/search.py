"""Calls that are looked for because they show what the others have not: a step done wrong, a loop that remembers for long.

Inputs are drawn as for the others, and most are thrown away: the reference alone tells which are worth a call.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from itertools import count
from time import process_time

import torch

from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.planting.literals import NONE, Literals
from kernelagent.tools.judge.problem.trials.rounds import Round, Trial, in_rounds
from kernelagent.tools.judge.problem.trials.trials import fresh_seed, trials_of
from kernelagent.tools.judge.problem.wrong_steps.shown import News, Shown

_KINDS = 3 * (*4 * ("structures",), "row_patterns", "natural", "mask_shapes", "literals")
"""Of one go, which begins with what it has to know of natural inputs."""
_STARTS = 1 << 20


@in_rounds
def showing_rounds(
    oracle: Oracle,
    sources: tuple[InputSource, ...],
    so_far: Shown,
    *,
    most_calls: int,
    most_seconds: float,
    literals: Literals = NONE,
    worked: Callable[[], float] = process_time,
) -> Iterator[Trial | Round]:
    """One round under the given weights; none where all shows already, or nothing that shows more was found.

    `most_seconds`: of processor time, which `worked` tells.
    """
    oracle.use_weights(oracle.given_weights)
    generator = torch.Generator().manual_seed(fresh_seed())
    turns = count(secrets.randbelow(_STARTS))
    found: list[Trial] = []
    news: News | None = None
    until = worked() + most_seconds

    def is_over() -> bool:
        return so_far.is_all or len(found) >= most_calls or worked() >= until

    def shows(arguments: Arguments) -> bool:
        nonlocal news
        news = None if is_over() else so_far.news_of(oracle, arguments)
        return news is not None

    while not is_over():
        for source in sources:
            for made in trials_of(
                oracle, source, _KINDS, generator, literals, turns, sequel=None, wanted=shows,
            ):  # fmt: skip
                if isinstance(made, Trial) and news is not None:
                    so_far.take(news)
                    found.append(made)
                    yield made
    if found:
        yield Round(oracle.given_weights, tuple(found), ())
