"""Inputs with contents that are larger than those executed: the user's own, or as many rows as the reference can be asked for."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.tables.probes import PROBE
from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.judge.bounds.real_work import NEEDS_VALUES
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.memory_limit import memory_limit
from kernelagent.tools.judge.problem.memory_need import need_of
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.smaller_sizes import Sizes, inputs_without_contents, on_meta
from kernelagent.tools.judge.problem.trials.defined_writes import with_defined_writes
from kernelagent.tools.judge.problem.trials.input_domain import laid_out_like, observe
from kernelagent.tools.judge.problem.trials.inputs import (
    InputSource,
    input_sources,
    leading_dimension,
)
from kernelagent.tools.judge.problem.trials.interpreted_work import meta_twin
from kernelagent.tools.judge.problem.trials.one_trial import pair
from kernelagent.tools.judge.problem.trials.perturbed_state import perturbed_state
from kernelagent.tools.judge.problem.trials.planting.literals import NONE
from kernelagent.tools.judge.problem.trials.planting.planted import patterned_weights
from kernelagent.tools.judge.problem.trials.planting.planted_values import Reach
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed, with_an_answer
from kernelagent.tools.virtual.cost.eager import eager_rows

_BACKWARD = 3
"""A forward with its backward does so many times the work of a forward."""
_TURNS = 64
"""Of the structures each is as likely as any other."""
_IN_A_RANGE = ("integer", "observed")
"""The kinds of integers whose rows may be sorted and alike; offsets, permutations and masks have a form of their own."""
_KINDS_OF_ROWS = 8
_LARGER = 4
"""So many times the rows that were executed must be possible in a turn; at the end one more is enough."""


@dataclass(frozen=True)
class Affordable:
    """What the reference may do for one answer."""

    bytes: float
    """That its operations read and write."""
    operations: float = 4e10
    """Of its products, which torch computes here in fp32 and in float64: some seconds on two cores."""


FOR_A_PROBE = Affordable(5e8, 4e9)
"""The reference is asked some ten times what is known of its answer to a probe."""
_BY_THE_USER = ("natural", "batches")


@dataclass(frozen=True)
class Kind:
    """Which inputs, under which weights."""

    contents: str
    """`natural`; `batches`: integers and masks as batches have them (sorted, alike, padded); else the name of a probe."""
    weights: Literal["given", "random", "patterned"] = "given"

    @property
    def is_probe(self) -> bool:
        return self.contents not in _BY_THE_USER

    @property
    def is_usual(self) -> bool:
        """Whether the user's program has such inputs and weights; others are tried as far as there is time."""
        return not self.is_probe and self.weights == "given"

    def __str__(self) -> str:
        return self.contents if self.weights == "given" else f"{self.weights} weights"


NATURAL = Kind("natural")
BATCHES = Kind("batches")


@dataclass(frozen=True)
class Larger:
    """An input set as large as it is compared."""

    name: str
    where: str
    """In words, at which sizes."""
    oracle: Oracle
    """At these sizes, with the user's weights."""
    source: InputSource
    must_be_taken: bool
    """Whether all sizes are the user's own, or the rows are declared to change: else a candidate may raise."""
    kind: Kind
    weights: Mapping[str, torch.Tensor]

    def draw(self) -> Arguments | None:
        """With contents; None where there is no memory for them, or the user's function refuses."""
        try:
            arguments = draw(self.source)
            return self._structured(arguments) if self.kind == BATCHES else arguments
        except REFUSALS:
            return None

    def _structured(self, arguments: Arguments) -> Arguments:
        natural = {n: t for n, t in named_tensors(arguments).items() if _has_structure(t)}
        made = {name: laid_out_like(_structured(t), t) for name, t in natural.items()}
        return pair(with_tensors(arguments, self.source.writes.legal(made, natural)))


def has_structures(context: JudgeContext, source: InputSource) -> bool:
    """Whether any of its inputs are integers or masks."""
    drawn = named_tensors(draw(source))
    return any(map(_has_structure, drawn.values()))


def _has_structure(tensor: torch.Tensor) -> bool:
    strided = tensor.layout == torch.strided
    return strided and not is_inexact(tensor) and tensor.dim() > 0 and tensor.numel() > 1


def _structured(tensor: torch.Tensor) -> torch.Tensor:
    """Sorted numbers as often as all else: that is how a batch is put together by class or by length.

    Rows of integers have one structure each in turn, all the largest among them, which decides what counts and adds up.
    """
    generator = torch.Generator().manual_seed(fresh_seed())
    reach, turn = Reach("any", 1.0, NONE, generator), secrets.randbelow(_TURNS)
    if observe(tensor).kind not in _IN_A_RANGE:
        return reach.changed("structures", tensor, turn)
    if tensor.dim() == 1 or len(tensor) == 1:
        sorts = secrets.randbelow(2)
        return tensor.long().sort(-1).values if sorts else reach.changed("structures", tensor, turn)
    made = tensor.clone()
    kinds = min(len(tensor), _KINDS_OF_ROWS)
    order = secrets.SystemRandom().sample(range(kinds), kinds)
    for place, kind in enumerate(order):
        rows = tensor[kind::kinds]
        if place == 0:
            made[kind::kinds] = tensor.long().max().to(tensor.dtype)
        elif place % 2:
            made[kind::kinds] = rows.long().sort(-1).values.to(tensor.dtype)
        else:
            made[kind::kinds] = reach.changed("structures", rows, turn + kind)
    return made


@dataclass(frozen=True)
class Found:
    """An input set at sizes that the reference can be asked for, and the reference there, under the given weights."""

    source: InputSource
    oracle: Oracle


