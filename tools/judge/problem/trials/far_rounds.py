"""The calls of a judging that begin as after very many forwards, and go on over what may change there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

import torch

from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.judge.problem.reference.counted_on import FarOn, counted_on
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.known_trials import known_trial
from kernelagent.tools.judge.problem.trials.planting.literals import NONE, Literals
from kernelagent.tools.judge.problem.trials.rounds import Round, Trial, in_rounds
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed

FAR_ON_IN_A_TURN, FAR_ON_AT_THE_END = 3, 20
"""States that are called from, at most, in a judging between turns and in the last one."""
_CALLS = 4
"""One after another, so that two come before an edge and two from it on."""
_DRAWS = 4


@in_rounds
def far_rounds(
    oracle: Oracle,
    sources: tuple[InputSource, ...],
    *,
    most: int,
    literals: Literals = NONE,
    training: bool = False,
) -> Iterator[Trial | Round]:
    """A round for each state, `most` of them; none where no forward of the reference counts.

    `training`: the calls are made in training mode, without gradients.
    """
    step = TrainingStep(training=True) if training else None
    oracle = oracle if step is None else oracle.asking(step)
    numbers = [*literals.integers, *literals.whole]
    given = oracle.given_weights
    if not _may_count(oracle):
        return
    for source in sources:
        drawn = [draw(source) for _ in range(_DRAWS)]
        states = counted_on(oracle, given, drawn, numbers)
        for state in islice(states, most // len(sources) or 1):
            trial = _from(oracle, source, state, step)
            if trial is not None:
                yield trial
                yield Round(state.weights, (trial,), (), forwards_before=state.forwards)
            oracle.use_weights(given)


def _may_count(oracle: Oracle) -> bool:
    """Whether there are buffers at all."""
    return any(True for _ in oracle.module.buffers())


def _from(
    oracle: Oracle,
    source: InputSource,
    state: FarOn,
    step: TrainingStep | None,
) -> Trial | None:
    """Call after call; None where the reference has no answer to the first that outlasts its own rounding."""
    generator = torch.Generator().manual_seed(fresh_seed())
    oracle.use_weights(state.weights)
    made: list[Trial] = []
    for _ in range(_CALLS):
        arguments = draw(source)
        given = partial(oracle.with_weights, oracle.given_weights, arguments)
        trial = known_trial(oracle, source.name, arguments, generator, beside=given)
        if trial is None:
            break
        made.append(trial)
        oracle.use_weights(trial.expected.state)
    chained: Trial | None = None
    for trial in reversed(made):
        chained = replace(trial, step=step, then=chained)
    oracle.use_weights(state.weights)
    return chained
