"""Proof that the kernels did the work: with what they store replaced by garbage, the result must be wrong."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import torch

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.judge.contribution.hidden_values import (
    OnHiddenValues,
    require_right_on_hidden_values,
)
from kernelagent.tools.judge.contribution.integers import (
    has_integer_outputs,
    look_at_integers,
)
from kernelagent.tools.judge.contribution.provenance import SAYS_NOTHING, Provenance, look
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.expected import Expected
from kernelagent.tools.judge.problem.steps.steps import single_step
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.process.answers import Answer
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.virtual.cost.eager import EagerRow

_MOST_TRIALS = 12
"""Extra calls spent on finding launches that do not matter."""
_MOST_BEFORE = 3
"""Most ordinary calls up to the first knock-out; a random number of them hides which call it is."""


@dataclass(frozen=True)
class Evidence:
    """Of one input set: what the values say, and what torch computed in ordinary calls."""

    seen: Provenance | None
    calls: tuple[list[EagerRow], ...]
    """What torch computed in each ordinary call before the knock-out, the first of the process among them."""
    integers: tuple[str, ...] = ()
    """Outputs and operands whose integers something else than a kernel made."""

    @property
    def torch_rows(self) -> list[EagerRow]:
        """Of the last ordinary call, when a candidate has prepared what it prepares once."""
        return self.calls[-1]

    @property
    def foreign(self) -> tuple[str, ...]:
        """All that neither the caller nor a kernel made."""
        return (*(() if self.seen is None else self.seen.foreign), *self.integers)


@dataclass(frozen=True)
class KnockedOut:
    """Result of the knock-out test."""

    idle: dict[str, frozenset[int]]
    """Launches of each input set that change nothing, by their place in one forward (and its backward)."""
    evidence: dict[str, Evidence]
    hidden: dict[str, OnHiddenValues] = field(default_factory=dict)
    """Of the input sets in which something could be hidden."""

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        return tuple(item for seen in self.hidden.values() for item in seen.disclosures)


def require_kernels_matter(
    context: JudgeContext, process: CandidateProcess, source: InputSource, calls: int = 1
) -> Evidence:
    """Raises `Rejected` when the result is right although all that kernels stored was exchanged.

    `calls`: how many ordinary calls are made before. torch's operations are recorded in all of them, so that
    a candidate which counts its calls finds none in which it is not observed.
    """
    rows = tuple(process.account(draw(source), contents=True) for _ in range(calls))
    seen = look(context, process, source)
    idle = seen is not None and seen.right and seen.altered_bytes
    if idle and not _may_be_for_a_buffer_alone(context, source):
        raise Rejected(
            "kernel_not_contributing",
            "the result stays correct when everything the Triton kernels store is exchanged for "
            "other values, so their work does not reach the result",
            {"input_set": source.name},
        )
    if context.settings.policy == "pure" or has_integer_outputs(context, source):
        integers = look_at_integers(context, process, source)
        if integers is not None and integers.right and integers.altered_bytes:
            raise Rejected(
                "kernel_not_contributing",
                "the result stays correct when every integer the Triton kernels store is exchanged "
                "for another, so their work does not reach the result",
                {"input_set": source.name},
            )
        return Evidence(seen, rows, () if integers is None else integers.foreign)
    return Evidence(seen, rows)


def _may_be_for_a_buffer_alone(context: JudgeContext, source: InputSource) -> bool:
    """Whether floats that kernels store may go to buffers alone: the reference returns none, and a call changes its state."""
    oracle = context.oracle
    oracle.use_weights(oracle.given_weights)
    expected = oracle.expect(draw(source))
    leaves = [leaf for _, leaf in compare.leaves(expected.output)]
    floats = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and is_inexact(leaf)]
    return bool(expected.state64) and not floats


def knock_out(context: JudgeContext, process: CandidateProcess) -> KnockedOut:
    """On `virtual`: require that the kernels matter. Raises `Rejected`."""
    seen: dict[str, Evidence] = {}
    idle = {}
    hidden: dict[str, OnHiddenValues] = {}
    for source in context.sources_with_results:
        calls = 1 + secrets.randbelow(_MOST_BEFORE)
        seen[source.name] = require_kernels_matter(context, process, source, calls)
        repeated = require_right_on_hidden_values(context, process, source)
        if repeated is not None:
            hidden[source.name] = repeated
    process.command_executor({"kind": "mode", "mode": "poison"})
    require_wrong(context, process)
    for source in context.sources_with_results:
        idle[source.name] = _idle(context, process, source)
    return KnockedOut(idle, seen, hidden)


def require_wrong(context: JudgeContext, process: CandidateProcess) -> None:
    """Raises `Rejected` when the result is right on any input set although no kernel's work arrives."""
    context.oracle.use_weights(context.oracle.given_weights)
    for source in context.sources_with_results:
        for training in (False, True) if context.trains else (False,):
            if _is_right(context, process, source, training=training):
                what = "what a training step leaves" if training else "the result"
                raise Rejected(
                    "kernel_not_contributing",
                    f"{what} stays correct when everything the Triton kernels store is replaced by "
                    f"garbage, so their work does not reach the result",
                    {"input_set": source.name},
                )


