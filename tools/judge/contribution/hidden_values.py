"""Evidence that needs no trust: the forward done again on values that the candidate's process never holds.

The candidate computes on one draw of the inputs; each operation of torch and each launch it asks for is
done by the executor on another draw as well (`virtual.provenance.replay`). That second result is right only if the
kernels and torch's visible operations made it: what numpy, a thread, Python or a hidden operator
computes is computed from the wrong values.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils._pytree import tree_map_only

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.judge.contribution.left_to_kernels import computing
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.copies import same_bits
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.one_trial import trial_on
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.process.answers import Replayed
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.virtual.cost.eager import EagerRow

PROBE = "hidden values"


@dataclass(frozen=True)
class OnHiddenValues:
    """What the second forward showed."""

    torch_rows: list[EagerRow]
    """What torch computed, as done by the executor."""
    kernels: frozenset[str]
    """What it launched."""
    disclosures: tuple[Disclosure, ...] = ()


def require_right_on_hidden_values(
    context: JudgeContext, process: CandidateProcess, source: InputSource
) -> OnHiddenValues | None:
    """Raises `Rejected` when the result on hidden values is not the reference's.

    None where no input changes from draw to draw, so that nothing is hidden. The weights
    are the given ones, the same on both sides.
    """
    held = draw(source)
    hidden = _with_others(held, draw(source))
    values = [
        None if same_bits(a, b) else b
        for a, b in zip(tensors_of(held), tensors_of(hidden), strict=True)
    ]
    if all(value is None for value in values):
        return None
    context.oracle.use_weights(context.oracle.given_weights)
    process.use_weights(context.oracle.given_weights)
    process.take_launches()
    replayed = process.replay(held, values)
    kernels = frozenset(str(row["kernel"]) for row in process.take_launches())
    if replayed.failure is not None:
        reported = (_not_done(source.name, replayed.failure),)
        return OnHiddenValues(replayed.torch_rows, kernels, reported)
    _require_right(context, source, hidden, replayed)
    return OnHiddenValues(replayed.torch_rows, kernels)


def _require_right(
    context: JudgeContext, source: InputSource, hidden: Arguments, replayed: Replayed
) -> None:
    generator = torch.Generator().manual_seed(fresh_seed())
    try:
        trial = trial_on(context.oracle, source.name, PROBE, hidden, {}, generator)
    except ProblemError:
        return
    answers = iter(replayed.hidden)
    output = tree_map_only(torch.Tensor, lambda _: next(answers), replayed.output)
    result = compare.compare(output, trial.compared, input_set=source.name, probe=PROBE)
    if result.passed:
        return
    rows = computing(replayed.torch_rows)
    raise Rejected(
        "kernel_not_contributing",
        "done once more on values that the candidate's process did not hold, by its kernels and the "
        "operations of torch that it called, the result is not the reference's: something else computed "
        "a part of it (numpy, Python, a thread, an operator of its own), or a number that was taken to "
        "the host decides it",
        {"input_set": source.name, "torch": sorted({row.name for row in rows})},
    )


def _with_others(first: Arguments, second: Arguments) -> Arguments:
    """The first's integers and masks with the second's floating values; the second where none differ.

    Integers often say how much there is to do (lengths, offsets), which the host may ask for.
    """
    known = named_tensors(first)
    floats = {
        name: tensor
        for name, tensor in named_tensors(second).items()
        if (tensor.is_floating_point() or tensor.is_complex())
        and not (name in known and same_bits(tensor, known[name]))
    }
    if not floats:
        return second
    args, kwargs = with_tensors(first, floats)
    return args, kwargs


def _not_done(name: str, why: str) -> Disclosure:
    return Disclosure(
        "not_repeated_on_hidden_values",
        f"the forward could not be done again on values hidden from it (input set {name!r}: {why}); that "
        f"nothing but kernels and torch computed the result rests on weaker evidence",
    )
