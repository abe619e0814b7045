"""Which counted call stands for the user's forward: a real one, or a compared one without contents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kernelagent.tools.calls.training_step import TrainingStep, take
from kernelagent.tools.judge.bounds.counted_calls import (
    CountedCall,
    Unsteady,
    computes_fewer,
    count_with_contents,
    count_without_contents,
    difference,
    grows_less,
)
from kernelagent.tools.judge.bounds.headroom import headroom_of
from kernelagent.tools.judge.bounds.moved_reference import rows_with_moved_reductions
from kernelagent.tools.judge.bounds.other_contents import on_other_contents
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.smaller_sizes import on_meta
from kernelagent.tools.judge.problem.steps.steps import step_without_contents
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.interpreted_work import meta_twin
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.virtual.cost.eager import EagerRow, eager_rows

Start = Callable[[], CandidateProcess]


NEEDS_VALUES = (RuntimeError, NotImplementedError, ValueError, TypeError)
"""What a reference raises that cannot do without contents."""


_WHATEVER_IT_HOLDS = frozenset({"compile_error", "out_of_resources"})
"""Refusals of a launch at the user's own sizes that no value of a tensor decides: a grid or a block is too large."""


class NotCounted(Exception):
    """Why the costs of the user's forward are not known, in words."""


def counted_calls(context: JudgeContext, start: Start, sample: int) -> dict[str, CountedCall]:
    """By input set, at the user's sizes. `start`: a process of the candidate, nothing loaded.

    `sample`: draws the programs of large grids that are counted.

    What was executed at the user's sizes is counted as it runs there. What was executed smaller is
    counted without contents, once its kernels have done the same with and without contents where
    they were executed. Raises `NotCounted`.
    """
    with start() as process:
        make_ready(context, process)
        real = {source.name: _real(context, process, source) for source in context.sources}
        for source in context.sources:
            call = real[source.name]
            dearer = on_other_contents(context, process, source, call.launches)
            real[source.name] = replace(call, dearer=dearer)
    smaller = [source for source in context.sources if source.shrunk is not None]
    if not smaller:
        return real
    with start() as process:
        make_ready(context, process)
        for source in smaller:
            _require_same_without_contents(context, process, source, real[source.name])
    with start() as process:
        if context.whole is None:
            make_ready(context, process)
        else:
            _built_at_full_size(context, process)
        full = {source.name: _at_full_size(context, process, source, sample) for source in smaller}
    for source in smaller:
        if real[source.name].dearer:
            raise NotCounted(
                f"smaller sizes were executed, and there the kernels do "
                f"{real[source.name].dearer[0].where} (input set {source.name!r})"
            )
        try:
            reference = executed_reference(context, source), reference_rows(context, source)
        except NEEDS_VALUES as error:
            raise NotCounted(reference_stops(source.name, error)) from error
        fewest = _fewest_bytes(context, source)
        why = grows_less(real[source.name], full[source.name], reference, fewest)
        if why is not None and (fewer := _with_known_algebra(context, source)) is not None:
            why = grows_less(real[source.name], full[source.name], fewer, fewest, at_least=True)
        if why is None:
            why = computes_fewer(real[source.name], full[source.name], reference)
        if why is not None:
            raise NotCounted(f"smaller sizes were executed (input set {source.name!r}), and {why}")
    return real | full


def make_ready(context: JudgeContext, process: CandidateProcess) -> None:
    """A loaded candidate and the reference, both with the weights that were given."""
    process.load()
    context.construct(process)
    process.use_weights(context.oracle.given_weights)
    # Verifying has left it with weights of its own.
    context.oracle.use_weights(context.oracle.given_weights)


def reference_rows(context: JudgeContext, source: InputSource) -> list[EagerRow]:
    """What torch computes in the reference at the user's sizes; raises what its forward raises."""
    step = step_at_full_size(context, source)
    return _rows(context, source.full, step, at_full_size=True)


def executed_reference(context: JudgeContext, source: InputSource) -> list[EagerRow]:
    """The same at the sizes that were executed."""
    arguments = _hollow(context, source)
    return _rows(context, arguments, _hollow_step(context, arguments), at_full_size=False)


def step_at_full_size(context: JudgeContext, source: InputSource) -> TrainingStep | None:
    """The training step that is counted without contents; None where a forward alone is."""
    return _hollow_step(context, source.full)


