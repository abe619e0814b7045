"""Proof that the kernels did the work: with what they store replaced by garbage, the result must be wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch

from kernelagent.tools.judge import compare
from kernelagent.tools.judge.candidate_process import Answer, CandidateProcess
from kernelagent.tools.judge.docket import Docket
from kernelagent.tools.judge.inputs import InputSource
from kernelagent.tools.judge.load import Arguments
from kernelagent.tools.judge.rejection import Rejected
from kernelagent.tools.judge.training import single_step
from kernelagent.tools.judge.trials import draw, fresh_seed
from kernelagent.tools.training_step import TrainingStep

_MOST_TRIALS = 12
"""Extra calls spent on finding launches that do not matter."""
_SAYS_NOTHING = frozenset(
    "timeout out_of_memory tampering forbidden_access calls_reference unverifiable".split()
)
"""Failures under knock-out that do not show that the kernels mattered."""


def knock_out(docket: Docket, process: CandidateProcess) -> dict[str, frozenset[int]]:
    """On `virtual`: require that the kernels matter; returns the launches of each set that do not.

    Launches are numbered in the order of one forward, in training of a forward and its backward. Raises `Rejected`.
    """
    process.command_executor({"kind": "mode", "mode": "poison"})
    require_wrong(docket, process)
    return {source.name: _idle(docket, process, source) for source in docket.sources}


def require_wrong(docket: Docket, process: CandidateProcess) -> None:
    """Raises `Rejected` when the result is right on any input set although no kernel's work arrives."""
    docket.oracle.use_weights(docket.oracle.given_weights)
    for source in docket.sources:
        for training in (False, True) if docket.trains else (False,):
            if _is_right(docket, process, source, training=training):
                what = "what a training step leaves" if training else "the result"
                raise Rejected(
                    "kernel_not_contributing",
                    f"{what} stays correct when everything the Triton kernels store is replaced by "
                    f"garbage, so their work does not reach the result",
                    {"input_set": source.name},
                )


def require_right_without_torch(docket: Docket, process: CandidateProcess) -> None:
    """Raises `Rejected` unless the forward is right with nothing computed by torch (policy `pure`)."""
    docket.oracle.use_weights(docket.oracle.given_weights)
    for source in docket.sources:
        arguments = draw(source, constant=docket.problem.constant_inputs)
        step = _step(docket, arguments) if docket.trains else None
        answer = process.call(arguments, step=step, forbidding=True)
        if not _passes(docket, source, arguments, answer, step):
            raise Rejected(
                "kernel_not_contributing",
                "the result is wrong where torch may compute nothing, as the policy pure has it",
                {"input_set": source.name},
            )


def _is_right(
    docket: Docket, process: CandidateProcess, source: InputSource, *, training: bool = False
) -> bool:
    arguments = draw(source, constant=docket.problem.constant_inputs)
    step = _step(docket, arguments) if training else None
    try:
        answer = process.call(arguments, step=step)
    except Rejected as broken:
        if broken.reason.code in _SAYS_NOTHING:
            raise
        return False
    return _passes(docket, source, arguments, answer, step)


def _step(docket: Docket, arguments: Arguments) -> TrainingStep:
    generator = torch.Generator().manual_seed(fresh_seed())
    return single_step(docket.oracle, arguments, generator)


def _passes(
    docket: Docket,
    source: InputSource,
    arguments: Arguments,
    answer: Answer,
    step: TrainingStep | None = None,
) -> bool:
    oracle = docket.oracle if step is None else docket.oracle.asking(step)
    expected = oracle.expect(arguments)
    scale = compare.scales_of(expected.output64)
    wanted = compare.Expected(expected.output, expected.output64, scale)
    found = compare.compare(answer.output, wanted, input_set=source.name, probe="knock-out")
    return found.passed


def _idle(docket: Docket, process: CandidateProcess, source: InputSource) -> frozenset[int]:
    def right_without(launches: Collection[int]) -> bool:
        process.take_launches()
        chosen = {"kind": "mode", "mode": "poison", "only": sorted(launches)}
        process.command_executor(chosen)
        return _is_right(docket, process, source, training=docket.trains)

    process.take_launches()
    process.command_executor({"kind": "mode", "mode": "execute"})
    arguments = draw(source, constant=docket.problem.constant_inputs)
    process.call(arguments, step=_step(docket, arguments) if docket.trains else None)
    count = len(process.take_launches())
    return without_effect(range(count), right_without) if count > 1 else frozenset()


def without_effect(
    launches: Collection[int], right_without: Callable[[Collection[int]], bool]
) -> frozenset[int]:
    """Launches whose loss changes nothing, by halving; those not reached in a few trials count as used.

    The loss of all `launches` is known to break the result. Two that stand in for each other are
    both used: the loss of everything that is returned is tried together.
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
