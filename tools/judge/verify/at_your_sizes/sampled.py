"""A sample of the candidate's programs on the user's own sizes, with contents: what they store is compared.

A few programs of a grid need little time at any size. They tell of a forward that is one launch: what a second
one reads, most programs of the first would have had to store.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_map_only

from kernelagent.domain.evaluation import Disclosure
from kernelagent.domain.serialization import from_data
from kernelagent.tools.calls.torch_dtypes import widened
from kernelagent.tools.judge.contribution.left_to_kernels import computing
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.problem.trials.trials import fresh_seed
from kernelagent.tools.judge.verify.at_your_sizes.larger_inputs import (
    FOR_A_PROBE,
    NATURAL,
    Affordable,
    Kind,
    Larger,
    LargerSizes,
    larger_inputs,
)
from kernelagent.tools.judge.verify.at_your_sizes.natural_trial import natural_trial, trial_at
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.right_answer import RightAnswer
from kernelagent.tools.judge.verify.compare.tolerance import UserTolerance
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.answers import Answer
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected, beyond_means
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts

_LEAST_STORED = 0.8
"""Share of fresh memory in a result below which stores of all programs cannot reach each element of it."""
_SAMPLES = 4
"""So many are drawn before that is believed: programs of one grid need not store alike."""
Part = Literal["none", "drawn"]
SAMPLED = "sampled_at_your_sizes"
_FAULTS = frozenset({"out_of_bounds", "misaligned", "runtime_error"})
"""What a launch that reads inputs alone does wrong at these sizes, whatever other programs do."""
_SURELY_STORED = 1 - 1e-9
"""From here on nothing hints at elements that no program stores. A last program that stores less than others and is among
those that ran stands for many: then the whole call is made."""
_IN_A_TURN: tuple[float, ...] = (32.0, 8.0, 2.0)
_AT_THE_END: tuple[float, ...] = (math.inf, 128.0, *_IN_A_TURN)
"""Work of the whole call, in seconds of the interpreter's: a sample of programs does a part of any."""
_BYTES_IN_A_TURN, _BYTES_AT_THE_END = 1e9, 4e9
"""That the reference's operations may read and write."""


@dataclass(frozen=True)
class Sampled:
    """What a sample of programs tells."""

    disclosure: Disclosure
    is_all: bool
    """Whether the programs together store as much as the result holds."""


def compared_by_sample(
    sizes: LargerSizes,
    start: Callable[[], CandidateProcess],
    findings: Findings,
    source: InputSource,
    *,
    kind: Kind,
) -> Sampled | None:
    """What was compared; raises `Rejected` where a program stored what is wrong.

    None where it cannot be: of several launches, beside operations of torch's, and where the reference takes too
    long or too much memory at these sizes.
    """
    works = _IN_A_TURN if sizes.in_a_turn or not kind.is_usual else _AT_THE_END
    most = FOR_A_PROBE
    if kind.is_usual:
        most = Affordable(_BYTES_IN_A_TURN if sizes.in_a_turn else _BYTES_AT_THE_END)
    given = larger_inputs(sizes, source, works, most=most, kind=kind)
    if given is None:
        return None
    context = sizes.context
    # What is asked of a probe's answer decides which inputs it has; of others it is asked once they are of use.
    trial = trial_at(context, given) if kind.is_probe else None
    if kind.is_probe and trial is None:
        return None
    arguments = given.draw() if trial is None else trial.arguments
    if arguments is None:
        return None
    with start() as process:
        return _compared(context, process, given, arguments, trial, findings)


def _compared(
    context: JudgeContext,
    process: CandidateProcess,
    given: Larger,
    arguments: Arguments,
    trial: Trial | None,
    findings: Findings,
) -> Sampled | None:
    """`trial`: on these arguments, where it is known."""
    where = given.where
    process.load()
    try:
        context.construct_at_full_size(process, given.oracle.module)
        process.use_weights(given.weights)
        before = _called(process, arguments, "none")
        if len(process.take_launches()) != 1:
            return None
        torch_rows = process.account(arguments, None, contents=True)
        process.take_launches()
    except Rejected:
        # On the host it may need what kernels would have written.
        return None
    if computing(torch_rows):
        return None
    # Before a fault is believed: what the reference refuses there is nobody's fault.
    trial = trial or natural_trial(context, given, arguments)
    if trial is None or _goes_on(trial):
        return None
    try:
        after = _called(process, arguments, "drawn")
    except Rejected as refused:
        rows = process.take_launches() if not beyond_means(refused) else []
        fault = rows[0].get("fault") if len(rows) == 1 else None
        if fault is None or fault["code"] not in _FAULTS:
            return None
        raise Rejected(
            fault["code"], f"{where}: {fault['message']}", fault.get("detail", {})
        ) from refused
    rows = process.launches_with_facts()
    if len(rows) != 1:
        return None
    facts = from_data(rows[0]["traffic"], TrafficFacts)
    if facts.atomics:
        return None
    fresh, wrong = _bytes_to_store(before.output, trial.expected.output)
    # Of what is alike few programs may have all the work: a sample tells nothing of the whole then.
    is_all = given.kind == NATURAL and _all_is_stored(
        process, where, arguments, facts, fresh, wrong
    )
    patched, stored = _where_stored(before.output, after.output, trial.expected.output)
    if not stored:
        return None
    tolerance = UserTolerance.of(context.settings)
    try:
        RightAnswer(findings, tolerance, None).require(trial, replace(after, output=patched))
    except REFUSALS:
        # Of the reference, which is asked again for the noise of what was refused.
        return None
    except Rejected as refused:
        raise Rejected(
            refused.reason.code,
            f"{where}, where a sample of its programs was run: {refused.reason.message}",
            {**refused.reason.detail, "at_your_sizes": True},
        ) from refused
    grid = math.prod(rows[0]["grid"])
    compared = (
        f"{facts.programs_run} of {grid} programs of `{rows[0]['kernel']}` were run on {where} as well, and the "
        f"{stored} elements that they stored are right"
    )
    return Sampled(Disclosure(SAMPLED, compared), is_all)