def require_right_without_torch(context: JudgeContext, process: CandidateProcess) -> None:
    """Raises `Rejected` unless the forward is right with nothing computed by torch (policy `pure`)."""
    context.oracle.use_weights(context.oracle.given_weights)
    for source in context.sources_with_results:
        arguments = draw(source)
        step = _step(context, arguments) if context.trains else None
        answer = process.call(arguments, step=step, forbidding=True)
        if not _passes(source, answer, _expected(context, arguments, step)):
            raise Rejected(
                "kernel_not_contributing",
                "the result is wrong when torch may not compute anything (policy pure)",
                {"input_set": source.name},
            )


def _is_right(
    context: JudgeContext, process: CandidateProcess, source: InputSource, *, training: bool = False
) -> bool:
    arguments = draw(source)
    step = _step(context, arguments) if training else None
    expected = _expected(context, arguments, step)
    try:
        _begin_anew(context, process, expected)
        answer = process.call(arguments, step=step)
    except Rejected as broken:
        if broken.reason.code in SAYS_NOTHING:
            raise
        return False
    return _passes(source, answer, expected)


def _expected(context: JudgeContext, arguments: Arguments, step: TrainingStep | None) -> Expected:
    oracle = context.oracle if step is None else context.oracle.asking(step)
    return oracle.expect(arguments)


def _begin_anew(context: JudgeContext, process: CandidateProcess, expected: Expected) -> None:
    """Load the given weights where calls change them: what the one before has left there may be garbage.

    Nowhere else, since a candidate may launch more in the first call on weights, to pack them.
    """
    if expected.state64:
        process.use_weights(context.oracle.given_weights)


def _step(context: JudgeContext, arguments: Arguments) -> TrainingStep:
    generator = torch.Generator().manual_seed(fresh_seed())
    return single_step(context.oracle, arguments, generator)


def _passes(source: InputSource, answer: Answer, expected: Expected) -> bool:
    scale = compare.scales_of(expected.output64)
    wanted = compare.Expected(expected.output, expected.output64, scale)
    result = compare.compare(answer.output, wanted, input_set=source.name, probe="knock-out")
    return result.passed


def _idle(context: JudgeContext, process: CandidateProcess, source: InputSource) -> frozenset[int]:
    def right_without(launches: Collection[int]) -> bool:
        process.take_launches()
        chosen = {"kind": "mode", "mode": "alter", "only": sorted(launches)}
        process.command_executor({**chosen, "secret": fresh_seed(), "integers": True})
        return _is_right(context, process, source, training=context.trains)

    process.take_launches()
    process.command_executor({"kind": "mode", "mode": "execute"})
    arguments = draw(source)
    step = _step(context, arguments) if context.trains else None
    _begin_anew(context, process, _expected(context, arguments, step))
    process.call(arguments, step=step)
    count = len(process.take_launches())
    return without_effect(range(count), right_without) if count > 1 else frozenset()


def without_effect(
    launches: Collection[int], right_without: Callable[[Collection[int]], bool]
) -> frozenset[int]:
    """Launches whose loss changes nothing, by halving; those not reached in a few trials count as used.

    Poisoning all `launches` is known to break the result. Of two redundant launches both count as
    used: the result must stay right with all returned launches poisoned together.
    """
    idle: set[int] = set()
    waiting = [tuple(half) for half in _halves(tuple(launches))]
    for _ in range(_MOST_TRIALS - 1):
        if not waiting:
            break
        some = waiting.pop(0)
        if right_without(some):
            idle.update(some)
        elif len(some) > 1:
            waiting += _halves(some)
    return frozenset(idle) if idle and right_without(idle) else frozenset()


def _halves(launches: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    middle = len(launches) // 2
    return launches[:middle], launches[middle:]
