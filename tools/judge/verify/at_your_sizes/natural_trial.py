"""The reference's answer to inputs of the user's sizes, and how far a right one may be off there."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import torch

from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.steps.step_probes import StepInputs, StepProbes
from kernelagent.tools.judge.problem.steps.steps import scaled, single_step
from kernelagent.tools.judge.problem.trials.masked_answers import shares_nonfinite
from kernelagent.tools.judge.problem.trials.one_trial import trial_on
from kernelagent.tools.judge.problem.trials.planting.literals import NONE
from kernelagent.tools.judge.problem.trials.probes import share_nonfinite
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed, trials_of
from kernelagent.tools.judge.verify.at_your_sizes.larger_inputs import BATCHES, Larger
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.regions import Enough, MeasureNoise, Noise, NoiseSources

_ONE_FOR_ALL = 4
"""The noise of one draw, so many times, is that of many."""


def trial_at(context: JudgeContext, given: Larger) -> Trial | None:
    """A call on inputs that are drawn now; None where there is no memory for them, or the reference has no answer."""
    if given.kind.is_probe:
        return _step_on_a_probe(given) if context.trains else _probe_at(given)
    arguments = given.draw()
    return None if arguments is None else natural_trial(context, given, arguments)


def _probe_at(given: Larger) -> Trial | None:
    generator, turns = torch.Generator().manual_seed(fresh_seed()), count(fresh_seed())
    made = trials_of(
        given.oracle, given.source, (given.kind.contents,), generator, NONE, turns, sequel=None
    )
    try:
        trial = next((each for each in made if isinstance(each, Trial)), None)
    except REFUSALS:
        return None
    return None if trial is None else _with_one_noise(trial)


def _step_on_a_probe(given: Larger) -> Trial | None:
    """A training step; None also where these inputs have nothing that the probe changes."""
    generator, turns = torch.Generator().manual_seed(fresh_seed()), count(fresh_seed())
    contents = given.kind.contents
    try:
        natural = draw(given.source)
        step = replace(single_step(given.oracle, natural, generator), watched=True)
        oracle = given.oracle.asking(step)
        right = oracle.in_float64_or_eager(natural)
        scale = scaled(compare.scales_of(right), step)
        inputs = StepProbes(given.source, natural, generator, turns, usual=shares_nonfinite(right))
        made = inputs.of(contents, oracle, scale)
        if not isinstance(made, StepInputs) or oracle.order_of_writes_shows(made.arguments):
            return None
        trial = trial_on(oracle, given.name, contents, made.arguments, scale, generator)
    except REFUSALS:
        return None
    compared = replace(trial.compared, moved=made.moved)
    return _with_one_noise(replace(trial, step=step, compared=compared))


def natural_trial(context: JudgeContext, given: Larger, arguments: Arguments) -> Trial | None:
    """A forward, or the training step that is asked for; None where the reference has no answer."""
    generator = torch.Generator().manual_seed(fresh_seed())
    oracle, step = given.oracle, None
    try:
        if context.trains:
            step = replace(single_step(oracle, arguments, generator), watched=True)
            oracle = oracle.asking(step)
        scale = compare.scales_of(oracle.in_float64_or_eager(arguments))
        if step is not None:
            scale = scaled(scale, step)
        trial = trial_on(oracle, given.name, "natural", arguments, scale, generator)
        if given.kind == BATCHES and share_nonfinite(trial.expected.output) > _usual(
            context, given
        ):
            # As where a mask hides a row whole: what stands there is nobody's.
            return None
    except REFUSALS:
        return None
    return _with_one_noise(replace(trial, step=step))


def _with_one_noise(trial: Trial) -> Trial:
    measure = trial.compared.measure_noise
    if measure is None:
        return trial
    return replace(trial, compared=replace(trial.compared, measure_noise=_in_one_draw(measure)))


def _usual(context: JudgeContext, given: Larger) -> float:
    """Which share of an answer is NaN or infinite on inputs as the user draws them."""
    source = next(each for each in context.sources if each.name == given.name)
    return share_nonfinite(context.oracle.eager(draw(source)))


def _in_one_draw(measure: MeasureNoise) -> MeasureNoise:
    """Each draw asks the reference twice at these sizes, which takes seconds: one, taken for more than it is."""

    def measured(name: str, enough: Enough | None = None) -> NoiseSources:
        once = measure(name, lambda _: True)
        return replace(
            once,
            inputs=_larger(once.inputs),
            steps=_larger(once.steps),
            slices=None if once.slices is None else _larger(once.slices),
            spread=None if once.spread is None else _ONE_FOR_ALL * once.spread,
        )

    return measured


def _larger(noise: Noise) -> Noise:
    return Noise(_ONE_FOR_ALL * noise.rms, _ONE_FOR_ALL * noise.max)