@dataclass(frozen=True)
class LargerSizes:
    """Finds such sizes, those of one input set and one limit once."""

    context: JudgeContext
    in_a_turn: bool
    _found: dict[tuple[str, tuple[float, ...], Affordable], Found | None] = field(
        default_factory=dict
    )
    _whole: list[Oracle] = field(default_factory=list)
    """The reference as the user's constructor builds it, where smaller ones are executed: one for all."""

    def found(
        self, source: InputSource, works: tuple[float, ...], most: Affordable
    ) -> Found | None:
        """The first that can be asked for; None where none is larger than what was executed.

        `works`: of the whole call, in seconds of the interpreter's. `most`: that the reference may do for one answer.
        """
        key = source.name, works, most
        if key not in self._found:
            self._found[key] = self._find(source, works, most)
        return self._found[key]

    def _find(
        self, source: InputSource, works: tuple[float, ...], most: Affordable
    ) -> Found | None:
        context = self.context
        problem, hollow = context.whole or context.problem, context.module_at_full_size
        device, scope = context.judge_device.torch_device, context.judge_device.scope
        executed = leading_dimension(draw(source)) or 0
        least = _LARGER * executed if self.in_a_turn else executed + 1
        for work in works:
            try:
                every = input_sources(problem, hollow, device, scope, may_shrink=True, share=work)
                whole = next(one for one in every if one.name == source.name)
                if whole.shrunk is not None and _keeps_its_rows(source):
                    continue
                inputs = inputs_without_contents(problem, scope, _sizes_of(whole))
                if inputs is None or not _is_affordable(context, inputs[source.name], most):
                    continue
            except (*NEEDS_VALUES, ProblemError):
                return None
            rows = leading_dimension(inputs[source.name]) or 0
            if context.whole is None and rows < least:
                return None
            try:
                oracle = self._reference()
                return Found(with_defined_writes(oracle, whole), oracle)
            except REFUSALS:
                return None
        return None

    def _reference(self) -> Oracle:
        context = self.context
        if context.whole is not None and not self._whole:
            device = context.judge_device
            self._whole.append(Oracle(context.whole, device.torch_device, device.scope))
        oracle = (self._whole[0] if self._whole else context.oracle).beside()
        oracle.use_weights(oracle.given_weights)
        return oracle


def larger_inputs(
    sizes: LargerSizes,
    source: InputSource,
    works: tuple[float, ...],
    *,
    most: Affordable,
    kind: Kind,
) -> Larger | None:
    """Of this kind; None where there are no larger sizes (`LargerSizes.found`), or no such weights."""
    found = sizes.found(source, works, most)
    if found is None:
        return None
    oracle, whole = found.oracle.beside(), found.source
    try:
        weights = _weights_of(kind, oracle, whole)
    except REFUSALS:
        return None
    if weights is None:
        return None
    where = f"input set {source.name!r} at your sizes"
    if whole.shrunk is not None:
        where = f"{where}, but {whole.shrunk}"
    if kind.weights != "given":
        where = f"{where}, under {kind}"
    if kind == BATCHES:
        where = f"{where}, integers and masks as batches have them"
    elif kind.is_probe:
        where = f"{where}, inputs {PROBE[kind.contents].description}"
    declared = sizes.context.dynamic.get(source.name, ())
    rows_change = any(axis == 0 for item in declared for _, axis in item.places)
    must_be_taken = whole.shrunk is None or rows_change
    return Larger(source.name, where, oracle, whole, must_be_taken, kind, weights)


def _weights_of(
    kind: Kind, oracle: Oracle, source: InputSource
) -> Mapping[str, torch.Tensor] | None:
    """Those that the oracle has from now on; None where there are no others, or the reference has no answer under them."""
    if kind.weights == "given":
        return oracle.given_weights
    names = [name for name, _ in oracle.module.named_parameters(remove_duplicate=False)]
    if not names:
        return None
    generator = torch.Generator().manual_seed(fresh_seed())
    if kind.weights == "random":
        tried = [perturbed_state(oracle.given_weights, names, generator).tensors]
    else:
        turn = secrets.randbelow(_TURNS)
        tried = patterned_weights(oracle.given_weights, names, generator, turn)
    chosen = with_an_answer(oracle, (source,), tried)
    oracle.use_weights(chosen)
    return None if chosen is oracle.given_weights else chosen


def _keeps_its_rows(source: InputSource) -> bool:
    """Whether all rows were executed: whole numbers in the inputs may count them."""
    return source.shrunk is not None and source.shrunk.now == source.shrunk.was


def _sizes_of(source: InputSource) -> Sizes:
    if source.shrunk is None:
        return Sizes()
    return Sizes(leading=(source.shrunk.was, source.shrunk.now))


def _is_affordable(context: JudgeContext, inputs: Arguments, most: Affordable) -> bool:
    """Whether the reference has an answer to these inputs in a few seconds, within the memory there is."""
    module = meta_twin(context.module_at_full_size)
    with context.judge_device.scope():
        args, kwargs = on_meta(inputs)
        rows = eager_rows(module, args, kwargs, context.device.target)
        need = need_of(module, inputs)
    times = _BACKWARD if context.trains else 1
    bytes_needed = 5 * need.weights + times * (
        6 * need.inputs + 10 * need.outputs + 3 * need.working
    )
    return (
        times * sum(row.dot_flops for row in rows) <= most.operations
        and times * sum(row.loaded_bytes + row.stored_bytes for row in rows) <= most.bytes
        and bytes_needed + need.columns <= memory_limit(context.settings)
    )
