"""Which submodules of a whole model take the time, and what could be gained by each at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from kernelagent.domain.whole_model import Scan, ScanRow
from kernelagent.tools.judge.problem.steps.training import dropouts_in
from kernelagent.tools.judge.whole_model.part_costs import Clock, Cost
from kernelagent.tools.judge.whole_model.submodules import Heard, Whole, why_not

_CONTAINERS = (
    torch.nn.ModuleList,
    torch.nn.ModuleDict,
    torch.nn.ParameterList,
    torch.nn.ParameterDict,
)
_UNCOUNTED = "its time could not be counted"


def scan(whole: Whole) -> Scan:
    """One forward of the whole, then each submodule by itself on what it was called with."""
    clock = Clock(whole)
    first, arguments = next(iter(whole.inputs.items()))
    heard = whole.listen({first: arguments})
    all_of_it = clock.cost(whole.module, arguments)
    total_us = clock.once_us + all_of_it.us
    rows = [_row(whole, item, clock, all_of_it) for item in heard.values()]
    of_own = _own(rows)
    rows = [
        replace(
            row,
            own_us=of_own(row.path, row.device_us),
            left_alone=_left_alone(whole, row.path, heard),
        )
        for row in rows
    ]
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
        whole.problem.name,
        whole.device.facts,
        clock.kind,
        total_us,
        tuple(kept),
        tuple(notes),
        own_us=of_own("", all_of_it.us),
        once_us=clock.once_us,
        left_alone=_left_alone(whole, "", heard),
    )


def _row(whole: Whole, heard: Heard, clock: Clock, all_of_it: Cost) -> ScanRow:
    module = whole.submodule(heard.path)
    cost = Cost()
    least: Cost | None = Cost()
    if heard.uncopied is not None:
        return _uncounted(heard, module, heard.uncopied)
    for form, arguments in heard.arguments.items():
        count = heard.counts[form]
        try:
            now = clock.cost(module, arguments)
        except Exception as error:  # noqa: BLE001 - the user's module, called by itself, raises anything
            return _uncounted(heard, module, str(error))
        cost = cost.plus(now, count)
        bound = clock.least(module, arguments)
        least = None if least is None or bound is None else least.plus(bound.at_most(now), count)
    total_us = clock.once_us + all_of_it.us
    device_us = cost.inside(all_of_it)
    saved = None if least is None else all_of_it.us - all_of_it.less(cost).plus(least).us
    return ScanRow(
        path=heard.path,
        kind=type(module).__name__,
        calls=heard.calls,
        device_us=round(device_us, 3),
        share=round(min(1.0, device_us / total_us), 4) if total_us > 0 else 0.0,
        bound_us=None if saved is None else round(max(0.0, device_us - saved), 3),
        gain_at_most=None if saved is None else _gain(total_us, saved),
        cannot=why_not(module, list(heard.arguments.values()), whole.module)
        or _drops_out(module, whole),
        returns=heard.returns,
    )


def _drops_out(module: torch.nn.Module, whole: Whole) -> str | None:
    """Why a part's training steps cannot be compared, as far as torch's own dropout is why."""
    names = dropouts_in(module) if whole.trains else ""
    return (
        f"in training it drops out at random: {names}; set its probability to 0" if names else None
    )


def _gain(total_us: float, saved: float) -> float | None:
    """None where nothing would be left, which no bound can mean."""
    return round(total_us / (total_us - saved), 3) if saved < total_us else None


def _uncounted(heard: Heard, module: torch.nn.Module, error: str) -> ScanRow:
    why = f"{_UNCOUNTED}: {(error.splitlines() or ['no reason was given'])[0][:200]}"
    return ScanRow(heard.path, type(module).__name__, heard.calls, 0.0, 0.0, None, None, (), why)


def _own(rows: Sequence[ScanRow]) -> Callable[[str, float], float | None]:
    """What a forward takes outside the parts right below it: its path, its time, and then the rest."""
    times = {row.path: None if _is_uncounted(row) else row.device_us for row in rows}
    below: dict[str, list[float | None]] = {}
    for path, us in times.items():
        below.setdefault(_holder(path, times), []).append(us)

    def rest(path: str, us: float) -> float | None:
        known = [part for part in below.get(path, []) if part is not None]
        if len(known) < len(below.get(path, [])) or times.get(path, us) is None:
            return None
        return round(max(0.0, us - sum(known)), 3)

    return rest


def _holder(path: str, known: Mapping[str, object]) -> str:
    """The nearest part around it that is called; empty for the model itself."""
    above = path.rpartition(".")[0]
    while above and above not in known:
        above = above.rpartition(".")[0]
    return above


def _is_uncounted(row: ScanRow) -> bool:
    return row.cannot is not None and row.cannot.startswith(_UNCOUNTED)


def _left_alone(whole: Whole, path: str, heard: Mapping[str, Heard]) -> str | None:
    """Why the built-in policy leaves this part (the model itself: empty) as it is.

    By class: what its compiler would make of it is known after minutes only.
    """
    for other in heard:
        inside = not path or other == path or other.startswith(f"{path}.")
        part = whole.submodule(other)
        if inside and isinstance(part, torch.nn.LSTM) and part.proj_size:
            it = "it is" if other == path else f"{other} in it is"
            return (
                f"{it} torch's LSTM with projected states, one library call, which the built-in policy "
                f"leaves alone"
            )
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
