"""Which submodules of a whole model take the time, and what could be gained by each at most."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch.utils._pytree import tree_map

from kernelagent.domain.whole_model import Scan, ScanRow, TimeKind
from kernelagent.tools.judge.bounds.headroom import Headroom, headroom_of
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.inputs import meta_twin
from kernelagent.tools.judge.whole_model.submodules import Heard, Whole, why_not
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings
from kernelagent.tools.virtual.cost.cost import estimate_eager
from kernelagent.tools.virtual.cost.eager import eager_rows

_REPEATS = 20
_CONTAINERS = (
    torch.nn.ModuleList,
    torch.nn.ModuleDict,
    torch.nn.ParameterList,
    torch.nn.ParameterDict,
)


def scan(whole: Whole) -> Scan:
    """One forward of the whole, then each submodule by itself on what it was called with."""
    ceilings = whole.device.ceilings
    clock = _Clock(whole, ceilings)
    first, arguments = next(iter(whole.inputs.items()))
    heard = whole.listen({first: arguments})
    total_us = clock.us(whole.module, arguments)
    rows = [_row(whole, item, clock, total_us, ceilings) for item in heard.values()]
    kept = sorted(
        _with_alike(whole, rows, heard),
        key=lambda row: (-(row.gain_at_most or 0.0), -row.device_us, row.path),
    )
    notes = [f"one forward on input set {next(iter(whole.inputs))!r}"]
    silent = [
        name
        for name, module in whole.module.named_modules()
        # Containers have no forward: they hold what is called.
        if name and name not in heard and not isinstance(module, _CONTAINERS)
    ]
    if silent:
        notes.append(f"never called: {', '.join(silent[:8])}")
    return Scan(
        whole.problem.name, whole.device.facts, clock.kind, total_us, tuple(kept), tuple(notes)
    )


class _Clock:
    """Device time of one call: measured where there is a GPU, else estimated and said to be."""

    def __init__(self, whole: Whole, ceilings: DeviceCeilings) -> None:
        self._target = whole.device.facts.target
        self._ceilings = ceilings
        self.kind: TimeKind = "measured" if whole.device.kind == "cuda" else "estimate"

    def us(self, module: torch.nn.Module, arguments: Arguments) -> float:
        if self.kind == "measured":
            return _measured_us(module, arguments)
        args, kwargs = _on_meta(arguments)
        try:
            rows = eager_rows(meta_twin(module), args, kwargs, self._target)
        except Exception:  # noqa: BLE001 - a forward that reads values fails on meta tensors: count a real run
            rows = eager_rows(module, *arguments, self._target)
        return estimate_eager(rows, self._ceilings).us


def _measured_us(module: torch.nn.Module, arguments: Arguments) -> float:
    """The median of some calls, each between two events of the device. Never run on a GPU so far."""
    args, kwargs = arguments
    times = []
    with torch.no_grad():
        module(*args, **kwargs)
        for _ in range(_REPEATS):
            begin, end = (_event() for _ in range(2))
            begin.record()
            module(*args, **kwargs)
            end.record()
            torch.cuda.synchronize()
            times.append(1e3 * float(begin.elapsed_time(end)))
    return sorted(times)[len(times) // 2]


def _event() -> Any:
    event: Any = torch.cuda.Event
    return event(enable_timing=True)


def _row(
    whole: Whole, heard: Heard, clock: _Clock, total_us: float, ceilings: DeviceCeilings
) -> ScanRow:
    module = whole.submodule(heard.path)
    device_us, bound_us = 0.0, 0.0
    bounded = True
    for form, arguments in heard.arguments.items():
        count = heard.counts[form]
        try:
            device_us += count * clock.us(module, arguments)
        except Exception as error:  # noqa: BLE001 - the user's module, called by itself, raises anything
            return _uncounted(heard, module, error)
        result = _bound(module, arguments, ceilings)
        bounded = bounded and result is not None
        bound_us += count * (result.bound_us if result is not None else 0.0)
    saved = max(0.0, device_us - bound_us)
    left = max(total_us - saved, total_us * 1e-3)
    return ScanRow(
        path=heard.path,
        kind=type(module).__name__,
        calls=heard.calls,
        device_us=round(device_us, 3),
        share=round(min(1.0, device_us / total_us), 4) if total_us > 0 else 0.0,
        bound_us=round(bound_us, 3) if bounded else None,
        gain_at_most=round(total_us / left, 3) if bounded else None,
        cannot=why_not(module, list(heard.arguments.values())),
        returns=heard.returns,
    )


def _uncounted(heard: Heard, module: torch.nn.Module, error: Exception) -> ScanRow:
    why = f"its time could not be counted: {str(error).splitlines()[0][:200]}"
    return ScanRow(heard.path, type(module).__name__, heard.calls, 0.0, 0.0, None, None, (), why)


def _bound(
    module: torch.nn.Module, arguments: Arguments, ceilings: DeviceCeilings
) -> Headroom | None:
    args, kwargs = _on_meta(arguments)
    try:
        return headroom_of(module, args, kwargs, ceilings)
    except Exception:  # noqa: BLE001 - a forward that meta tensors cannot run has no bound here
        return None


def _with_alike(whole: Whole, rows: list[ScanRow], heard: dict[str, Heard]) -> list[ScanRow]:
    families: dict[str, list[str]] = {}
    for row in rows:
        families.setdefault(whole.family(heard[row.path]), []).append(row.path)
    return [
        replace(
            row,
            alike=tuple(p for p in families[whole.family(heard[row.path])] if p != row.path),
        )
        for row in rows
    ]


def _on_meta(arguments: Arguments) -> Arguments:
    args, kwargs = tree_map(lambda v: v.to("meta") if isinstance(v, torch.Tensor) else v, arguments)
    return args, kwargs
