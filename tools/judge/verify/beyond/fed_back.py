"""Calls whose inputs are the candidate's own results, as in a stack of layers or a recurrence.

Last bits of a result are the candidate's to choose: what it writes there it may look for in its inputs. The
reference is given the same bits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernelagent.tools.calls.backwards import APART, Row
from kernelagent.tools.calls.complex_numbers import is_inexact, parts_first
from kernelagent.tools.calls.training_step import GRADIENTS, TrainingStep
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.input_domain import laid_out_like, observe
from kernelagent.tools.judge.problem.trials.known_trials import known_trial
from kernelagent.tools.judge.problem.trials.one_trial import trial_on
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.problem.trials.trials import fresh_seed
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.same import identical

DEEP = 3
"""So many calls follow the first, each with results of the one before."""


def can_feed(trial: Trial) -> bool:
    """Whether the call leaves what may fit: results, or gradients of all inputs."""
    step = trial.step
    return step is None or (bool(step.upstream) and step.inputs and not step.left_out)


def fed_back(oracle: Oracle, trial: Trial, output: Any) -> Trial | None:
    """The next call of such a row; None where no result fits an input, or the reference has no answer.

    `output`: the candidate's to `trial`, which was right. The oracle has the weights that the call starts from.
    Of a training step its gradients become upstream gradients.
    """
    generator = torch.Generator().manual_seed(fresh_seed())
    if trial.step is None:
        arguments = _with_results(trial.arguments, output)
        if arguments is None:
            return None
        return known_trial(
            oracle,
            trial.input_set,
            arguments,
            generator,
            trial.compared.natural_rms,
            _answer_of(trial),
        )
    step = _with_gradients(trial.step, output)
    if step is None:
        return None
    asked, beside = oracle.asking(step), _answer_of(trial)
    made = known_trial(asked, trial.input_set, trial.arguments, generator, beside=beside)
    return None if made is None else replace(made, step=step)


def _answer_of(trial: Trial) -> Callable[[], Any]:
    return lambda: trial.compared.oracle64


@dataclass(frozen=True)
class OneForTwo:
    """A call with one tensor for two arguments."""

    trial: Trial
    lasts: bool
    """Whether the reference has an answer to it that outlasts its own rounding: not where the two cancel."""
    names: tuple[str, ...]
    """Of the arguments."""


def one_for_two(oracle: Oracle, trial: Trial) -> OneForTwo | None:
    """The call with one tensor for two arguments of a form; None where there are no two, or it writes to them."""
    if trial.step is not None or not identical(trial.arguments, trial.expected.arguments):
        return None
    by_form: dict[Any, list[str]] = {}
    tensors = named_tensors(trial.arguments)
    for name, tensor in tensors.items():
        if tensor.dim() and tensor.numel() and observe(tensor).kind in ("real", "positive"):
            form = tensor.shape, tensor.stride(), tensor.dtype, observe(tensor).nonnegative
            by_form.setdefault(form, []).append(name)
    several = [names for names in by_form.values() if len(names) > 1]
    if not several:
        return None
    chance = random.SystemRandom()
    names = chance.choice(several)
    chosen = names if chance.randrange(2) else chance.sample(names, 2)
    item = tensors[chance.choice(chosen)]
    args, kwargs = with_tensors(trial.arguments, dict.fromkeys(chosen, item))
    generator = torch.Generator().manual_seed(fresh_seed())
    beside = _answer_of(trial)
    made = known_trial(oracle, trial.input_set, (args, kwargs), generator, beside=beside)
    if made is not None:
        # Its numbers are natural ones: what eager loses in its own steps tells how exact a single element is.
        compared = replace(made.compared, moved=None, by_slices=False)
        return OneForTwo(replace(made, compared=compared), lasts=True, names=tuple(chosen))
    try:
        made = trial_on(oracle, trial.input_set, "natural", (args, kwargs), {}, generator)
    except REFUSALS:
        return None
    return OneForTwo(made, lasts=False, names=tuple(chosen))


def _with_results(arguments: Arguments, output: Any) -> Arguments | None:
    """Every result that fits an input in its place, or one of them alone."""
    results = [leaf for _, leaf in compare.leaves(output) if isinstance(leaf, torch.Tensor)]
    put: dict[str, torch.Tensor] = {}
    for name, tensor in named_tensors(arguments).items():
        fitting = [at for at, result in enumerate(results) if _fits(result, tensor)]
        if fitting:
            put[name] = laid_out_like(results.pop(fitting[0]), tensor)
    if not put:
        return None
    chance = random.SystemRandom()
    if chance.randrange(2):
        alone = chance.choice([*put])
        put = {alone: put[alone]}
    args, kwargs = with_tensors(arguments, put)
    return args, kwargs


def _fits(result: torch.Tensor, tensor: torch.Tensor) -> bool:
    if (result.shape, result.dtype) != (tensor.shape, tensor.dtype) or not tensor.numel():
        return False
    if not is_inexact(tensor) or not _is_finite(result):
        return False
    domain = observe(tensor)
    # What has a form of its own, a result need not have.
    formed = domain.pattern != "none" or domain.symmetric or domain.ordered
    if formed or domain.repeats != "none":
        return False
    return domain.kind == "real" and (not domain.nonnegative or bool((result >= 0).all()))


def _with_gradients(step: TrainingStep, output: Mapping[str, Any]) -> TrainingStep | None:
    """One backward whose upstream gradients are those of inputs and parameters, where one is of that form."""
    if not step.upstream:
        return None
    known = output[GRADIENTS][APART].values()
    gradients = [g for g in known if isinstance(g, torch.Tensor) and _is_finite(g)]
    row: list[torch.Tensor | None] = [*step.upstream[0]]
    some = False
    for at, upstream in enumerate(row):
        if upstream is None:
            continue
        fitting = [g for g in gradients if (g.shape, g.dtype) == (upstream.shape, upstream.dtype)]
        if fitting:
            row[at], some = random.SystemRandom().choice(fitting).clone(), True
    rows: tuple[Row, ...] = (tuple(row),)
    return replace(step, upstream=rows) if some else None


def _is_finite(tensor: torch.Tensor) -> bool:
    return is_inexact(tensor) and bool(parts_first(tensor).to(torch.float64).isfinite().all())
