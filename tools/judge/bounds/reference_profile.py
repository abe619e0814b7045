"""Where the user's own module spends its time: counted on `virtual`, traced on `cuda`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from kernelagent.domain.errors import NoTrace
from kernelagent.domain.profile import Operation, ReferenceProfile
from kernelagent.tools.judge.bounds.headroom import facts_of
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.describe import written_out
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.interpreted_work import meta_twin
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.virtual.cost.eager import eager_rows
from kernelagent.tools.virtual.cost.forward_cost import estimate_eager

_STEADY = 3
"""Forwards before the one that is traced: whatever is tuned or cached is so by then."""


def profile_reference(context: JudgeContext) -> tuple[ReferenceProfile, ...]:
    """Every input set of the problem; raises `NoTrace` where tracing yields no kernel."""
    look = _traced if context.device.kind == "cuda" else _counted
    return tuple(look(context, source) for source in context.sources)


def _counted(context: JudgeContext, source: InputSource) -> ReferenceProfile:
    args, kwargs = source.full
    with context.judge_device.scope():
        rows = eager_rows(
            meta_twin(context.module_at_full_size), args, kwargs, context.device.target
        )
    ceilings = context.judge_device.ceilings
    launches = estimate_eager(rows, ceilings).launches
    result = [
        (row.name, cost.us, row.loaded_bytes + row.stored_bytes, cost.bound)
        for row, cost in zip(rows, launches, strict=True)
    ]
    return _profile(context, source, result, estimated=True)


def _traced(context: JudgeContext, source: InputSource) -> ReferenceProfile:
    """One steady forward under torch.profiler. Never run on a GPU so far."""
    from torch.profiler import ProfilerActivity, profile

    args, kwargs = draw(source)
    module = context.oracle.module
    with torch.no_grad():
        for _ in range(_STEADY):
            module(*args, **kwargs)
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as trace:
            module(*args, **kwargs)
            torch.cuda.synchronize()
    result = [
        (event.name, float(event.device_time_total), None, None)
        for event in trace.events()
        if event.device_type.name == "CUDA" and event.device_time_total > 0
    ]
    if not result:
        raise NoTrace(
            "torch.profiler saw no kernel on this GPU (CUPTI may be forbidden here); run with "
            "--device virtual for a counted profile"
        )
    return _profile(context, source, result, estimated=False)


def _profile(
    context: JudgeContext,
    source: InputSource,
    outcome: Sequence[tuple[str, float, int | None, str | None]],
    *,
    estimated: bool,
) -> ReferenceProfile:
    whole = sum(us for _, us, _, _ in outcome)
    by_name: dict[str, list[tuple[float, int | None, str | None]]] = {}
    for name, us, moved, bound in outcome:
        by_name.setdefault(name, []).append((us, moved, bound))
    operations = sorted(
        (_operation(name, rows, whole) for name, rows in by_name.items()), key=lambda o: -o.us
    )
    headroom: Any = context.headroom.get(source.name)
    if headroom is not None and whole > 0:
        device = context.judge_device
        headroom = facts_of(
            source.name,
            headroom,
            whole,
            device.ceilings,
            estimated=estimated,
            source=device.ceilings_from,
        )
    return ReferenceProfile(
        input_set=source.name,
        arguments=written_out(context.oracle.module, source.full),
        us=round(whole, 2),
        operations=tuple(operations),
        headroom=headroom,
        tier="counted" if estimated else "traced",
    )


def _operation(
    name: str, rows: Sequence[tuple[float, int | None, str | None]], whole: float
) -> Operation:
    us = sum(row[0] for row in rows)
    moved = [row[1] for row in rows if row[1] is not None]
    return Operation(
        name=name,
        launches=len(rows),
        us=round(us, 2),
        share=round(us / whole, 4) if whole else 0.0,
        moved_bytes=sum(moved) if len(moved) == len(rows) else None,
        bound=max(rows, key=lambda row: row[0])[2],
    )
