"""Whole numbers at which a quotient, a root or a logarithm of whole numbers takes its next value, and those beside them.

`n // 86400` in floating point, by a reciprocal or a magic number is right for nearly all `n`: what shows that it is not is
a remainder of nothing, or of one less than the divisor. So are roots beside squares, rows of a triangle, and digits beside powers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import zip_longest

import torch

from kernelagent.tools.judge.problem.trials.input_domain import observe
from kernelagent.tools.judge.problem.trials.planting.literals import Literals

_BESIDE = (-1, -1, 0, 0, 1)
_TRIES = 4
"""So many draws for each number that is asked for: some lie out of range."""
_LARGE = 1 << 16
_NEAR_ENOUGH = 16
"""So many times the usual distance between neighbours is the end of a range beyond the largest number at most."""
_MOST_BASE = 1000
_FEWEST_SORTED = 8
_MOST_SORTED = 1 << 20
_OCTAVES = 62
_AT_THE_TOP = 0.05
"""Half of the multiples are drawn from so much of the range: errors grow with the number."""


def beside_multiples(
    divisors: Sequence[int], low: int, high: int, count: int, generator: torch.Generator
) -> list[int]:
    """At most so many numbers from `low` to `high`, drawn; also multiples of the products of two divisors."""
    products = {a * b for at, a in enumerate(divisors) for b in divisors[at:]}
    usable = [n for n in dict.fromkeys([*divisors, *products]) if 2 < n <= max(abs(low), abs(high))]
    bases = [n for n in dict.fromkeys(divisors) if 2 < n <= _MOST_BASE and n < high]
    digits = [_powers_of(base, high, generator) for base in bases]
    kinds: list[Iterator[int]] = [
        _in_turn(_squares(low, high, generator), _triangles(low, high, generator)),
        _in_turn(_powers(low, high, generator), *digits),
        *(_multiples(number, low, high, generator) for number in usable),
    ]
    made: list[int] = []
    for at in range(_TRIES * count):
        number = next(kinds[at % len(kinds)], None)
        if number is None:
            continue
        number += _BESIDE[_below(len(_BESIDE), generator)]
        if low <= number <= high:
            made.append(number)
        if len(made) == count:
            break
    return made


def _in_turn(*kinds: Iterator[int]) -> Iterator[int]:
    """One of each, as long as any is left."""
    for numbers in zip_longest(*kinds):
        yield from (number for number in numbers if number is not None)


def _multiples(number: int, low: int, high: int, generator: torch.Generator) -> Iterator[int]:
    first, last = -(-low // number), high // number
    while first <= last:
        begin = first
        if _below(2, generator):
            begin = last - int(_AT_THE_TOP * (last - first))
        yield number * (begin + _below(last - begin + 1, generator))


def _squares(low: int, high: int, generator: torch.Generator) -> Iterator[int]:
    first, last = math.isqrt(max(0, low)), math.isqrt(max(0, high))
    while last > 1:
        yield (first + _below(last - first + 1, generator)) ** 2


def _triangles(low: int, high: int, generator: torch.Generator) -> Iterator[int]:
    """Of rows of a packed triangle where the next one begins."""
    first, last = math.isqrt(max(0, 2 * low)), math.isqrt(max(0, 2 * high))
    while last > 2:
        row = first + _below(last - first + 1, generator)
        yield row * (row + 1) // 2


def _powers_of(base: int, high: int, generator: torch.Generator) -> Iterator[int]:
    """As digits are counted by."""
    most = int(math.log(high, base))
    while most > 0:
        power: int = base ** (1 + _below(most, generator))
        yield power


def _powers(low: int, high: int, generator: torch.Generator) -> Iterator[int]:
    most = max(abs(low), abs(high)).bit_length()
    while most > 1:
        power = 1 << _below(most + 1, generator)
        yield -power if high <= 0 or (low < 0 and _below(2, generator)) else power


def _below(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (), generator=generator))


def sorted_beside_powers(rising: torch.Tensor) -> torch.Tensor:
    """Whole numbers that ascend along the last dimension, with a power of two and the number before it next to each other.

    The first and the last number stay, which may be counts, and no two neighbours are further apart than two were before.
    """
    values = rising.detach().long().clone()
    rows = values.reshape(-1, values.shape[-1])
    if rows.shape[-1] < _FEWEST_SORTED or rows.numel() > _MOST_SORTED:
        return values
    furthest = rows.diff().amax(-1)
    for octave in range(1, _OCTAVES):
        power = torch.full((len(rows), 1), 1 << octave, device=rows.device)
        at = torch.searchsorted(rows, power)
        fits = ((at > 1) & (at < rows.shape[-1] - 1)).reshape(-1)
        if not bool(fits.any()):
            continue
        place = at.clamp(1, rows.shape[-1] - 1)
        tried = rows.scatter(-1, place - 1, power - 1).scatter(-1, place, power)
        fits &= tried.diff().amax(-1) <= furthest
        rows[fits] = tried[fits]
    return rows.reshape(values.shape)


def end_of_range(tensor: torch.Tensor, literals: Literals) -> int:
    """The largest number that its draws seem to be from.

    One below a large power of two that the problem writes, where one is that near; a tile's size or another dimension says
    nothing of a range, and whatever lies beyond the draws is else told of alone (`differs_on_larger_integers`).
    """
    seen = observe(tensor)
    most = torch.iinfo(tensor.dtype).max
    reach = _NEAR_ENOUGH * max(1.0, (seen.high - seen.low) / tensor.numel())
    numbers = set(literals.whole) - set(literals.integers)
    ends = [n - 1 for n in numbers if n >= _LARGE and n & (n - 1) == 0 and n - 1 <= most]
    return min((end for end in ends if 0 <= end - seen.high <= reach), default=int(seen.high))
