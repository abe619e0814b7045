"""The same call on other contents: costs that weights or inputs decide, which one natural draw does not show.

An estimate of the given weights is none of a trained module where the kernels look at them, and centred
noise is not what a user's activations, masks or indices look like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from kernelagent.domain.serialization import from_data
from kernelagent.tools.calls.backwards import Row
from kernelagent.tools.judge.bounds.counted_calls import (
    Launches,
    OnOtherContents,
    count_again,
    real_step,
)
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.input_domain import laid_out_like, observe
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.perturbed_state import perturbed_state
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts

_MORE = 1.1
"""From this many times the work on, contents are said to decide it."""
_FEW = 4096
"""Bytes or operations too few to tell of."""
_OFF_CENTRE = 8.0
"""How far from zero the mean of structured numbers lies, in their RMS."""
_WORK = (
    *("lanes", "requested_load_bytes", "requested_store_bytes", "atomics", "fp_operations"),
    *("fp64_operations", "int_operations", "special_operations", "loads", "rounds", "exchanges"),
)


def on_other_contents(
    context: JudgeContext, process: CandidateProcess, source: InputSource, natural: Launches
) -> tuple[OnOtherContents, ...]:
    """The calls that do more than the natural one: under drawn weights, on structured inputs, and in training for
    upstream gradients that lie otherwise in memory, as a transpose behind the module sends them.

    What the candidate does where it stops is not known; whether it may stop was judged before. Leaves
    candidate and reference with the given weights.
    """
    oracle, given = context.oracle, context.oracle.given_weights
    generator = torch.Generator().manual_seed(fresh_seed())
    parameters = [name for name, _ in oracle.module.named_parameters(remove_duplicate=False)]
    tried: list[tuple[str, Mapping[str, torch.Tensor], Arguments, bool]] = []
    arguments = draw(source)
    if parameters:
        drawn = perturbed_state(given, parameters, generator).tensors
        tried.append(("under other weights than those given", drawn, arguments, False))
    other = _structured(context, source, arguments)
    if other is not None:
        tried.append(("on inputs with a structure", given, other, False))
    if context.trains:
        where = "for upstream gradients that lie otherwise in memory"
        tried.append((where, given, arguments, True))
    result = []
    for where, weights, inputs, turned in tried:
        oracle.use_weights(weights)
        try:
            oracle.eager(inputs)
        except REFUSALS:
            continue
        try:
            process.use_weights(weights)
            step = real_step(context, inputs)
            if step is not None and turned:
                step = replace(step, upstream=tuple(map(_turned, step.upstream)))
            launches = count_again(process, inputs, step)
        except Rejected:
            break
        more = does_more(natural, launches)
        if more is not None:
            result.append(OnOtherContents(f"{more} {where}", launches))
    oracle.use_weights(given)
    process.use_weights(given)
    return tuple(result)


def does_more(natural: Launches, other: Launches) -> str | None:
    """What the second call asks of memory, or computes, more than the first, in words; None: nothing."""
    less, more = _work(natural), _work(other)
    result = [name for name in _WORK if more[name] > _MORE * less[name] + _FEW]
    if not result:
        return None
    most = max(result, key=lambda name: more[name] / max(1.0, less[name]))
    return f"{more[most] / max(1.0, less[most]):.3g} times the {most.replace('_', ' ')}"


def _turned(row: Row) -> Row:
    """The same gradients, each laid out as its transpose."""
    return tuple(g if g is None or g.dim() < 2 else g.mT.contiguous().mT for g in row)


def structured(tensor: torch.Tensor) -> torch.Tensor:
    """Numbers that lie off their centre, masks in one piece, indices that repeat; else as it is."""
    kind = observe(tensor).kind
    if kind == "real" and tensor.is_floating_point():
        wide = tensor.detach().float()
        finite = wide[wide.isfinite()]
        if not finite.numel():
            return tensor
        changed = wide + _OFF_CENTRE * finite.square().mean().sqrt()
    elif kind == "boolean":
        # As many as there were: what a mask of another density costs is another question.
        changed = tensor.detach().reshape(-1).sort(descending=True).values
        rows = changed.reshape(-1, tensor.shape[-1]) if tensor.dim() else changed.reshape(1, 1)
        rows[:, 0] = True
        changed = rows
    elif kind == "integer" and tensor.dim():
        rows = tensor.detach().reshape(-1, tensor.shape[-1])
        changed = rows[:, :1].expand_as(rows)
    else:
        return tensor
    return laid_out_like(changed.to(tensor.dtype).reshape(tensor.shape), tensor)


def _structured(
    context: JudgeContext, source: InputSource, arguments: Arguments
) -> Arguments | None:
    """The arguments with a structure in those that differ from call to call; None where none does."""
    again = named_tensors(draw(source))
    changed = {}
    for name, tensor in named_tensors(arguments).items():
        if tensor.numel() and not torch.equal(tensor, again[name]):
            other = structured(tensor)
            if other is not tensor:
                changed[name] = other
    if not changed:
        return None
    args, kwargs = with_tensors(arguments, changed)
    return args, kwargs


def _work(launches: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    facts = [from_data(row["traffic"], TrafficFacts) for row in launches]
    sums = {name: float(sum(getattr(item, name) for item in facts)) for name in _WORK}
    products = sum(sum(item.dot_flops.values()) for item in facts)
    return sums | {"fp_operations": sums["fp_operations"] + products}
