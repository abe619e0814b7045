"""Inputs with contents that are larger than those executed: the user's own, or as many rows as the reference can be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.judge.bounds.real_work import NEEDS_VALUES
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.memory_limit import memory_limit
from kernelagent.tools.judge.problem.memory_need import need_of
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.smaller_sizes import Sizes, inputs_without_contents, on_meta
from kernelagent.tools.judge.problem.trials.defined_writes import with_defined_writes
from kernelagent.tools.judge.problem.trials.inputs import (
    InputSource,
    input_sources,
    leading_dimension,
)
from kernelagent.tools.judge.problem.trials.interpreted_work import meta_twin
from kernelagent.tools.judge.problem.trials.probes import REFUSALS
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.virtual.cost.eager import eager_rows

_MOST_OPERATIONS = 4e10
"""Of the reference's products, which torch computes here in fp32 and in float64: some seconds on two cores."""
_BACKWARD = 3
"""A forward with its backward does so many times the work of a forward."""
_LARGER = 4
"""So many times the rows that were executed must be possible."""


@dataclass(frozen=True)
class Larger:
    """An input set as large as it is compared."""

    name: str
    where: str
    """In words, at which sizes."""
    oracle: Oracle
    """At these sizes, with the user's weights."""
    source: InputSource
    constant: bool
    """Whether there are example tensors only."""

    def draw(self) -> Arguments | None:
        """With contents; None where there is no memory for them, or the user's function refuses."""
        try:
            return draw(self.source, constant=self.constant)
        except REFUSALS:
            return None


def larger_inputs(
    context: JudgeContext,
    source: InputSource,
    works: Sequence[float],
    *,
    most_bytes: float,
) -> Larger | None:
    """The first of them that the reference can be asked for; None where none is larger than what was executed.

    `works`: of the whole call, in seconds of the interpreter's. `most_bytes`: that the reference's operations read and
    write.
    """
    problem, hollow = context.whole or context.problem, context.module_at_full_size
    device, scope = context.judge_device.torch_device, context.judge_device.scope
    constant = context.problem.constant_inputs
    executed = leading_dimension(draw(source, constant=constant)) or 0
    for work in works:
        try:
            every = input_sources(problem, hollow, device, scope, may_shrink=True, share=work)
            whole = next(one for one in every if one.name == source.name)
            if whole.shrunk is not None and _keeps_its_rows(source):
                continue
            inputs = inputs_without_contents(problem, scope, _sizes_of(whole))
            if inputs is None or not _is_affordable(context, inputs[source.name], most_bytes):
                continue
        except (*NEEDS_VALUES, ProblemError):
            return None
        rows = leading_dimension(inputs[source.name]) or 0
        if context.whole is None and rows < _LARGER * executed:
            return None
        try:
            oracle = context.oracle.beside()
            if context.whole is not None:
                oracle = Oracle(context.whole, device, scope)
            oracle.use_weights(oracle.given_weights)
            defined = with_defined_writes(oracle, whole)
        except REFUSALS:
            return None
        where = f"input set {source.name!r} at your sizes"
        if whole.shrunk is not None:
            where = f"{where}, but {whole.shrunk}"
        return Larger(source.name, where, oracle, defined, constant)
    return None


def _keeps_its_rows(source: InputSource) -> bool:
    """Whether all rows were executed: whole numbers in the inputs may count them."""
    return source.shrunk is not None and source.shrunk.now == source.shrunk.was


def _sizes_of(source: InputSource) -> Sizes:
    if source.shrunk is None:
        return Sizes()
    return Sizes(leading=(source.shrunk.was, source.shrunk.now))


def _is_affordable(context: JudgeContext, inputs: Arguments, most_bytes: float) -> bool:
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
        times * sum(row.dot_flops for row in rows) <= _MOST_OPERATIONS
        and times * sum(row.loaded_bytes + row.stored_bytes for row in rows) <= most_bytes
        and bytes_needed + need.columns <= memory_limit(context.settings)
    )