def _rows(
    context: JudgeContext, arguments: Arguments, step: TrainingStep | None, *, at_full_size: bool
) -> list[EagerRow]:
    module = meta_twin(context.module_at_full_size if at_full_size else context.oracle.module)
    with context.judge_device.scope():
        if step is None:
            return eager_rows(module, *arguments, context.device.target)
        return eager_rows(take, (module, arguments, step), {}, context.device.target)


def _with_known_algebra(
    context: JudgeContext, source: InputSource
) -> tuple[list[EagerRow], list[EagerRow]] | None:
    """Both counts of the reference with its reductions moved, which grow less; None where there is none to be moved."""
    if context.trains:
        return None
    twins = context.oracle.module, context.module_at_full_size
    given = _hollow(context, source), source.full
    with context.judge_device.scope():
        executed, full = (
            rows_with_moved_reductions(meta_twin(module), arguments, context.judge_device.ceilings)
            for module, arguments in zip(twins, given, strict=True)
        )
    return None if executed is None or full is None else (executed, full)


def _real(context: JudgeContext, process: CandidateProcess, source: InputSource) -> CountedCall:
    try:
        return count_with_contents(context, process, source)
    except Rejected as refused:
        raise NotCounted(
            f"while it is counted (input set {source.name!r}) the candidate stops: {_line(refused)}"
        ) from refused
    except Unsteady as unsteady:
        raise NotCounted(
            f"of two calls on the same inputs (input set {source.name!r}) one launches other kernels"
        ) from unsteady


def _require_same_without_contents(
    context: JudgeContext, process: CandidateProcess, source: InputSource, real: CountedCall
) -> None:
    arguments = _hollow(context, source)
    step = _hollow_step(context, arguments)
    hollow = _without_contents(process, source, arguments, step, sample=0, whole_grids=True)
    what = difference(real, hollow)
    if what is not None:
        raise NotCounted(
            f"smaller sizes were executed, and what is counted without contents is not what runs "
            f"(input set {source.name!r}): {what}"
        )


def _at_full_size(
    context: JudgeContext, process: CandidateProcess, source: InputSource, sample: int
) -> CountedCall:
    step = step_at_full_size(context, source)
    return _without_contents(process, source, source.full, step, sample=sample, whole_grids=False)


def _without_contents(
    process: CandidateProcess,
    source: InputSource,
    arguments: Arguments,
    step: TrainingStep | None,
    *,
    sample: int,
    whole_grids: bool,
) -> CountedCall:
    try:
        return count_without_contents(
            process, arguments, step, sample=sample, whole_grids=whole_grids
        )
    except Rejected as refused:
        at_full_size = not whole_grids
        if refused.reason.detail.get("wrapped") or (
            at_full_size and refused.reason.code in _WHATEVER_IT_HOLDS
        ):
            # No value that a tensor would have held can change it.
            where = f"at the user's own sizes (input set {source.name!r})"
            message = f"{where} {refused.reason.message}"
            raise Rejected(refused.reason.code, message, refused.reason.detail) from refused
        raise NotCounted(
            f"on tensors without contents (input set {source.name!r}) the candidate stops: "
            f"{_line(refused)}"
        ) from refused


def _built_at_full_size(context: JudgeContext, process: CandidateProcess) -> None:
    process.load()
    try:
        context.construct_at_full_size(process)
    except Rejected as refused:
        raise NotCounted(
            f"smaller sizes were executed, and at the user's own the candidate cannot be built on "
            f"tensors without contents: {_line(refused)}"
        ) from refused


def _fewest_bytes(context: JudgeContext, source: InputSource) -> tuple[int, int] | None:
    """What any kernel must move at the executed and at the user's sizes; None where that is not known."""
    if source.name not in context.headroom:
        return None
    args, kwargs = _hollow(context, source)
    with context.judge_device.scope():
        executed = headroom_of(context.oracle.module, args, kwargs, context.judge_device.ceilings)
    return executed.fewest_bytes, context.headroom[source.name].fewest_bytes


def _hollow(context: JudgeContext, source: InputSource) -> Arguments:
    arguments: Arguments = on_meta(draw(source))
    return arguments


def _hollow_step(context: JudgeContext, arguments: Arguments) -> TrainingStep | None:
    if not context.trains:
        return None
    with context.judge_device.scope():
        return step_without_contents(context.oracle, arguments)


def reference_stops(name: str, error: Exception) -> str:
    """In words, that the reference needs values."""
    return f"on tensors without contents (input set {name!r}) the reference stops: {_line(error)}"


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
