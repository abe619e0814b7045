"""Input sets near the given ones: other sizes, ranks and types, where the reference has an answer.

Whether the candidate supports them is tested by `search.widen`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.calls.torch_dtypes import HALVES
from kernelagent.tools.judge.problem.dynamic import Dynamic, Place, names_of_inputs, resizing
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.smaller_sizes import on_meta
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.interpreted_work import INTERPRETED_BYTES, bytes_in
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors

_TYPES = (*HALVES, torch.float32)
_REFUSALS = (ProblemError, RuntimeError, ValueError, IndexError, TypeError, ArithmeticError)
_ODD = 7
Change = Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]


@dataclass(frozen=True)
class Neighbour:
    """One input set near a given one."""

    source: InputSource
    what: str
    """How it differs, for example `x.shape[0] = 33`."""


def neighbours(
    source: InputSource, dynamic: Sequence[Dynamic], oracle: Oracle, *, interpreted: bool
) -> Iterator[Neighbour]:
    """Those the reference accepts, the likeliest to be met first; none of an input set run smaller.

    Sizes whose every value is verified already (`dynamic`) stay as they are. `interpreted`: leave
    out what an interpreter would be busy with for long.
    """
    if source.shrunk is not None:
        # What would be executed is not what would be admitted.
        return
    for name, what, draw in _proposed(source, dynamic, oracle):
        arguments = _answered(draw, oracle)
        if arguments is None or (interpreted and bytes_in(arguments) > INTERPRETED_BYTES):
            continue
        other = replace(source, name=name, full=on_meta(arguments), draw=draw)
        yield Neighbour(other, what)


def _proposed(
    source: InputSource, dynamic: Sequence[Dynamic], oracle: Oracle
) -> Iterator[tuple[str, str, Callable[[int], Arguments]]]:
    open_already = {place for item in dynamic for place in item.places}
    groups = list(_free_sizes(source, oracle, open_already))
    reported = {place: name for name, place in names_of_inputs(oracle.module, source.full).items()}
    for rank in range(max((len(_sizes(size)) for _, size in groups), default=0)):
        for places, size in groups:
            others = _sizes(size)
            if rank < len(others):
                what = _sized(places, others[rank], reported)
                draw = resizing(source.draw, places, others[rank])
                yield f"{source.name} with {what}", what, draw
    for what, change in (*_types(source), *_ranks(source)):
        yield f"{source.name} {what}", what, _changing(source.draw, change)


def _sizes(size: int) -> list[int]:
    """Neighbours, the double, one, and a small odd number: what tiles and masks go wrong at."""
    wanted = (size + 1, size - 1, 2 * size, 1, _ODD if size != _ODD else _ODD + 2)
    return [n for n in dict.fromkeys(wanted) if n > 0 and n != size]


def _free_sizes(
    source: InputSource, oracle: Oracle, taken: set[Place]
) -> Iterator[tuple[tuple[Place, ...], int]]:
    """Groups of places that change together, as many at once as the reference allows."""
    tensors = named_tensors(source.draw(0))
    seen: set[Place] = set(taken)
    every = [(name, axis) for name, tensor in tensors.items() for axis in range(tensor.dim())]
    for name, axis in every:
        if (name, axis) in seen:
            continue
        size = int(tensors[name].shape[axis])
        equal = [p for p in every if p not in taken and tensors[p[0]].shape[p[1]] == size]
        tries = (
            tuple(p for p in equal if p[1] == axis),
            tuple(p for p in equal if p[1] - tensors[p[0]].dim() == axis - tensors[name].dim()),
            tuple(equal),
            ((name, axis),),
        )
        for places in dict.fromkeys(tries):
            if _answered(resizing(source.draw, places, size + 1), oracle) is not None:
                seen.update(places)
                yield places, size
                break


def _types(source: InputSource) -> Iterator[tuple[str, Change]]:
    """All floating inputs of the commonest type in another."""
    tensors = named_tensors(source.draw(0))
    used = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    if len(used) != 1:
        return
    for dtype in _TYPES:
        if dtype not in used:
            yield f"in {str(dtype).removeprefix('torch.')}", _cast(dtype)


def _cast(dtype: torch.dtype) -> Change:
    def change(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}

    return change


def _ranks(source: InputSource) -> Iterator[tuple[str, Change]]:
    tensors = named_tensors(source.draw(0))
    most = max((tensor.dim() for tensor in tensors.values()), default=0)
    widest = [name for name, tensor in tensors.items() if tensor.dim() == most]
    if not widest:
        return
    yield "with a dimension more in front", _on(widest, lambda t: t.unsqueeze(0))
    if most >= 3:
        yield "with the first two dimensions as one", _on(widest, lambda t: t.flatten(0, 1))


def _on(names: Sequence[str], change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    def changed(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return tensors | {name: change(tensors[name]) for name in names}

    return changed


def _changing(draw: Callable[[int], Arguments], change: Change) -> Callable[[int], Arguments]:
    def drawn(seed: int) -> Arguments:
        arguments = draw(seed)
        args, kwargs = with_tensors(arguments, change(dict(named_tensors(arguments))))
        return args, kwargs

    return drawn


def _answered(draw: Callable[[int], Arguments], oracle: Oracle) -> Arguments | None:
    """The drawn arguments where the reference takes them, else None."""
    try:
        arguments = draw(0)
        oracle.eager(arguments)
    except _REFUSALS:
        return None
    return arguments


def _sized(places: Sequence[Place], size: int, report: Mapping[str, str]) -> str:
    """In the reader's names, for example `x.shape[0] = residual.shape[0] = 33`."""
    named = (f"{report.get(name, name)}.shape[{axis}]" for name, axis in places)
    return " = ".join(named) + f" = {size}"
