"""A buffer of a module's own given to it as an input, as `m(m.h)` does."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map


def with_own_state(module: torch.nn.Module, arguments: Any, entry: str) -> Any:
    """The arguments with this buffer in the place of the first tensor of its shape and type; as they are without one."""
    own = dict(module.named_buffers()).get(entry)
    if own is None:
        return arguments
    given = False

    def replaced(leaf: Any) -> Any:
        nonlocal given
        if given or not fits(own, leaf):
            return leaf
        given = True
        return own

    return tree_map(replaced, arguments)


def fits(own: torch.Tensor, leaf: Any) -> bool:
    """Whether it can be given in the place of `leaf`."""
    return isinstance(leaf, torch.Tensor) and (own.shape, own.dtype) == (leaf.shape, leaf.dtype)
