"""Other inputs for a module that checks its own: changed step by step, each step one that its checks let pass.

A module that raises for boxes without an area, or for brackets that do not match, refuses nearly all that is made
without knowing why. What keeps to its checks need not be like the user's own inputs: boxes may lie apart, and
brackets be nested deeply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like
from kernelagent.tools.judge.problem.trials.unlike import Unlike, in_drawn_order, wide
from kernelagent.tools.judge.problem.trials.unlike_integers import INTEGERS
from kernelagent.tools.judge.problem.trials.unread_places import Keeps

_MOST_INPUTS = 3
_WALKS = 3
_STEPS = 40
"""Of a walk; each is a call of the reference."""
_FEWEST = 4
"""Elements; fewer are tried by other changes."""
_OCTAVES = 3.0
"""An input is moved by an eighth of its own width to eight times that."""

_Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def checked_inputs(natural: Tensors, takes: Keeps, generator: torch.Generator) -> Iterator[Unlike]:
    """What a single change makes of an input, and where several lead; nothing where no change is refused.

    Every change keeps shapes and types. What a module takes that refuses nothing is tried by other inputs.
    """
    names = [n for n, t in natural.items() if _is_changed(t)]
    for name in in_drawn_order(names, generator)[:_MOST_INPUTS]:
        tensor = natural[name]
        changes = _changes_of(tensor)
        made = [
            (words, laid_out_like(c(_wide_or_whole(tensor), generator), tensor))
            for words, c in changes
        ]
        passed = [(words, values) for words, values in made if takes({name: values})]
        if len(passed) == len(made):
            continue
        for words, values in passed:
            yield _unlike(name, words, values)
        for _ in range(_WALKS):
            end = _walked(name, tensor, takes, generator)
            if end is not None:
                yield _unlike(name, "what several changes lead to", end)


def _unlike(name: str, words: str, values: torch.Tensor) -> Unlike:
    tried = f"other values that your module's own checks let pass ({words})"
    return Unlike("checked_inputs", "is as your function makes it", tried, name, {name: values})


def _walked(
    name: str, tensor: torch.Tensor, takes: Keeps, generator: torch.Generator
) -> torch.Tensor | None:
    """None where no step was taken."""
    changes = [change for _, change in _changes_of(tensor)]
    current: torch.Tensor | None = None
    for _ in range(_STEPS):
        change = changes[_below(len(changes), generator)]
        start = tensor if current is None else current
        values = laid_out_like(change(_wide_or_whole(start), generator), tensor)
        if not torch.equal(values, start) and takes({name: values}):
            current = values
    return current


def _is_changed(tensor: torch.Tensor) -> bool:
    known = tensor.dtype in (*INTEGERS, torch.bool) or (
        is_inexact(tensor) and not tensor.is_complex()
    )
    return (
        known and tensor.dim() > 0 and tensor.numel() >= _FEWEST and tensor.layout == torch.strided
    )


def _wide_or_whole(tensor: torch.Tensor) -> torch.Tensor:
    """Whole numbers and truths as 64-bit integers, others in a wide type."""
    return wide(tensor) if is_inexact(tensor) else tensor.detach().to(torch.int64)


def _changes_of(tensor: torch.Tensor) -> tuple[tuple[str, _Change], ...]:
    """Each with words for it."""
    orders: tuple[tuple[str, _Change], ...] = (
        ("in rising order", partial(_ordered, descending=False)),
        ("in falling order", partial(_ordered, descending=True)),
        ("a part in rising order", partial(_part_ordered, descending=False)),
        ("a part in falling order", partial(_part_ordered, descending=True)),
        ("in reverse", lambda t, _: t.flip(-1)),
        ("turned round", lambda t, g: t.roll(1 + _below(t.shape[-1], g), -1)),
        ("rows that repeat others", _repeated_rows),
    )
    if not is_inexact(tensor):
        return orders
    return (
        *orders,
        ("moved as a whole", partial(_moved, rows=False)),
        ("rows moved, each by a distance of its own", partial(_moved, rows=True)),
        ("rows made smaller or larger about their middle", _resized),
    )


def _ordered(values: torch.Tensor, _: torch.Generator, *, descending: bool) -> torch.Tensor:
    return values.sort(-1, descending=descending).values


def _part_ordered(
    values: torch.Tensor, generator: torch.Generator, *, descending: bool
) -> torch.Tensor:
    length = values.shape[-1]
    first = _below(length, generator)
    last = first + 1 + _below(length - first, generator)
    changed = values.clone()
    changed[..., first:last] = values[..., first:last].sort(-1, descending=descending).values
    return changed


def _repeated_rows(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    rows = values.reshape(-1, values.shape[-1]) if values.dim() > 1 else values
    return rows[torch.randint(len(rows), (len(rows),), generator=generator)].reshape(values.shape)


def _moved(values: torch.Tensor, generator: torch.Generator, *, rows: bool) -> torch.Tensor:
    shape = (*values.shape[:-1], 1) if rows else (1,)
    sizes = torch.exp2(_OCTAVES * (2 * torch.rand(shape, generator=generator) - 1))
    signs = torch.randint(2, shape, generator=generator) * 2 - 1
    return values + (_width(values) * sizes * signs).to(values)


def _resized(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    shape = (*values.shape[:-1], 1)
    factors = torch.exp2(_OCTAVES * (2 * torch.rand(shape, generator=generator) - 1)).to(values)
    middle = values.mean(-1, keepdim=True)
    return middle + factors * (values - middle)


def _width(values: torch.Tensor) -> float:
    known = values[values.isfinite()]
    return float(known.max() - known.min()) if known.numel() else 1.0


def _below(end: int, generator: torch.Generator) -> int:
    return int(torch.randint(end, (), generator=generator))
