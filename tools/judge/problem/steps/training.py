"""Which training steps a candidate is judged on (`--train`): secret upstream gradients, several backwards.

A step is judged like a call: its outputs and every gradient go through the same gate, against the
same oracle. Upstream gradients come as training makes them: at random, expanded, transposed, and with
the structure of `upstreams`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, get_args

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.evaluation import Disclosure
from kernelagent.domain.tables.probes import names_in
from kernelagent.tools.calls.complex_numbers import parts_first
from kernelagent.tools.calls.training_step import GRADIENTS, Packed, TrainingStep
from kernelagent.tools.judge.problem.dynamic import Dynamic, hidden, name_of_input
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.steps.step_probes import StepInputs, StepProbes
from kernelagent.tools.judge.problem.steps.steps import (
    EVERYTHING,
    full_step,
    in_full,
    scaled,
    step_alone,
    trained,
    with_further,
    with_upstream,
)
from kernelagent.tools.judge.problem.steps.upstreams import turns
from kernelagent.tools.judge.problem.trials.distinct_numbers import ORDER_SHOWS
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.masked_answers import shares_nonfinite
from kernelagent.tools.judge.problem.trials.one_trial import trial_on
from kernelagent.tools.judge.problem.trials.other_signs import OtherSigns
from kernelagent.tools.judge.problem.trials.perturbed_state import perturbed_state
from kernelagent.tools.judge.problem.trials.planting.literals import NONE, Literals
from kernelagent.tools.judge.problem.trials.planting.planted import (
    patterned_weights,
    planted_weights,
)
from kernelagent.tools.judge.problem.trials.probes import Dropped
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.trials.rounds import Round, Trial, in_rounds
from kernelagent.tools.judge.problem.trials.trials import (
    WITH_OTHER_SIGNS,
    Plan,
    draw,
    fresh_seed,
    with_an_answer,
    with_other_signs,
)
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.diagnosis.gradients import spoken

_WEIGHTS = ("given", "random", "random", "planted", "random", "patterned", "patterned")
STEPS_AT_THE_END: Plan = tuple(
    (weights, names_in(number, steps=True)) for number, weights in enumerate(_WEIGHTS)
)
"""The steps of a final judging, which see every kind of upstream gradient."""
STEPS_OF_A_TURN: Plan = STEPS_AT_THE_END[:4]
"""Weights, and the steps taken under them; natural ones in full, probes with a single backward."""
AT_OTHER_SIZES: Plan = STEPS_OF_A_TURN[:1]
"""The training steps that neighbouring input sets are tested with."""
_HIDDEN_SIZES_IN = 1
_ALONE = 2
"""Steps of a round with one structured upstream gradient and a single backward, as programs take them."""
_MANY = 1 << 62
WITH_BACKWARD = (
    Disclosure(
        "forward_and_backward",
        "the time is that of a forward with its backward, on both sides; of a forward alone no time is told",
    ),
)


def require_trainable(oracle: Oracle, sources: Sequence[InputSource]) -> None:
    """Raises `ProblemError` when gradients of this problem cannot be verified, with the reason.

    Sets `oracle.may_pack`: not where torch saves a tensor that it fills afterwards, as its rrelu does: a hook that
    packs what is saved keeps what was in that memory before. Nor where torch rounds otherwise on dense memory.
    """
    generator = torch.Generator().manual_seed(1)
    may_pack: list[Packed] = list(get_args(Packed))
    for source in sources:
        arguments = source.draw(1)
        step = full_step(oracle, arguments, generator, training=True)
        asked = oracle.asking(step)
        first = asked.eager(arguments)
        changed = [
            how
            for how in get_args(Packed)
            if _differs_at(
                first, oracle.asking(replace(step, packed=how)).eager(arguments, going_on=True)
            )
        ]
        if not changed:
            continue
        may_pack = [how for how in may_pack if how not in changed]
        where = _differs_at(first, asked.eager(arguments, going_on=True))
        if where is not None:
            names = dropouts_in(oracle.module)
            raise ProblemError(
                f"--train: in training mode the module does not give the same twice "
                f"({spoken(where)}, set {source.name!r}), and randomness such as dropout "
                f"cannot be compared{f': {names}' if names else ''}; set its probability to 0, take a part without it, or "
                f"leave --train out"
            )
    oracle.may_pack = tuple(may_pack)
    oracle.may_be_called_between = all(
        _bears_a_call(oracle, source, generator) for source in sources
    )


def _bears_a_call(oracle: Oracle, source: InputSource, generator: torch.Generator) -> bool:
    """Whether gradients in eval mode outlast a call in training mode before the backward."""
    arguments = source.draw(1)
    step = full_step(oracle, arguments, generator, training=False)
    between = replace(step, beside=source.draw(2), beside_flips=True)
    try:
        usual, other = (oracle.asking(s).eager(arguments)[GRADIENTS] for s in (step, between))
    except ProblemError:
        # As where the module itself refuses to train on these.
        return False
    return _differs_at(usual, other) is None


def _differs_at(first: Any, second: Any) -> str | None:
    """The first place at which two answers are not the same; None: they are the same."""
    pairs = zip(compare.leaves(first), compare.leaves(second), strict=True)
    return next(
        (
            where
            for (where, left), (_, right) in pairs
            if isinstance(left, torch.Tensor)
            and not torch.allclose(
                parts_first(left).double(),
                parts_first(right).double(),
                rtol=1e-3,
                atol=1e-5,
                equal_nan=True,
            )
        ),
        None,
    )


def dropouts_in(module: torch.nn.Module) -> str:
    """Which parts drop something out, as far as they are torch's own; empty where none does."""
    names = [
        f"{name or 'it'} (p={part.p:g})"
        for name, part in module.named_modules()
        if isinstance(part, torch.nn.modules.dropout._DropoutNd) and part.p > 0
    ]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{', '.join(names[:4])}{more}" if names else ""


