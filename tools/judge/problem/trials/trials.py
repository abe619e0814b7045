"""Which calls a candidate is judged on: secret draws and probes, under given and random weights.

Everything is drawn anew for each candidate from the operating system's randomness; a candidate
sees a sequence of calls and reloads, and cannot tell which of them decide.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_map_only

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.tables.probes import AT_THE_END, PROBE, names_in
from kernelagent.tools.calls.torch_dtypes import RANGE_OF_FLOAT32
from kernelagent.tools.judge.problem.dynamic import Dynamic, hidden
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.conditioning import noise_on_demand
from kernelagent.tools.judge.problem.reference.conversions import defined_as_in
from kernelagent.tools.judge.problem.reference.near_ties import near_ties_on_demand
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.reference.reached import reached
from kernelagent.tools.judge.problem.trials.input_domain import (
    fresh_like,
    laid_out_like,
    observe,
    repeated_like,
)
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.lasting_answers import is_known
from kernelagent.tools.judge.problem.trials.literals import NONE, Literals
from kernelagent.tools.judge.problem.trials.planted import (
    can_plant,
    is_elementwise,
    patterned_weights,
    planted,
    planted_weights,
)
from kernelagent.tools.judge.problem.trials.probes import (
    REFUSALS,
    Dropped,
    applies,
    fresh_inputs,
    make_probe,
    named_tensors,
    perturbed_state,
    share_nonfinite,
    with_tensors,
)
from kernelagent.tools.judge.problem.trials.rounds import Round, Trial, in_rounds
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.ties import index_rule, other_choices

_SEEDS = 1 << 62
_AS_THEY_ARE = nullcontext()
_NEARLY_INFINITE = 1e30
"""Probes with larger float32 or bfloat16 outputs are weakened or dropped: an intermediate may overflow."""
_NUDGED = 0.1
"""Share of the elements that are drawn anew where nearly everything stays as it was."""
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
Sequel = Literal["nudged", "nudged in place", "rearranged"]
_SEQUELS_IN: dict[int, Sequel] = {0: "nudged", 1: "nudged in place", 3: "rearranged"}
"""The rounds in which one call is followed by another with nearly the same inputs, or the same in other places."""
_PATTERNED = ("row_patterns", "structures")
_FEEDS_BACK_IN = 1
_HIDDEN_SIZES_IN = 1
"""The round of the plan that also tries dynamic dimensions at hidden sizes."""


def fresh_seed() -> int:
    """From the operating system; never derived from another seed."""
    return secrets.randbelow(_SEEDS)


def draw(source: InputSource, *, constant: bool, seed: Callable[[], int] = fresh_seed) -> Arguments:
    """One natural draw; where there are only example tensors, fresh ones of the same kind."""
    arguments = source.draw(seed())
    if not constant:
        return arguments
    generator = torch.Generator().manual_seed(seed())
    return _pair(with_tensors(arguments, fresh_inputs(named_tensors(arguments), generator)))


@in_rounds
def rounds(
    oracle: Oracle,
    sources: tuple[InputSource, ...],
    dynamic: Mapping[str, tuple[Dynamic, ...]],
    *,
    constant: bool,
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
        if kind == "planted":
            tried = planted_weights(oracle.given_weights, parameters, literals, generator)
            weights = with_an_answer(oracle, sources, tried, constant=constant)
        if kind == "patterned":
            tried = patterned_weights(oracle.given_weights, parameters, generator, next(of_weights))
            weights = with_an_answer(oracle, sources, tried, constant=constant)
        if moves:
            drawn = [draw(source, constant=constant) for source in sources for _ in range(2)]
            weights, _ = reached(oracle, weights, drawn, number)
        oracle.use_weights(weights)
        trials: list[Trial] = []
        dropped: list[Dropped] = []
        refused: list[str] = []
        for source in sources:
            sequel = _SEQUELS_IN.get(number)
            for made in _of_source(
                oracle, source, probes, generator, literals, turns, constant=constant, sequel=sequel
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
                    answered = _at_other_sizes(oracle, other, generator, constant=constant)
                    if answered is None:
                        refused.append(other.name)
                    else:
                        trials.append(answered)
                        yield answered
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
    constant: bool,
) -> Mapping[str, torch.Tensor]:
    """The first weights under which the reference has an answer; else the given ones."""
    oracle.use_weights(oracle.given_weights)
    usual = [draw(source, constant=constant) for source in sources]
    defined = defined_as_in(lambda: [oracle.eager(arguments) for arguments in usual])
    for weights in tried:
        oracle.use_weights(weights)
        try:
            natural = [draw(source, constant=constant) for source in sources]
            with defined:
                answers = [oracle.eager(a) for a in natural]
            exact = [oracle.in_float64_or_eager(a) for a in natural]
        except REFUSALS:
            continue
        if share_nonfinite(answers) == 0 and is_known(answers, exact, answers, {}):
            return weights
    return oracle.given_weights


def trial_on(
    oracle: Oracle,
    input_set: str,
    probe: str,
    arguments: Arguments,
    natural_rms: Mapping[str, float],
    generator: torch.Generator,
) -> Trial:
    """The reference's answer to one call under the weights in use."""
    expected = oracle.expect(arguments)
    tensors = named_tensors(arguments) | state_tensors(oracle.weights)
    reference = reference_by_name(oracle, arguments)
    compared = compare.Expected(
        eager=expected.output,
        oracle64=expected.output64,
        natural_rms=natural_rms,
        index_ok=index_rule(oracle, arguments),
        otherwise=other_choices(oracle, arguments),
        measure_noise=noise_on_demand(reference, tensors, expected.output64, generator),
        by_slices=probe == "natural",
    )
    state_noise = noise_on_demand(
        _state_by_name(oracle, arguments, tuple(expected.state64)),
        tensors,
        dict(expected.state64),
        generator,
    )
    ties = near_ties_on_demand(reference, tensors, expected.output64, generator)
    return Trial(
        input_set, probe, arguments, expected, compared, reference, state_noise=state_noise,
        near_ties=ties if expected.in_float64 else None,
    )  # fmt: skip


