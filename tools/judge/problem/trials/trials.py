"""Which calls a candidate is judged on: secret draws and probes, under given and random weights.

Everything is drawn anew for each candidate from the operating system's randomness; a candidate
sees a sequence of calls and reloads, and cannot tell which of them decide.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import count
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.tables.probes import AT_THE_END, PROBE, names_in
from kernelagent.tools.calls.complex_numbers import in_each_part, is_inexact
from kernelagent.tools.judge.problem.dynamic import Dynamic, hidden, name_of_input
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.conversions import defined_as_in
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.reference.reached import reached
from kernelagent.tools.judge.problem.trials.distinct_numbers import ORDER_SHOWS
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.lasting_answers import is_known
from kernelagent.tools.judge.problem.trials.layouts import with_loose_ones
from kernelagent.tools.judge.problem.trials.masked_answers import is_hidden_alone, shares_nonfinite
from kernelagent.tools.judge.problem.trials.one_trial import pair, trial_on
from kernelagent.tools.judge.problem.trials.other_signs import OtherSigns
from kernelagent.tools.judge.problem.trials.overflow import (
    below_overflow,
    beyond_float32,
    beyond_half,
    has_range_of_float32,
    is_half,
)
from kernelagent.tools.judge.problem.trials.perturbed_state import perturbed_state
from kernelagent.tools.judge.problem.trials.planting.literals import NONE, Literals
from kernelagent.tools.judge.problem.trials.planting.planted import (
    can_plant,
    is_elementwise,
    patterned_weights,
    planted,
    planted_weights,
)
from kernelagent.tools.judge.problem.trials.probes import (
    Dropped,
    applies,
    fresh_inputs,
    make_probe,
    named_tensors,
    with_tensors,
)
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.trials.rounds import Round, Trial, in_rounds
from kernelagent.tools.judge.problem.trials.sequels import Sequel, nudged, with_sequel
from kernelagent.tools.judge.verify.compare import compare

_SEEDS = 1 << 62
_AS_THEY_ARE = nullcontext()
Plan = tuple[tuple[str, tuple[str, ...]], ...]
_WEIGHTS = ("given", "random", "positive", "nudged", "planted", "random")
PLAN_AT_THE_END: Plan = (
    *((weights, names_in(number)) for number, weights in enumerate(_WEIGHTS)),
    *(("patterned", ("natural",)) for _ in range(4)),
)
"""The calls of a final judging."""
PLAN_OF_A_TURN: Plan = PLAN_AT_THE_END[:AT_THE_END]
"""Weights, and the calls made under them in random order; weights are loaded in mid-run."""
WHERE_SIZES_SHOW: Plan = PLAN_OF_A_TURN[:2]
"""The calls that neighbouring input sets (same code, other sizes) are tested with."""
WITH_OTHER_SIGNS = ("random", "positive")
"""The kinds of weights of which the few are of other signs as well."""
_SEQUELS_IN: dict[int, Sequel] = {0: "nudged", 1: "nudged in place", 3: "rearranged"}
"""The rounds in which one call is followed by another with nearly the same inputs, or the same in other places."""
_PATTERNED = ("row_patterns", "mixed_rows", "camps", "structures")
_AS_EXACT_AS_PROBES = ("camps",)
"""Their rows are all of one size: no element need be allowed more than any probe allows."""
_FEEDS_BACK_IN = 1
_HIDDEN_SIZES_IN = 1
"""The round of the plan that also tries dynamic dimensions at hidden sizes."""
_AT_HIDDEN_SIZES = ("mean100",)
"""Tried there besides natural inputs: lanes beyond the end must not enter into rows that are all far below zero."""


def fresh_seed() -> int:
    """From the operating system; never derived from another seed."""
    return secrets.randbelow(_SEEDS)


def draw(source: InputSource, *, seed: Callable[[], int] = fresh_seed) -> Arguments:
    """One natural draw; where there are only example tensors, fresh ones of the same kind."""
    arguments = source.draw(seed())
    if not source.constant:
        return arguments
    generator = torch.Generator().manual_seed(seed())
    given = named_tensors(arguments)
    return pair(with_tensors(arguments, source.writes.legal(fresh_inputs(given, generator), given)))


@in_rounds
def rounds(
    oracle: Oracle,
    sources: tuple[InputSource, ...],
    dynamic: Mapping[str, tuple[Dynamic, ...]],
    *,
    plan: Plan = PLAN_OF_A_TURN,
    literals: Literals = NONE,
) -> Iterator[Trial | Round]:
    """The whole trial; each round leaves the oracle with its weights.

    `dynamic`: declared dynamic dimensions by input set; they are tried at hidden sizes in one round.
    `literals`: the numbers in the sources, which values and sizes are made of.
    """
    parameters = [name for name, _ in oracle.module.named_parameters(remove_duplicate=False)]
    moves = False
    turns, of_weights = (count(secrets.randbelow(_SEEDS)) for _ in range(2))
    signs = OtherSigns(parameters, torch.Generator().manual_seed(fresh_seed()))
    for number, (kind, probes) in enumerate(plan):
        generator = torch.Generator().manual_seed(fresh_seed())
        kept: tuple[str, ...] = ()
        weights: Mapping[str, torch.Tensor] = oracle.given_weights
        if kind == "nudged":
            weights = nudged(oracle.given_weights, parameters, generator)
        elif kind != "given":
            perturbed = perturbed_state(oracle.given_weights, parameters, generator)
            weights, kept = perturbed.tensors, perturbed.kept
        if kind == "positive":
            weights = _of_one_sign(weights, parameters)
        if kind in WITH_OTHER_SIGNS:
            weights = with_other_signs(oracle, sources, signs, weights)
        if kind == "planted":
            tried = planted_weights(oracle.given_weights, parameters, literals, generator)
            weights = with_an_answer(oracle, sources, tried)
        if kind == "patterned":
            tried = patterned_weights(oracle.given_weights, parameters, generator, next(of_weights))
            weights = with_an_answer(oracle, sources, tried)
        if moves:
            drawn = [draw(source) for source in sources for _ in range(2)]
            weights, _ = reached(oracle, weights, drawn, number)
        oracle.use_weights(weights)
        trials: list[Trial] = []
        dropped: list[Dropped] = []
        refused: list[str] = []
        for source in sources:
            sequel = _SEQUELS_IN.get(number)
            for made in trials_of(
                oracle, source, probes, generator, literals, turns, sequel=sequel
            ):
                if isinstance(made, Trial):
                    trials.append(made)
                    yield made
                else:
                    dropped.append(made)
            if number == _HIDDEN_SIZES_IN:
                declared = dynamic.get(source.name, ())
                for at_size in _at_hidden_sizes(
                    oracle, source, declared, generator, literals, turns
                ):
                    if isinstance(at_size, Trial):
                        trials.append(at_size)
                        yield at_size
                    else:
                        refused.append(at_size)
        moves = moves or any(_moves_state(trial, weights) for trial in trials)
        secrets.SystemRandom().shuffle(trials)
        if trials or dropped:
            yield Round(
                weights,
                tuple(trials),
                tuple(dropped),
                tuple(refused),
                kept,
                repeats=number == 0,
                feeds_back=number == _FEEDS_BACK_IN,
            )


def _moves_state(trial: Trial, weights: Mapping[str, torch.Tensor]) -> bool:
    """The oracle copies what the call changes and nothing else."""
    return any(
        name in weights and weights[name].data_ptr() != after.data_ptr()
        for name, after in trial.expected.state.items()
    )


def with_an_answer(
    oracle: Oracle,
    sources: Sequence[InputSource],
    tried: Iterable[Mapping[str, torch.Tensor]],
    *,
    otherwise: Mapping[str, torch.Tensor] | None = None,
) -> Mapping[str, torch.Tensor]:
    """The first weights under which the reference has an answer; else `otherwise`, or the given ones."""
    oracle.use_weights(oracle.given_weights)
    usual = [draw(source) for source in sources]
    defined = defined_as_in(lambda: [oracle.eager(arguments) for arguments in usual])
    for weights in tried:
        oracle.use_weights(weights)
        try:
            natural = [draw(source) for source in sources]
            with defined:
                answers = [oracle.eager(a) for a in natural]
            exact = [oracle.in_float64_or_eager(a) for a in natural]
        except REFUSALS:
            continue
        if not is_known(answers, exact, answers, {}):
            continue
        if is_hidden_alone(answers, partial(_under_given_weights, oracle, natural)):
            return weights
    return oracle.given_weights if otherwise is None else otherwise


def _under_given_weights(oracle: Oracle, natural: Sequence[Arguments]) -> list[Any]:
    return [oracle.with_weights(oracle.given_weights, arguments) for arguments in natural]


def with_other_signs(
    oracle: Oracle,
    sources: Sequence[InputSource],
    signs: OtherSigns,
    weights: Mapping[str, torch.Tensor],
) -> Mapping[str, torch.Tensor]:
    """The weights with the signs of few-element ones flipped, as far as the reference has an answer."""
    tried = signs.tried(oracle.given_weights, weights)
    if not tried:
        return weights
    return with_an_answer(oracle, sources, tried, otherwise=weights)


def _at_hidden_sizes(
    oracle: Oracle,
    source: InputSource,
    declared: Sequence[Dynamic],
    generator: torch.Generator,
    literals: Literals,
    turns: Iterator[int],
) -> Iterator[Trial | str]:
    """Calls at sizes the candidate is not told; a name is of an input set whose sizes the reference refuses."""
    for other in hidden(source, declared, secrets.SystemRandom(), literals):
        answered = _at_other_sizes(oracle, other, generator)
        if answered is None:
            yield other.name
            continue
        yield answered
        for made in trials_of(
            oracle, other, _AT_HIDDEN_SIZES, generator, literals, turns, sequel=None,
        ):  # fmt: skip
            if isinstance(made, Trial):
                yield replace(made, hidden=True)


def _at_other_sizes(
    oracle: Oracle,
    source: InputSource,
    generator: torch.Generator,
) -> Trial | None:
    """None where the reference refuses these sizes."""
    try:
        scale = compare.scales_of(oracle.in_float64_or_eager(draw(source)))
        arguments = draw(source)
        # A row that is cut from a wider tensor lies so, and a guard lets it in as contiguous.
        arguments = pair(tree_map_only(torch.Tensor, with_loose_ones, arguments))
        made = trial_on(oracle, source.name, "natural", arguments, scale, generator)
    except REFUSALS:
        return None
    return replace(made, hidden=True)


def trials_of(
    oracle: Oracle,
    source: InputSource,
    probes: tuple[str, ...],
    generator: torch.Generator,
    literals: Literals,
    turns: Iterator[int],
    *,
    sequel: Sequel | None,
    wanted: Callable[[Arguments], bool] | None = None,
) -> Iterator[Trial | Dropped]:
    """A call for each of these probes, or why there is none, under the weights in use; `turns`: which of the patterns.

    `wanted`: tells of inputs whether there is to be a call with them.
    """
    natural = draw(source)
    right = oracle.in_float64_or_eager(natural)
    given: list[Any] = []
    defined = defined_as_in(lambda: given.append(oracle.eager(natural)))
    kinds = {n: t.dtype for n, t in compare.leaves(given[0]) if has_range_of_float32(t)}
    has_halves = any(is_half(leaf) for _, leaf in compare.leaves(given[0]))
    leaves = [leaf for _, leaf in compare.leaves(right) if isinstance(leaf, torch.Tensor)]
    scale, usual = compare.scales_of(right), shares_nonfinite(beyond_half(leaves, given[0]))

    own = named_tensors(natural)

    def with_(tensors: Mapping[str, torch.Tensor]) -> Arguments:
        return pair(with_tensors(natural, source.writes.legal(tensors, own)))

    def reference(tensors: Mapping[str, torch.Tensor]) -> Any:
        with defined:
            answer = beyond_float32(oracle.in_float64_or_eager(with_(tensors)), kinds)
            return beyond_half(answer, oracle.eager(with_(tensors))) if has_halves else answer

    def eager(tensors: Mapping[str, torch.Tensor]) -> Any:
        with defined:
            return oracle.eager(with_(tensors))

    def exact(
        tensors: Mapping[str, torch.Tensor], /, steps: AbstractContextManager[Any] = _AS_THEY_ARE
    ) -> Any:
        arguments = with_(tensors)
        with steps:
            answer = oracle.in_float64_or_eager(arguments)
        return below_overflow(answer)

    @cache
    def elementwise() -> bool:
        return is_elementwise(named_tensors(natural), exact)

    if source.writes.along:
        called = partial(name_of_input, oracle.module, source.full)
        yield Dropped("repeats", source.writes.said(called))
    for at, name in enumerate(probes):
        moved = near = None
        if name == "natural":
            arguments = draw(source)
            if wanted is not None and not wanted(arguments):
                continue
        elif not applies(name, named_tensors(natural)):
            continue
        elif PROBE[name].planted:
            if not can_plant(name, named_tensors(natural)):
                continue
            fresh = named_tensors(draw(source))
            made = planted(
                name, fresh, literals, generator, eager, exact,
                scales=scale, elementwise=elementwise(), usual=usual,
                turn=next(turns) if name in _PATTERNED else 0,
                wanted=None if wanted is None else lambda made: wanted(with_(made)),
            )  # fmt: skip
            if isinstance(made, Dropped):
                # Of many patterns, some have no answer: what was not asked of them is no news.
                if name not in (*_PATTERNED, "beside_numbers", "ends"):
                    yield made
                continue
            arguments = with_(made.tensors)
            if name not in _AS_EXACT_AS_PROBES:
                moved, near = made.moved, made.near
        else:
            fresh = named_tensors(draw(source))
            probe = make_probe(name, fresh, generator, reference, usual=usual)
            if isinstance(probe, Dropped):
                yield probe
                continue
            arguments = with_(probe.tensors)
        try:
            if name != "natural" and oracle.order_of_writes_shows(arguments):
                yield Dropped(name, ORDER_SHOWS)
                continue
            trial = trial_on(oracle, source.name, name, arguments, scale, generator)
        except ProblemError:
            if name == "natural":
                raise
            # In float64 it was within the module's own limits.
            yield Dropped(name, "the reference refuses it")
            continue
        compared = replace(trial.compared, moved=moved, near=near, natural64=right)
        trial = replace(trial, compared=compared)
        if sequel is not None and at == 0:
            with suppress(ProblemError):
                another = partial(draw, source)
                trial = with_sequel(oracle, trial, scale, generator, sequel, another)
        yield trial


def _of_one_sign(
    weights: Mapping[str, torch.Tensor], parameters: Sequence[str]
) -> dict[str, torch.Tensor]:
    """Matrices without a negative element: their sums do not cancel, so that lost digits show."""
    chosen = set(parameters)
    return {
        name: in_each_part(torch.abs, tensor).to(tensor.dtype)
        if name in chosen and tensor.dim() > 1 and is_inexact(tensor)
        else tensor
        for name, tensor in weights.items()
    }
