"""Which integer inputs have to hold no number twice, because the reference has no answer where they do.

`index_copy_`, `index_put_` and `scatter_` leave open which of several writes to one place stays: a module that writes
to slots is given each slot once. What makes such an input is the reference itself (`Oracle.order_of_writes_shows`),
or draws of the user's that never hold a number twice where chance alone would have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.memory_need import bytes_of
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.distinct_numbers import (
    ANYWHERE,
    ORDER_SHOWS,
    Along,
    DefinedWrites,
    holds_integers,
    repeats,
)
from kernelagent.tools.judge.problem.trials.input_domain import (
    Tensors,
    fresh_like,
    laid_out_like,
    observe,
)
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.one_trial import pair
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors

_MOST_DRAWS = 16
_DRAWN_BYTES = 64 << 20
"""So much is drawn to tell chance from intent."""
_CHANCE = math.log(1e-4)
_TRIES = 3
_KEPT_ANYWAY = frozenset({"fixed", "permutation"})
"""Kinds whose other values repeat no number as it is."""


def with_defined_writes(oracle: Oracle, source: InputSource) -> InputSource:
    """The input set with what its probes have to keep; its own draws are made distinct where the reference needs it."""
    some = [named_tensors(source.draw(0))]
    if not any(map(holds_integers, some[0].values())):
        return source
    for number in range(1, _draws(some[0])):
        some.append(named_tensors(source.draw(number)))
    kept = {name: along for name in some[0] if (along := _never_repeats(name, some)) is not None}
    intended = DefinedWrites(kept, "your own draws hold none twice") if kept else ANYWHERE
    needed = _needed(oracle, source.draw(0), some, intended)
    if needed is ANYWHERE:
        return replace(source, writes=intended)
    draw = source.draw

    def defined(seed: int) -> Arguments:
        arguments = draw(seed)
        tensors = named_tensors(arguments)
        legal = needed.legal(tensors, tensors)
        changed = {name: t for name, t in legal.items() if t is not tensors[name]}
        return pair(with_tensors(arguments, changed)) if changed else arguments

    return replace(source, draw=defined, writes=needed)


def _draws(tensors: Tensors) -> int:
    once = sum(map(bytes_of, tensors.values()))
    return max(2, min(_MOST_DRAWS, _DRAWN_BYTES // max(1, once)))


def _distinct(tensor: torch.Tensor) -> Along | None:
    if not repeats(tensor, "all"):
        return "all"
    return "rows" if tensor.dim() > 1 and not repeats(tensor, "rows") else None


def _never_repeats(name: str, some: list[dict[str, torch.Tensor]]) -> Along | None:
    """Along what no draw repeats a number, where numbers that are drawn one by one would have."""
    drawn = [tensors[name] for tensors in some if name in tensors]
    if not all(map(holds_integers, drawn)) or observe(drawn[0]).kind in _KEPT_ANYWAY:
        return None
    found = {_distinct(tensor) for tensor in drawn}
    if None in found:
        return None
    along: Along = "all" if found == {"all"} else "rows"
    # torch has no extremes of unsigned integers of 16 bits and more.
    wide = [tensor.to(torch.int64) for tensor in drawn]
    high = max(int(tensor.max()) for tensor in wide)
    low = max(0, min(int(tensor.min()) for tensor in wide))
    width = drawn[0].numel() if along == "all" else drawn[0].shape[-1]
    numbers = max(width, high - low + 1)
    rows = drawn[0].numel() // width
    different = {tensor.detach().cpu().numpy().tobytes() for tensor in drawn}
    each = sum(math.log1p(-at / numbers) for at in range(width))
    return along if len(different) * rows * each < _CHANCE else None


def _needed(
    oracle: Oracle, natural: Arguments, some: list[dict[str, torch.Tensor]], known: DefinedWrites
) -> DefinedWrites:
    """What the reference's own writes need besides; `ANYWHERE` where they need nothing."""
    if not oracle.writes_by_index(natural):
        return ANYWHERE
    names = [name for name, tensor in some[0].items() if holds_integers(tensor)]

    def shows(writes: DefinedWrites) -> bool:
        for tensors in _tried(names, some):
            given = pair(with_tensors(natural, writes.legal(tensors, some[0])))
            try:
                if oracle.order_of_writes_shows(given):
                    return True
            except ProblemError:
                continue
        return False

    if not shows(ANYWHERE):
        return ANYWHERE
    for along in _ways(names, some[0]):
        writes = DefinedWrites({**known.along, **along}, ORDER_SHOWS)
        if not shows(writes):
            return writes
    # What is distinct only together, such as blocks with the places in them, stays as it was drawn.
    return DefinedWrites({**known.along, **dict.fromkeys(names, "as drawn")}, ORDER_SHOWS)


def _ways(names: list[str], natural: Tensors) -> Iterator[dict[str, Along]]:
    of = {name: _distinct(natural[name]) or "all" for name in names}
    yield {}
    for name in names:
        yield {name: of[name]}
    yield dict(of)


def _tried(
    names: list[str], some: list[dict[str, torch.Tensor]]
) -> Iterator[dict[str, torch.Tensor]]:
    """The user's own, drawn anew, and with each number twice."""
    generator = torch.Generator().manual_seed(1)
    yield from some[:_TRIES]
    of: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
        *[lambda t: fresh_like(t, generator)] * _TRIES,
        _in_pairs,
    )
    for change in of:
        yield {**some[0], **{name: change(some[0][name]) for name in names}}


def _in_pairs(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().reshape(-1)
    at = torch.arange(len(flat), device=flat.device)
    return laid_out_like(flat[at // 2 * 2].reshape(tensor.shape), tensor)