STATE = "state."
"""Stands before the name of a parameter or buffer where it is named beside arguments."""


def state_tensors(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights under names that no argument has."""
    return {STATE + name: tensor for name, tensor in weights.items()}


def reference_by_name(
    oracle: Oracle, arguments: Arguments
) -> Callable[[Mapping[str, torch.Tensor]], Any]:
    """The float64 reference as a function of named inputs and weights; what is not named is kept."""
    in_use = oracle.weights

    def answer(tensors: Mapping[str, torch.Tensor]) -> Any:
        weights = {name: tensors.get(STATE + name, tensor) for name, tensor in in_use.items()}
        return oracle.with_weights(weights, _pair(with_tensors(arguments, tensors)))

    return answer


def _state_by_name(
    oracle: Oracle, arguments: Arguments, entries: tuple[str, ...]
) -> Callable[[Mapping[str, torch.Tensor]], Any]:
    """The same of what it leaves in these entries of its state."""
    in_use = oracle.weights

    def left(tensors: Mapping[str, torch.Tensor]) -> Any:
        weights = {name: tensors.get(STATE + name, tensor) for name, tensor in in_use.items()}
        given = _pair(with_tensors(arguments, tensors))
        return oracle.state_with_weights(weights, given, entries)

    return left


def _at_other_sizes(
    oracle: Oracle, source: InputSource, generator: torch.Generator, *, constant: bool
) -> Trial | None:
    """None where the reference refuses these sizes."""
    try:
        scale = compare.scales_of(oracle.in_float64_or_eager(draw(source, constant=constant)))
        arguments = draw(source, constant=constant)
        made = trial_on(oracle, source.name, "natural", arguments, scale, generator)
    except REFUSALS:
        return None
    return replace(made, hidden=True)


def _of_source(
    oracle: Oracle,
    source: InputSource,
    probes: tuple[str, ...],
    generator: torch.Generator,
    literals: Literals,
    turns: Iterator[int],
    *,
    constant: bool,
    sequel: Sequel | None,
) -> Iterator[Trial | Dropped]:
    natural = draw(source, constant=constant)
    right = oracle.in_float64_or_eager(natural)
    scale, usual = compare.scales_of(right), share_nonfinite(right)
    given: list[Any] = []
    defined = defined_as_in(lambda: given.append(oracle.eager(natural)))
    kinds = {n: t.dtype for n, t in compare.leaves(given[0]) if _has_range_of_float32(t)}

    def reference(tensors: Mapping[str, torch.Tensor]) -> Any:
        with defined:
            answer = oracle.in_float64_or_eager(_pair(with_tensors(natural, tensors)))
        return _beyond_float32(answer, kinds)

    def eager(tensors: Mapping[str, torch.Tensor]) -> Any:
        with defined:
            return oracle.eager(_pair(with_tensors(natural, tensors)))

    def exact(
        tensors: Mapping[str, torch.Tensor], /, steps: AbstractContextManager[Any] = _AS_THEY_ARE
    ) -> Any:
        arguments = _pair(with_tensors(natural, tensors))
        with steps:
            answer = oracle.in_float64_or_eager(arguments)
        return below_overflow(answer)

    @cache
    def elementwise() -> bool:
        return is_elementwise(named_tensors(natural), exact)

    for at, name in enumerate(probes):
        moved = near = None
        if name == "natural":
            arguments = draw(source, constant=constant)
        elif not applies(name, named_tensors(natural)):
            continue
        elif PROBE[name].planted:
            if not can_plant(name, named_tensors(natural)):
                continue
            fresh = named_tensors(draw(source, constant=constant))
            made = planted(
                name, fresh, literals, generator, eager, exact,
                scales=scale, elementwise=elementwise(), nonfinite_share=usual,
                turn=next(turns) if name in _PATTERNED else 0,
            )  # fmt: skip
            if isinstance(made, Dropped):
                # Of many patterns, some have no answer: what was not asked of them is no news.
                if name not in (*_PATTERNED, "beside_numbers"):
                    yield made
                continue
            arguments = _pair(with_tensors(natural, made.tensors))
            moved, near = made.moved, made.near
        else:
            fresh = named_tensors(draw(source, constant=constant))
            probe = make_probe(name, fresh, generator, reference, nonfinite_share=usual)
            if isinstance(probe, Dropped):
                yield probe
                continue
            arguments = _pair(with_tensors(natural, probe.tensors))
        try:
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
                trial = _with_sequel(oracle, trial, scale, generator, sequel)
        yield trial


def _has_range_of_float32(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dtype in RANGE_OF_FLOAT32


def _beyond_float32(answer: Any, names: Collection[str]) -> Any:
    """The float64 answer, infinite where float32 intermediates may well overflow on the way to it."""
    result = dict(compare.leaves(answer))
    return [
        torch.where(leaf.abs() > _NEARLY_INFINITE, torch.inf, leaf) if name in names else leaf
        for name, leaf in result.items()
        if isinstance(leaf, torch.Tensor)
    ]


def below_overflow(answer: Any) -> Any:
    """The same tree, infinite where an intermediate in float32 may well overflow on the way to it."""
    return tree_map_only(
        torch.Tensor,
        lambda t: (
            torch.where(t.abs() > _NEARLY_INFINITE, torch.inf, t) if t.is_floating_point() else t
        ),
        answer,
    )


def _with_sequel(
    oracle: Oracle,
    trial: Trial,
    scale: Mapping[str, float],
    generator: torch.Generator,
    sequel: Sequel,
) -> Trial:
    """Nothing is loaded in between, so the reference goes on from the state it left."""
    start = oracle.weights
    oracle.use_weights(trial.expected.state)
    fresh = named_tensors(trial.arguments)
    changed = (
        rearranged(fresh, generator) if sequel == "rearranged" else nudged(fresh, fresh, generator)
    )
    arguments = _pair(with_tensors(trial.arguments, changed))
    try:
        then = trial_on(oracle, trial.input_set, trial.probe, arguments, scale, generator)
    finally:
        oracle.use_weights(start)
    return replace(trial, then=replace(then, in_place=sequel == "nudged in place"))


def nudged(
    tensors: Mapping[str, torch.Tensor], names: Iterable[str], generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """Redraw some elements of the named floating tensors, never the first, which a cache key may be built from."""
    changed = dict(tensors)
    for name in names:
        tensor = tensors[name]
        if not tensor.is_floating_point() or tensor.numel() < 2:
            continue
        fresh = fresh_like(tensor, generator)
        if torch.equal(fresh, tensor):
            # Redrawing a constant tensor gives the same values.
            fresh = perturbed_state({name: tensor}, (name,), generator).tensors[name]
        some = torch.rand(tensor.numel(), generator=generator) < _NUDGED
        some[torch.randint(1, tensor.numel(), (1,), generator=generator)] = True
        some[0] = False
        where = some.reshape(tensor.shape).to(tensor.device)
        changed[name] = repeated_like(torch.where(where, fresh, tensor), tensor)
    return changed


def rearranged(
    tensors: Mapping[str, torch.Tensor], generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """The same numbers in other places, but for the first: sums and extremes, which a cache key may be, stay."""
    changed = dict(tensors)
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or tensor.numel() < 2:
            continue
        # Rows of probabilities, masks and the like would be none any more.
        if observe(tensor).kind not in ("real", "positive"):
            continue
        order = 1 + torch.randperm(tensor.numel() - 1, generator=generator)
        flat = tensor.detach().reshape(-1)
        moved = torch.cat([flat[:1], flat[order.to(tensor.device)]]).reshape(tensor.shape)
        changed[name] = laid_out_like(moved, tensor)
    return changed


def _of_one_sign(
    weights: Mapping[str, torch.Tensor], parameters: Sequence[str]
) -> dict[str, torch.Tensor]:
    """Matrices without a negative element: their sums do not cancel, so that lost digits show."""
    chosen = set(parameters)
    return {
        name: tensor.abs()
        if name in chosen and tensor.dim() > 1 and tensor.is_floating_point()
        else tensor
        for name, tensor in weights.items()
    }


def _pair(value: Any) -> Arguments:
    args, kwargs = value
    return args, kwargs
