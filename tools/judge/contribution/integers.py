"""Where integer results came from: what kernels stored is exchanged, and must be what is found again.

Indices and counts have no room for marks. In two calls the executor exchanges every integer that a kernel
stored for another in the same range, and keeps count of them; integers that differ between the calls, in
an operand or in the output, have to be among those, or among the inputs.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.calls.torch_dtypes import holds_integers
from kernelagent.tools.judge.contribution.provenance import SAYS_NOTHING
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.virtual.provenance.altering import is_from_elsewhere

_FEWEST = 4
"""Integers that must differ before anything is said."""


@dataclass(frozen=True)
class IntegersSeen:
    """What two calls with exchanged integers showed of one input set."""

    altered_bytes: int
    right: bool
    foreign: tuple[str, ...]
    """Outputs and operands whose integers neither kernels nor the caller made."""


def has_integer_outputs(context: JudgeContext, source: InputSource) -> bool:
    """Whether the reference returns integers; booleans hold too little to tell."""
    answer = context.oracle.eager(draw(source))
    return any(holds_integers(leaf) for _, leaf in compare.leaves(answer))


def look_at_integers(
    context: JudgeContext, process: CandidateProcess, source: InputSource
) -> IntegersSeen | None:
    """None where the forward stops: exchanged integers may send it anywhere."""
    oracle = context.oracle
    oracle.use_weights(oracle.given_weights)
    first, second = (draw(source) for _ in range(2))
    kept = any(is_inexact(t) for t in named_tensors(first).values())
    if kept:
        second = _with_integers_of(first, second)
    mode = {"kind": "mode", "mode": "alter", "secret": secrets.randbits(62), "integers": True}
    process.take_launches()
    answers: list[Any] = []
    rows: list[list[dict[str, Any]]] = []
    try:
        process.command_executor(mode | {"trace": True})
        for arguments in (first, second):
            process.use_weights(oracle.given_weights)
            answers.append(process.call(arguments).output)
            rows.append(process.take_launches())
    except Rejected as broken:
        if broken.reason.code in SAYS_NOTHING:
            raise
        return None
    finally:
        process.command_executor({"kind": "mode", "mode": "execute"})
    operands = [
        f"{row['kernel']}.{name}"
        for row in rows[1]
        for name in row.get("altered", {}).get("foreign", [])
        # Where the caller's integers differ as well, an operand may be theirs.
        if kept
    ]
    return IntegersSeen(
        altered_bytes=sum(int(r.get("altered", {}).get("altered_bytes", 0)) for r in rows[1]),
        right=_right(context, source, second, answers[1]),
        foreign=tuple(dict.fromkeys([*operands, *_outputs(answers, rows[1], second)])),
    )


def _outputs(answers: list[Any], rows: list[dict[str, Any]], given: Arguments) -> list[str]:
    known: Counter[int] = Counter()
    for row in rows:
        stored = row.get("altered", {}).get("stored")
        if stored is None:
            return []
        # Each row tells of all that was stored so far.
        known = Counter({int(value): int(count) for value, count in stored})
    for tensor in named_tensors(given).values():
        if holds_integers(tensor):
            known.update(tensor.reshape(-1).tolist())
    result = []
    others = dict(compare.leaves(answers[0]))
    for name, leaf in compare.leaves(answers[1]):
        other = others.get(name)
        if not holds_integers(leaf) or not isinstance(other, torch.Tensor):
            continue
        if leaf.shape != other.shape:
            continue
        changed = leaf[leaf != other].tolist()
        if len(changed) >= _FEWEST and is_from_elsewhere(changed, known):
            result.append(name)
    return result


def _right(context: JudgeContext, source: InputSource, given: Arguments, output: Any) -> bool:
    expected = context.oracle.expect(given)
    wanted = compare.Expected(expected.output, expected.output64, {})
    return compare.compare(output, wanted, input_set=source.name, probe="knock-out").passed


def _with_integers_of(first: Arguments, second: Arguments) -> Arguments:
    floats = {n: t for n, t in named_tensors(second).items() if is_inexact(t)}
    args, kwargs = with_tensors(first, floats)
    return args, kwargs
