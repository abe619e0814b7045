"""A sample of the candidate's programs on the user's own sizes, with contents: what they store is compared.

Where smaller sizes were executed, a kernel may be right there and wrong at the user's: a grid that is cut
off, a loop that was one round, a branch for large sizes, offsets beyond 32 bits. A few programs of a grid need
little time at any size. They tell of a forward that is one launch: what a second one reads, most programs of
the first would have had to store.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from kernelagent.domain.evaluation import Disclosure
from kernelagent.domain.serialization import from_data
from kernelagent.tools.judge.bounds.real_work import NEEDS_VALUES, reference_rows
from kernelagent.tools.judge.contribution.left_to_kernels import computing
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.memory_limit import memory_limit
from kernelagent.tools.judge.problem.memory_need import need_of
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.inputs import InputSource, input_sources
from kernelagent.tools.judge.problem.trials.one_trial import trial_on
from kernelagent.tools.judge.problem.trials.probes import REFUSALS
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.right_answer import RightAnswer
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.answers import Answer
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected, beyond_means
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts

_MOST_OPERATIONS = 4e10
"""Of the reference's products, which torch computes here in fp32 and in float64: some seconds on two cores."""
_MOST_BYTES = 3e9
"""That its operations read and write."""
_LEAST_STORED = 0.9
"""Share of an output's bytes below which stores of all programs cannot reach each element; edges are counted in part."""
Part = Literal["none", "drawn"]


@dataclass(frozen=True)
class _AtFullSize:
    """An input set as the user has it, with contents."""

    source: InputSource
    oracle: Oracle
    arguments: Arguments


def compare_at_your_sizes(
    context: JudgeContext,
    start: Callable[[], CandidateProcess],
    findings: Findings,
    step: Callable[[str], AbstractContextManager[Any]],
) -> tuple[Disclosure, ...]:
    """What was compared, by input set; raises `Rejected` where a program stored what is wrong.

    Nothing where it cannot be: on a GPU, of a training step, of several launches, beside operations of torch's, where
    programs wait for one another, and where the reference takes too long or too much memory at these sizes.
    """
    smaller = [source for source in context.sources if source.shrunk is not None]
    if context.device.kind != "virtual" or context.trains or findings.order_matters or not smaller:
        return ()
    told = []
    for source in smaller:
        given = _at_full_size(context, source)
        if given is None:
            continue
        with step("your sizes"), start() as process:
            compared = _compared(context, process, given, findings)
        if compared is not None:
            told.append(Disclosure("sampled_at_your_sizes", compared))
    return tuple(told[:1])


def _at_full_size(context: JudgeContext, source: InputSource) -> _AtFullSize | None:
    """None where the reference needs too much there."""
    problem = context.whole or context.problem
    try:
        rows = reference_rows(context, source)
        with context.judge_device.scope():
            need = need_of(context.module_at_full_size, source.full)
    except NEEDS_VALUES:
        return None
    if sum(row.dot_flops for row in rows) > _MOST_OPERATIONS:
        return None
    if sum(row.loaded_bytes + row.stored_bytes for row in rows) > _MOST_BYTES:
        return None
    if need.total > memory_limit(context.settings):
        return None
    device, scope = context.judge_device.torch_device, context.judge_device.scope
    oracle = context.oracle.beside()
    if context.whole is not None:
        oracle = Oracle(context.whole, device, scope)
    oracle.use_weights(oracle.given_weights)
    every = input_sources(problem, oracle.module, device, scope, may_shrink=False)
    whole = next(one for one in every if one.name == source.name)
    return _AtFullSize(source, oracle, draw(whole, constant=context.problem.constant_inputs))


