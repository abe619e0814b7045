"""What a module's state must be for weights to be exchanged: tensors, under names that no forward adds to or takes away."""

from __future__ import annotations

from collections.abc import Collection

import torch

from kernelagent.domain.errors import ProblemError


def require_tensors(module: torch.nn.Module, name: str) -> None:
    """Raises `ProblemError` where `state_dict` shows something else, as `get_extra_state` may."""
    others = [
        f"{entry} ({type(value).__name__})"
        for entry, value in module.state_dict().items()
        if not isinstance(value, torch.Tensor)
    ]
    if others:
        raise ProblemError(
            f"the state_dict of {name} holds what is no tensor: {', '.join(others)}. The judge exchanges weights by "
            f"tensors alone: keep it in a buffer, or leave `get_extra_state` out of the class that is judged"
        )


def require_same_entries(module: torch.nn.Module, before: Collection[str], name: str) -> None:
    """Raises `ProblemError` where a forward has registered entries, or filled or emptied buffers that may be None."""
    now = module.state_dict().keys()
    if len(now) == len(before) and now == set(before):
        return
    added, removed = sorted(set(now) - set(before)), sorted(set(before) - set(now))
    parts = [f"adds {', '.join(added)}"] if added else []
    parts += [f"takes away {', '.join(removed)}"] if removed else []
    raise ProblemError(
        f"a forward of {name} {' and '.join(parts)} in its state_dict, so that weights of before and after fit different "
        f"modules: make these buffers in the constructor, or register them with persistent=False"
    )
