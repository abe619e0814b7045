"""All inputs far smaller at once: products of two of them, or squares, then leave the range of a type before either does."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like, observe
from kernelagent.tools.judge.problem.trials.unlike import SIZED, Unlike, wide

_OCTAVES = (-40, -80)
"""About 1e-12 and 1e-24 of their natural size."""
_ROOM = 2.0**10
"""Above the least normal number of the type."""


def scaled_together(natural: Tensors) -> Iterator[Unlike]:
    """All that have a size, by the same power of two; nothing where their types have no such numbers."""
    sized = {
        name: tensor
        for name, tensor in natural.items()
        if tensor.is_floating_point()
        and tensor.numel()
        and observe(tensor).kind in SIZED
        and observe(tensor).scale > 0
    }
    for octaves in _OCTAVES if sized else ():
        factor = 2.0**octaves
        if any(
            observe(t).scale * factor < _ROOM * torch.finfo(t.dtype).tiny for t in sized.values()
        ):
            return
        changed = {
            name: laid_out_like((wide(t) * factor).to(t.dtype), t) for name, t in sized.items()
        }
        held = "and the other inputs are as large as your draws are"
        yield Unlike(
            "magnitudes",
            held,
            f"all of them 2^{-octaves} times as small",
            next(iter(sized)),
            changed,
        )