def _compared(
    context: JudgeContext, process: CandidateProcess, given: _AtFullSize, findings: Findings
) -> str | None:
    """In words what was compared; None where nothing can be."""
    where = f"input set {given.source.name!r} at your sizes"
    process.load()
    try:
        context.construct_with_contents(process, given.oracle.module)
        process.use_weights(given.oracle.given_weights)
        before = _called(process, given, "none")
        process.take_launches()
        after = _called(process, given, "drawn")
        rows = process.launches_with_facts()
        torch_rows = process.account(given.source.full, None)
    except Rejected as refused:
        begun = process.take_launches() if process.answers else []
        if beyond_means(refused) or len(begun) != 1 or refused.reason.code not in _FAULTS:
            return None
        message = f"{where}: {refused.reason.message}"
        raise Rejected(refused.reason.code, message, refused.reason.detail) from refused
    if len(rows) != 1 or computing(torch_rows):
        return None
    facts = from_data(rows[0]["traffic"], TrafficFacts)
    if facts.atomics:
        return None
    _all_is_stored(rows[0], facts, given, where)
    trial = _trial(given)
    if trial is None:
        return None
    patched, stored = _where_stored(before.output, after.output, trial.expected.output)
    if not stored:
        return None
    try:
        RightAnswer(findings, None, None).require(trial, replace(after, output=patched))
    except Rejected as refused:
        raise Rejected(
            refused.reason.code,
            f"{where}, where a sample of its programs was run: {refused.reason.message}",
            {**refused.reason.detail, "at_your_sizes": True},
        ) from refused
    grid = math.prod(rows[0]["grid"])
    return (
        f"{facts.programs_run} of {grid} programs of `{rows[0]['kernel']}` were run on {where} as well, and the "
        f"{stored} elements that they stored are right"
    )


_FAULTS = frozenset({"out_of_bounds", "misaligned", "runtime_error"})
"""What a launch that reads inputs alone does wrong at these sizes, whatever other programs do."""


def _called(process: CandidateProcess, given: _AtFullSize, part: Part) -> Answer:
    how = {"part": part, "seed": fresh_seed()}
    process.command_executor({"kind": "mode", "mode": "execute", **how})
    counted = {"bounds": True, "races": False, "traffic": part == "drawn"}
    process.command_executor({"kind": "observe", **counted})
    return process.call(given.arguments)


def _all_is_stored(
    row: dict[str, Any], facts: TrafficFacts, given: _AtFullSize, where: str
) -> None:
    """Raises `Rejected` where all programs together store fewer bytes than the output has."""


def _trial(given: _AtFullSize) -> Trial | None:
    generator = torch.Generator().manual_seed(fresh_seed())
    try:
        scale = compare.scales_of(given.oracle.in_float64_or_eager(given.arguments))
        return trial_on(
            given.oracle, given.source.name, "natural", given.arguments, scale, generator
        )
    except REFUSALS:
        return None


def _where_stored(before: Any, after: Any, expected: Any) -> tuple[Any, int]:
    """The answer, with the reference's own elements wherever no program stored anything, and how many were stored.

    An element was stored where a call with programs leaves other bits than one without any.
    """
    first, right = dict(compare.leaves(before)), dict(compare.leaves(expected))
    stored = 0
    patched: dict[int, torch.Tensor] = {}
    for name, tensor in compare.leaves(after):
        if not isinstance(tensor, torch.Tensor):
            continue
        was, wanted = first.get(name), right.get(name)
        if not _fits(was, tensor) or not _fits(wanted, tensor):
            return after, 0
        other = (_bits(tensor) != _bits(was)).any(-1)
        stored += int(other.sum())
        patched[id(tensor)] = torch.where(other, tensor, wanted.to(tensor.device))
    return _exchanged(after, patched), stored


def _fits(one: Any, tensor: torch.Tensor) -> bool:
    return isinstance(one, torch.Tensor) and one.shape == tensor.shape and one.dtype == tensor.dtype


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Each element's bytes, along one more axis."""
    flat = tensor.detach().contiguous()
    return flat.view(torch.uint8).reshape(*tensor.shape, tensor.element_size())