@in_rounds
def training_rounds(
    oracle: Oracle,
    sources: tuple[InputSource, ...],
    dynamic: Mapping[str, tuple[Dynamic, ...]],
    *,
    plan: Plan = STEPS_OF_A_TURN,
    literals: Literals = NONE,
) -> Iterator[Trial | Round]:
    """The steps; each round leaves the oracle with its weights. `literals` as for `rounds`."""
    names = [name for name, _ in oracle.module.named_parameters(remove_duplicate=False)]
    signs = OtherSigns(names, torch.Generator().manual_seed(fresh_seed()))
    kinds, patterns, of_weights = turns(), *(count(secrets.randbelow(_MANY)) for _ in range(2))
    for number, (kind, probes) in enumerate(plan):
        generator = torch.Generator().manual_seed(fresh_seed())
        weights: Mapping[str, torch.Tensor] = oracle.given_weights
        if kind != "given":
            weights = perturbed_state(oracle.given_weights, names, generator).tensors
        if kind in WITH_OTHER_SIGNS:
            weights = with_other_signs(oracle, sources, signs, weights)
        if kind == "planted":
            tried = planted_weights(oracle.given_weights, names, literals, generator)
            weights = with_an_answer(oracle, sources, tried)
        if kind == "patterned":
            tried = patterned_weights(oracle.given_weights, names, generator, next(of_weights))
            weights = with_an_answer(oracle, sources, tried)
        oracle.use_weights(weights)
        trials: list[Trial] = []
        dropped: list[Dropped] = []
        refused: list[str] = []
        for source in sources:
            for made in _of_source(
                oracle,
                source,
                probes,
                generator,
                number,
                kinds,
                patterns,
                literals=literals,
            ):
                if isinstance(made, Trial):
                    trials.append(made)
                    yield made
                else:
                    dropped.append(made)
            if number == _HIDDEN_SIZES_IN:
                declared = dynamic.get(source.name, ())
                others = hidden(source, declared, secrets.SystemRandom(), literals)
                for other in others:
                    at_size = _of_source(
                        oracle,
                        other,
                        ("natural",),
                        generator,
                        number,
                        kinds,
                        patterns,
                        literals=literals,
                    )
                    try:
                        trials += [replace(m, hidden=True) for m in at_size if isinstance(m, Trial)]
                    except REFUSALS:
                        # As a batch norm that trains refuses a batch of one.
                        refused.append(f"a training step with {other.name}")
        secrets.SystemRandom().shuffle(trials)
        if not number:
            # Of several backwards of one step can be said what is wrong with all of them.
            trials.sort(key=lambda t: t.step is None or len(t.step.upstream) < 2)
        yield Round(weights, tuple(trials), tuple(dropped), tuple(refused), feeds_back=number == 0)


