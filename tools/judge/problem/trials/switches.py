"""Single numbers of inputs and buffers as switches, several at a time; and states of which a part was begun anew.

A judged call changes one such number at a time. A module that reads two of them has four answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import torch

from kernelagent.tools.judge.problem.trials.input_domain import Tensors
from kernelagent.tools.judge.problem.trials.unlike import in_drawn_order
from kernelagent.tools.judge.problem.trials.unlike_integers import INTEGERS

_MOST = 3
"""Switches that are moved against each other, of more those that are drawn."""
_MOST_MIXED = 4


def switches(tensors: Tensors) -> list[str]:
    """Names of those that hold a single integer, or true or false."""
    return [n for n, t in tensors.items() if t.numel() == 1 and t.dtype in (*INTEGERS, torch.bool)]


def switched(
    tensors: Tensors, generator: torch.Generator
) -> Iterator[tuple[Mapping[str, int], Tensors]]:
    """Zero and one for each of a few switches, in all ways but the given one, in a drawn order; and the values by name."""
    names = in_drawn_order(switches(tensors), generator)[:_MOST]
    given = tuple(int(tensors[name]) for name in names)
    ways = [way for way in itertools.product((0, 1), repeat=len(names)) if way != given]
    for way in in_drawn_order(ways, generator):
        values = dict(zip(names, way, strict=True))
        yield values, {n: torch.full_like(tensors[n], value) for n, value in values.items()}


def begun_anew(
    given: Tensors, reached: Tensors, generator: torch.Generator
) -> Iterator[tuple[list[str], Tensors]]:
    """The reached state with some of its entries as they were given; single numbers, such as positions, first."""
    moved = [name for name, t in reached.items() if not torch.equal(t, given[name])]
    if len(moved) < 2:
        return
    first = [name for name in switches(reached) if name in moved]
    alone = [[name] for name in in_drawn_order(moved, generator) if [name] != first]
    for back in ([first] if first and len(first) < len(moved) else []) + alone[:_MOST_MIXED]:
        yield back, {name: given[name] if name in back else reached[name] for name in reached}
