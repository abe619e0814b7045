"""One call of a candidate on one input set beside the reference: what differs, where, by how much.

A single comparison, by the same gate as the judge's: that it passes says nothing of other inputs. With
`--train` it is one forward with one backward, and every gradient is compared as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeGuard

import torch

from kernelagent.domain.replies.tool_calls import Difference, Probed
from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.calls.torch_dtypes import name_of
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.steps.steps import single_step
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.one_trial import trial_on
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.ulps import ulps_between
from kernelagent.tools.judge.verify.diagnosis.failure_context import Memory, refusal_of, words_of
from kernelagent.tools.judge.verify.diagnosis.gradients import as_watched, require_gradients
from kernelagent.tools.judge.verify.process.answers import Answer
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected, beyond_means


def probe(context: JudgeContext, start: Callable[[], CandidateProcess], input_set: str) -> Probed:
    """The comparison; a failing candidate is a value. Smaller sizes are tried where the device needs them."""
    while True:
        try:
            with start() as process:
                return _probed(context, process, input_set)
        except Rejected as refused:
            smaller = context.smaller if beyond_means(refused) else None
            if smaller is None:
                executed = context.executed_text(input_set)
                return Probed(input_set, executed, fault=refused.reason)
            context = smaller


def source_of(context: JudgeContext, name: str) -> InputSource | None:
    """The input set of that name, the first for an empty one."""
    if not name:
        return context.sources[0]
    return next((source for source in context.sources if source.name == name), None)


def _probed(context: JudgeContext, process: CandidateProcess, input_set: str) -> Probed:
    source = source_of(context, input_set)
    assert source is not None
    process.load()
    context.require_same_state(context.construct(process))
    weights = context.oracle.given_weights
    process.use_weights(weights)
    context.oracle.use_weights(weights)
    arguments = draw(source)
    trial = _trial(context, source.name, arguments)
    answer = process.call(arguments, step=trial.step)
    kernels = _launched(context, process, answer)
    if trial.step is not None:
        require_gradients(trial, answer.output)
        answer = replace(answer, output=as_watched(answer.output, trial.expected.output))
    comparison = compare.compare(
        answer.output, trial.compared, input_set=source.name, probe=trial.probe
    )
    fault = None
    if comparison.reason is not None:
        fault = refusal_of(comparison, trial, Memory()).reason
    executed = context.executed_text(source.name)
    differences = tuple(_differences(answer, trial, comparison))
    return Probed(
        source.name, executed, differences, kernels, fault, with_backward=trial.step is not None
    )


def _trial(context: JudgeContext, input_set: str, arguments: Arguments) -> Trial:
    """The reference's answer; with `--train` that of one step, for one random upstream gradient."""
    generator = torch.Generator().manual_seed(fresh_seed())
    oracle, step = context.oracle, None
    if context.trains:
        step = single_step(oracle, arguments, generator)
        oracle = oracle.asking(step)
    scale = compare.scales_of(oracle.in_float64_or_eager(arguments))
    trial = trial_on(oracle, input_set, "natural", arguments, scale, generator)
    return replace(trial, step=step)


def _launched(context: JudgeContext, process: CandidateProcess, answer: Answer) -> tuple[str, ...]:
    """The kernels of the call; raises `Rejected` where one of them failed."""
    if context.device.kind != "virtual":
        return tuple(row.kernel for row in answer.launches)
    rows = process.take_launches()
    for failure in [row["fault"] for row in rows if row.get("fault")] + process.failures:
        raise Rejected(failure["code"], failure["message"], failure.get("detail") or {})
    return tuple(str(row["kernel"]) for row in rows)


def _differences(
    answer: Answer, trial: Trial, comparison: compare.Comparison
) -> Iterator[Difference]:
    """Of each floating output that could be compared, the largest difference and what is allowed."""
    got = dict(compare.leaves(answer.output))
    exact = dict(compare.leaves(trial.compared.oracle64))
    words = words_of(trial)
    for case in comparison.cases:
        ours, right = got.get(case.output), exact.get(case.output)
        if not _floating(ours) or not _floating(right) or not right.numel():
            continue
        wide = torch.complex128 if ours.is_complex() else torch.float64
        distance = (ours.detach().cpu().to(wide) - right.detach().cpu().to(wide)).abs()
        distance = torch.where(distance.isnan(), math.inf, distance)
        place = int(distance.argmax())
        here = ours.detach().cpu().reshape(-1)[place].item()
        wanted = right.detach().cpu().reshape(-1)[place].item()
        yield Difference(
            output=words(case.output),
            dtype=name_of(ours.dtype),
            shape=tuple(ours.shape),
            worst=tuple(int(i) for i in torch.unravel_index(torch.tensor(place), ours.shape)),
            got=str(here),
            expected=str(wanted),
            ulps=None if ours.is_complex() else ulps_between(ours.dtype, here, wanted),
            rms_error=case.rms_error,
            rms_allowed=case.rms_budget,
            max_error=case.max_error,
            max_allowed=case.max_budget,
            within=case.passed,
        )


def _floating(value: Any) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and is_inexact(value)