def _of_source(
    oracle: Oracle,
    source: InputSource,
    probes: tuple[str, ...],
    generator: torch.Generator,
    number: int,
    structures: Iterator[str],
    patterns: Iterator[int],
    *,
    literals: Literals,
) -> Iterator[Trial | Dropped]:
    natural = draw(source)
    kinds = trained(oracle, natural)
    plain = with_upstream(oracle, natural, kinds.step(EVERYTHING, training=True), generator, 3)
    right = oracle.asking(plain).in_float64_or_eager(natural)
    scale, usual = compare.scales_of(right), shares_nonfinite(right)
    if source.writes.along:
        called = partial(name_of_input, oracle.module, source.full)
        yield Dropped("repeats", source.writes.said(called))
    inputs = StepProbes(source, natural, generator, patterns, literals, usual)
    for at, name in enumerate(probes):
        flag = secrets.choice((True, False)) if at else number % 2 == 0
        moved = None
        if name == "natural":
            arguments = draw(source)
            chosen = kinds.asked[number % len(kinds.asked)]
            step = in_full(oracle, arguments, kinds.step(chosen, training=flag), generator)
            step = with_further(oracle, arguments, step, generator, structures)
            other = oracle.may_be_called_between and (not flag or secrets.choice((True, False)))
            step = replace(step, beside=draw(source), beside_flips=other)
        else:
            begun = kinds.step(EVERYTHING, training=flag)
            step = with_upstream(oracle, natural, begun, generator, 1)
            made = inputs.of(name, oracle.asking(step), scaled(scale, step))
            if isinstance(made, Dropped):
                yield made
            if not isinstance(made, StepInputs):
                continue
            arguments, moved = made.arguments, made.moved
            if oracle.order_of_writes_shows(arguments):
                yield Dropped(name, ORDER_SHOWS)
                continue
        flips = secrets.choice((True, False))
        # Here all that learns is asked for; a step that asks for little may need nothing of what is packed.
        packed = secrets.choice((None, *oracle.may_pack)) if at > 0 else None
        step = replace(step, watched=True, flips=flips, packed=packed)
        sizes = scaled(scale, step)
        trial = trial_on(oracle.asking(step), source.name, name, arguments, sizes, generator)
        yield replace(trial, step=step, compared=replace(trial.compared, moved=moved))
    for alone in range(_ALONE):
        arguments = draw(source)
        step = step_alone(oracle, arguments, kinds, generator, structures)
        packed = oracle.may_pack[-1] if oracle.may_pack and not alone else None
        step, sizes = replace(step, watched=True, packed=packed), scaled(scale, step)
        trial = trial_on(oracle.asking(step), source.name, "natural", arguments, sizes, generator)
        yield replace(trial, step=step)
    # Also the forward in training mode without gradients.
    arguments, without = draw(source), TrainingStep(training=True)
    trial = trial_on(oracle.asking(without), source.name, "natural", arguments, scale, generator)
    yield replace(trial, step=without)
