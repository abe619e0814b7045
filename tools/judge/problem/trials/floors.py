"""Numbers about as small as those that a module adds or clamps to, and zeros: dead channels, silence, first steps.

A module's `eps` decides nothing on ordinary numbers, so that a candidate may leave it out, move it to the other side of
a root, or take the larger in the place of a sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like, observe
from kernelagent.tools.judge.problem.trials.unlike import SIZED, Unlike, in_drawn_order, wide

_LARGEST = 1e-3
"""Of the numbers of a module; larger ones are seldom there to keep something off zero."""
_USUAL = 1e-5, 1e-8, 1e-12
"""Added by whoever writes a kernel, where the module has none."""
_BELOW = 0.05
"""Of the natural size: what is above decides something in the judged calls too."""
_OCTAVES = 3.0
_SHARE = 0.5
_ZEROS = 0.2
_MOST_ALONE = 2
_TRIED = "numbers about as small as those that a module adds or clamps to"
_HELD = "holds no numbers near the small ones of your module's text (an eps)"


def floors_of(module: torch.nn.Module, literals: Sequence[float]) -> tuple[float, ...]:
    """The small numbers of a module: of its text, of its parts' attributes, and usual ones."""
    kept = (value for part in module.modules() for value in vars(part).values())
    numbers = (*literals, *(float(v) for v in kept if isinstance(v, float)), *_USUAL)
    return tuple(sorted({abs(number) for number in numbers if 0 < abs(number) <= _LARGEST}))


def at_floors(
    tensors: Tensors, floors: Sequence[float], generator: torch.Generator
) -> Iterator[Unlike]:
    """Half of the elements near a floor, its square or its root: of all tensors of a shape at once, then of each.

    Twice each, the second time with zeros among them.
    """
    able = {name: tensor for name, tensor in tensors.items() if _targets(tensor, floors)}
    order = in_drawn_order([*able], generator)
    groups = [[name] for name in order[:_MOST_ALONE]]
    for name in order:
        alike = [other for other in order if able[other].shape == able[name].shape]
        if len(alike) > 1:
            groups.insert(0, alike)
            break
    for group in groups:
        for zeros in (0.0, _ZEROS):
            first = able[group[0]]
            places = torch.rand(first.shape, generator=generator) < _SHARE
            changed = {
                name: _at_floors(able[name], floors, places, zeros, generator) for name in group
            }
            tried = f"{_TRIED}{', and zeros,' if zeros else ''}"
            yield Unlike("floors", _HELD, tried, group[0], changed)


def _at_floors(
    tensor: torch.Tensor,
    floors: Sequence[float],
    places: torch.Tensor,
    zeros: float,
    generator: torch.Generator,
) -> torch.Tensor:
    values, targets = wide(tensor), torch.tensor(_targets(tensor, floors), dtype=torch.float64)
    which = torch.randint(len(targets), tensor.shape, generator=generator)
    octaves = _OCTAVES * (2 * torch.rand(tensor.shape, generator=generator) - 1)
    small = targets[which] * torch.exp2(octaves)
    small[torch.rand(tensor.shape, generator=generator) < zeros] = 0.0
    if float(values.min()) < 0:
        small[torch.rand(tensor.shape, generator=generator) < 0.5] *= -1
    changed = torch.where(places.to(values.device), small.to(values), values)
    return laid_out_like(changed.to(tensor.dtype), tensor)


def _targets(tensor: torch.Tensor, floors: Sequence[float]) -> list[float]:
    """Of a tensor of any numbers; empty for masks, tables of a few values, and zeros alone."""
    if not tensor.is_floating_point() or not tensor.numel() or torch.finfo(tensor.dtype).bits < 16:
        return []
    seen = observe(tensor)
    ones = seen.constant and seen.low > 0
    if not (ones or seen.kind in SIZED) or seen.scale == 0:
        return []
    least = 2**_OCTAVES * torch.finfo(tensor.dtype).tiny
    near = {power for floor in floors for power in (floor, floor**2, floor**0.5)}
    return sorted(n for n in near if least <= n <= _BELOW * seen.scale)
