"""Where a result came from, decided by its values alone and not by what the candidate reports.

In two calls on marked inputs (`virtual.provenance.marking`) the executor exchanges what kernels stored for other,
marked values. Everything that copies inputs and kernels' results stays marked; what torch, numpy, a
thread or an operator of the candidate's own computed does not, and is found among the kernels'
operands or in the output. The calls look like all others to the candidate.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.process.answers import Answer
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.virtual.provenance.marking import MARKED, Marks

_BUFFERS_IN_TURN = 3
"""Calls made before looking: a candidate may rotate this many buffers without old data in them being flagged."""
_FAR = 0.01
"""Mean square of a difference, of the values' own."""


@dataclass(frozen=True)
class Provenance:
    """What two marked calls showed of one input set."""

    altered_bytes: int
    """What the kernels stored and was exchanged, in the first call."""
    right: bool
    """The output stayed right although every floating value that kernels stored was replaced."""
    operands: tuple[str, ...]
    """Operands of kernels that something else computed, as `kernel.argument`."""
    outputs: tuple[str, ...]
    """Outputs that something else computed from what kernels stored, or without it."""
    outputs_seen: bool
    """Whether an output could be looked at: floating, and different in the two calls."""

    @property
    def foreign(self) -> tuple[str, ...]:
        return (*self.operands, *self.outputs)


def look(
    context: JudgeContext, process: CandidateProcess, source: InputSource
) -> Provenance | None:
    """Two calls on marked inputs, after some that are not looked at; None where the inputs hold nothing to mark or the forward stops.

    The weights are the given ones. Raises `Rejected` for what the process itself does wrong.
    """
    marks = Marks(secrets.randbits(62))
    first = _marked(draw(source), marks)
    second = _with_floats_of(first, _marked(draw(source), marks))
    altering = {"kind": "mode", "mode": "alter", "secret": marks.secret, "integers": False}
    process.take_launches()
    process.command_executor(altering)
    try:
        # What a candidate keeps from call to call, such as buffers in turn, holds exchanged values after these.
        for _ in range(_BUFFERS_IN_TURN):
            process.use_weights(context.oracle.given_weights)
            process.call(first)
        process.command_executor(altering)
        answers, rows = [], []
        for arguments in (first, second):
            process.use_weights(context.oracle.given_weights)
            process.take_launches()
            answers.append(process.call(arguments))
            rows.append(process.take_launches())
    except Rejected as broken:
        if broken.reason.code in SAYS_NOTHING:
            raise
        # Replaced values may make a forward fail in any way; that it failed shows that they matter.
        return None
    finally:
        process.command_executor({"kind": "mode", "mode": "execute"})
    outputs, seen = _foreign_outputs(answers, marks)
    return Provenance(
        altered_bytes=_altered(rows[0]),
        right=_passes(context, source, first, answers[0].output)
        and not _passes_for_another(context, source, first),
        operands=tuple(
            dict.fromkeys(
                f"{row['kernel']}.{name}"
                for row in rows[1]
                for name in row.get("altered", {}).get("foreign", [])
            )
        ),
        outputs=outputs,
        outputs_seen=seen,
    )


SAYS_NOTHING = frozenset(
    "timeout out_of_memory tampering forbidden_access calls_reference unverifiable".split()
)
"""Failures under knock-out that do not show that the kernels mattered."""


def _altered(rows: list[dict[str, Any]]) -> int:
    return sum(int(row.get("altered", {}).get("altered_bytes", 0)) for row in rows)


def _marked(arguments: Arguments, marks: Marks) -> Arguments:
    tensors = {
        name: marks.mark(tensor).as_strided(tensor.shape, tensor.contiguous().stride())
        if tensor.dtype in MARKED
        else tensor
        for name, tensor in named_tensors(arguments).items()
    }
    laid_out = {
        name: _like(tensor, named_tensors(arguments)[name]) for name, tensor in tensors.items()
    }
    args, kwargs = with_tensors(arguments, laid_out)
    return args, kwargs


def _like(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    from kernelagent.tools.judge.problem.trials.input_domain import laid_out_like

    return values if values is like else laid_out_like(values, like)


def _with_floats_of(first: Arguments, second: Arguments) -> Arguments:
    """The first's integers and masks with the second's floating values."""
    floats: Mapping[str, torch.Tensor] = {
        name: tensor for name, tensor in named_tensors(second).items() if tensor.dtype in MARKED
    }
    args, kwargs = with_tensors(first, floats)
    return args, kwargs


def _foreign_outputs(answers: list[Answer], marks: Marks) -> tuple[tuple[str, ...], bool]:
    leaves = [dict(compare.leaves(answer.output)) for answer in answers]
    result, seen = [], False
    for name, first in leaves[0].items():
        second = leaves[1].get(name)
        if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
            continue
        if first.dtype not in MARKED or first.shape != second.shape:
            continue
        first, second = first.detach().cpu(), second.detach().cpu()
        seen = seen or not torch.equal(first, second)
        # Also tried negated: the output may be a lazy negative view (`Tensor.is_neg`) of what a kernel stored.
        if marks.is_foreign(first, second) and marks.is_foreign(-first, -second):
            result.append(name)
    return tuple(result), seen


def _passes(context: JudgeContext, source: InputSource, arguments: Arguments, output: Any) -> bool:
    context.oracle.use_weights(context.oracle.given_weights)
    try:
        expected = context.oracle.expect(arguments)
    except ProblemError:
        return False
    scale = compare.scales_of(expected.output64)
    wanted = compare.Expected(expected.output, expected.output64, scale)
    return compare.compare(output, wanted, input_set=source.name, probe="knock-out").passed


def _passes_for_another(context: JudgeContext, source: InputSource, arguments: Arguments) -> bool:
    """Whether what is right for other inputs, and far from it, passes here: then that anything passes says nothing.

    So it is where the reference itself is chaotic in its type, as a hash by the fraction of a large sine.
    """
    others = draw(source)
    context.oracle.use_weights(context.oracle.given_weights)
    try:
        here, there = (context.oracle.expect(given) for given in (arguments, others))
    except ProblemError:
        return False
    pairs = zip(compare.leaves(here.output64), compare.leaves(there.output64), strict=False)
    far = any(
        isinstance(a, torch.Tensor)
        and isinstance(b, torch.Tensor)
        and a.is_floating_point()
        and a.shape == b.shape
        and float((a - b).square().mean()) > _FAR * float(a.square().mean()) > 0
        for (_, a), (_, b) in pairs
    )
    return far and _passes(context, source, arguments, there.output)