def _called(process: CandidateProcess, arguments: Arguments, part: Part) -> Answer:
    how = {"part": part, "seed": fresh_seed()}
    process.command_executor({"kind": "mode", "mode": "execute", **how})
    counted = {"bounds": True, "races": False, "traffic": part == "drawn"}
    process.command_executor({"kind": "observe", **counted})
    return process.call(arguments)


def _all_is_stored(
    process: CandidateProcess,
    where: str,
    arguments: Arguments,
    facts: TrafficFacts,
    fresh: int,
    wrong: int,
) -> bool:
    """Whether all programs together store as much as is not right without them; raises `Rejected` if far less than what is
    fresh memory."""
    stored = [facts.requested_store_bytes]
    while sum(stored) < _LEAST_STORED * fresh * len(stored) and len(stored) < _SAMPLES:
        process.take_launches()
        _called(process, arguments, "drawn")
        (row,) = process.launches_with_facts()
        stored.append(from_data(row["traffic"], TrafficFacts).requested_store_bytes)
    mean = sum(stored) / len(stored)
    if mean < _LEAST_STORED * fresh:
        raise Rejected(
            "wrong_output",
            f"{where} its programs store some {mean:,.0f} bytes in all, and {fresh:,} of what is returned is fresh "
            f"memory: a part of it is never written; look at the grid, which may be capped",
            {"at_your_sizes": True},
        )
    return mean >= _SURELY_STORED * wrong


def _bytes_to_store(before: Any, expected: Any) -> tuple[int, int]:
    """Bytes of a result that are not right where no program runs: those that hold what fresh memory is filled with, and all."""
    right = dict(compare.leaves(expected))
    fresh = wrong = 0
    for name, tensor in compare.leaves(before):
        wanted = right.get(name)
        if not _fits(wanted, tensor) or tensor.layout != torch.strided:
            continue
        assert isinstance(wanted, torch.Tensor)
        # What is expanded lies in memory once.
        once = tuple(slice(1) if not step else slice(None) for step in tensor.stride())
        own, wanted = tensor[once], wanted[once]
        size = tensor.element_size()
        if own.dtype.is_floating_point:
            ours, right_ones = widened(own), widened(wanted)
            unlike = (ours != right_ones) & ~(ours.isnan() & right_ones.isnan())
            fresh += int((ours.isnan() & ~right_ones.isnan()).sum()) * size
        else:
            unlike = (_bits(own) != _bits(wanted)).any(-1)
            if not own.dtype.is_complex and own.dtype != torch.bool:
                most = torch.iinfo(own.dtype).max
                fresh += int((unlike & (own == most)).sum()) * size
        wrong += int(unlike.sum()) * size
    return fresh, wrong


def _goes_on(trial: Trial) -> bool:
    """Whether a call of the reference leaves anything behind, from which a second one goes on."""
    expected = trial.expected
    return bool(expected.written or expected.left or expected.state64)


def _where_stored(before: Any, after: Any, expected: Any) -> tuple[Any, int]:
    """The answer, with the reference's own elements wherever no program stored anything, and how many were stored.

    An element was stored where a call with programs leaves other bits than one without any.
    """
    first, right = dict(compare.leaves(before)), dict(compare.leaves(expected))
    stored = 0
    patched: list[torch.Tensor] = []
    for name, tensor in compare.leaves(after):
        if not isinstance(tensor, torch.Tensor):
            continue
        if tensor.layout != torch.strided:
            return after, 0
        was, wanted = first.get(name), right.get(name)
        if not _fits(was, tensor) or not _fits(wanted, tensor):
            return after, 0
        assert isinstance(was, torch.Tensor)
        assert isinstance(wanted, torch.Tensor)
        other = (_bits(tensor) != _bits(was)).any(-1)
        stored += int(other.sum())
        patched.append(torch.where(other, tensor, wanted.to(tensor.device)))
    remaining = iter(patched)
    return tree_map_only(torch.Tensor, lambda _: next(remaining), after), stored


def _fits(one: Any, tensor: torch.Tensor) -> bool:
    return isinstance(one, torch.Tensor) and one.shape == tensor.shape and one.dtype == tensor.dtype


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Each element's bytes, along one more axis."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(*tensor.shape, 1).view(torch.uint8)
