"""What torch computes beside a candidate's kernels, and whether anything of the reference's work is left to them.

Counted in an ordinary call on real tensors. What the count cannot see (another thread, numpy, an operator
of the candidate's own) shows in the values (`provenance`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch.utils._pytree import tree_map

from kernelagent.tools.candidate_runner.forbidding import LIGHT
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.interpreted_work import meta_twin
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.virtual.cost.eager import EagerRow, eager_rows

NOTHING_LEFT = 0.98
"""At or above this share of the reference's products and elementary steps, torch counts as having done it all."""
_STEPS: Mapping[str, int] = {
    "native_layer_norm": 5,
    "native_group_norm": 5,
    "native_batch_norm": 4,
    "_native_batch_norm_legit": 4,
    "rms_norm": 4,
    "_softmax": 4,
    "_log_softmax": 4,
    "logsumexp": 4,
    "gelu": 6,
    "silu": 3,
    "mish": 6,
    "sigmoid": 3,
    "tanh": 3,
    "softplus": 3,
    "elu": 3,
    # A sort, each beside the one before, the sum of what differs, and that put to the places of the unsorted.
    "_unique2": 4,
    "unique_dim": 4,
    "unique_consecutive": 2,
    # Where each of those that are taken goes, by the sum of those before it, and the taking.
    "masked_select": 2,
    "nonzero": 2,
}
"""Elementary steps per element of what torch does in one operation; others count as one."""
_WITH_A_SUM = frozenset("addmm addmv baddbmm addbmm".split())
"""A product and the addition after it."""


def computing(rows: Sequence[EagerRow]) -> list[EagerRow]:
    """The operations that compute: not those that allocate, copy, cast or view."""
    return [row for row in rows if row.name not in LIGHT]


def reference_rows(context: JudgeContext, arguments: Arguments) -> list[EagerRow]:
    """The same count of the reference at the sizes that are executed."""
    args, kwargs = tree_map(_on_meta, arguments)
    with context.judge_device.scope():
        try:
            twin = meta_twin(context.oracle.module)
            return eager_rows(twin, args, kwargs, context.device.target)
        except (RuntimeError, NotImplementedError, ValueError, TypeError):
            # The forward reads tensor values, so it cannot run on the meta device.
            args, kwargs = copy.deepcopy(arguments)
            return eager_rows(_copy_of(context), args, kwargs, context.device.target)


def _copy_of(context: JudgeContext) -> torch.nn.Module:
    """The reference itself where it cannot be copied: before the next call its state is put back."""
    try:
        return copy.deepcopy(context.oracle.module)
    except (RuntimeError, TypeError, NotImplementedError):
        return context.oracle.module


def require_part_of_the_work(
    beside: Sequence[EagerRow], reference: Sequence[EagerRow], foreign: Sequence[str]
) -> None:
    """Under the policy `triton`; raises `Rejected` when nothing of the main work is the kernels'.

    `beside`: what torch was seen to compute; `foreign`: what the values say was computed elsewhere.
    """
    own, wanted = computing(beside), computing(reference)
    if foreign and not own:
        raise Rejected(
            "kernel_not_contributing",
            f"{', '.join(foreign)} was computed neither by the candidate's kernels nor by any "
            f"operation of torch's that could be seen (a thread, numpy, an operator of its own?); "
            f"compute it in a kernel, or by plain torch operations in the forward",
            {"foreign": list(foreign)},
        )
    if not own or not wanted:
        return
    products, needed = sum(r.dot_flops for r in own), sum(r.dot_flops for r in wanted)
    steps, asked = sum(map(_steps, own)), sum(map(_steps, wanted))
    sums_left = _adds(wanted) and not _adds(own)
    all_products = products >= NOTHING_LEFT * needed
    all_steps = steps >= NOTHING_LEFT * asked and not sums_left
    if all_products and all_steps:
        names = ", ".join(dict.fromkeys(row.name for row in own))
        raise Rejected(
            "kernel_not_contributing",
            f"torch computes {names}, which is all of the reference's work; nothing of it is left to "
            f"the kernels: let a kernel do a part, or ask for --policy any",
            {"torch": sorted({row.name for row in own})},
        )


def require_nothing_foreign(foreign: Sequence[str]) -> None:
    """Under the policy `pure`; raises `Rejected` when values came from anything but kernels and inputs."""
    if not foreign:
        return
    raise Rejected(
        "kernel_not_contributing",
        f"the policy pure leaves nothing but Triton to compute; {', '.join(foreign)} was "
        f"computed by something else",
        {"foreign": list(foreign)},
    )


def require_nothing_of_torch(rows: Sequence[EagerRow]) -> None:
    """Under the policy `pure`; raises `Rejected` when torch computed anything."""
    names = sorted({row.name for row in computing(rows)})
    if names:
        raise Rejected(
            "kernel_not_contributing",
            f"the policy pure leaves nothing but Triton to compute; torch computes {', '.join(names)}",
            {"torch": names},
        )


def _adds(rows: Sequence[EagerRow]) -> bool:
    return any(row.name in _WITH_A_SUM for row in rows)


def _steps(row: EagerRow) -> int:
    if row.dot_flops:
        return 0
    return (row.fp_operations + row.fp64_operations) * _STEPS.get(row.name, 1)


def _on_meta(value: object) -> object:
    return value.to("meta") if isinstance(value, torch.Tensor) else value
