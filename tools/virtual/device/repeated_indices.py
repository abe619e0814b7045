"""torch's writes by index where several go to one place: the last stays on a CPU, any of them on a GPU.

Without deterministic algorithms the first stays here in some calls: whoever relies on the order is wrong there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

Arguments = tuple[Any, ...]


class Writes:
    """In which order this process makes them: as a CPU does unless they are `turned`."""

    def __init__(self) -> None:
        self._turned = False
        self._seen = 0

    @property
    def seen(self) -> int:
        """How many such operations this process has made; counted whether they are turned or not."""
        return self._seen

    @contextmanager
    def turned(self) -> Iterator[None]:
        """The first of several stays."""
        self._turned = True
        try:
            yield
        finally:
            self._turned = False

    def ordered(
        self, name: str, args: Arguments, named: dict[str, Any]
    ) -> tuple[Arguments, dict[str, Any]]:
        """The arguments of such an operation, where turned from the end; those of others as they are."""
        turn = _TURNS.get(name)
        self._seen += turn is not None
        if turn is None or not self._turned:
            return args, named
        rest = _NAMES.get(name.removesuffix("_"), ())[len(args) - 1 :]
        if set(named) != set(rest):
            return args, named
        every = (*args, *(named[single] for single in rest))
        if not all(isinstance(item, torch.Tensor) for item in (every[0], every[-1])):
            return args, named
        return turn(every), {}


def _scattered(args: Arguments) -> Arguments:
    if len(args) != 4 or not isinstance(args[2], torch.Tensor) or not args[2].dim():
        return args
    target, dim, index, source = args
    used = source[tuple(slice(size) for size in index.shape)]
    return target, dim, index.flip(dim), used.flip(dim)


def _copied(args: Arguments) -> Arguments:
    if len(args) != 4 or not isinstance(args[2], torch.Tensor) or not args[3].dim():
        return args
    target, dim, index, source = args
    return target, dim, index.reshape(-1).flip(0), source.flip(dim)


def _put(args: Arguments) -> Arguments:
    if len(args) != 3:
        return args
    target, key, values = args
    keys = list(key) if isinstance(key, tuple | list) else [key]
    if not all(isinstance(k, torch.Tensor | slice) for k in keys):
        return args
    indices = [k for k in keys if isinstance(k, torch.Tensor)]
    whole = indices and all(k.dtype in (torch.int32, torch.int64) for k in indices)
    if not whole or not indices[0].dim() or len({k.shape for k in indices}) != 1:
        return args
    # Where indices have slices between them, their dimensions come first; else they stand in the indices' place.
    places = [at for at, k in enumerate(keys) if isinstance(k, torch.Tensor)]
    beside = places[-1] - places[0] == len(places) - 1
    dim = places[0] if beside else 0
    sliced = [
        len(range(*k.indices(n)))
        for k, n in zip(keys, target.shape, strict=False)
        if isinstance(k, slice)
    ]
    after = [*sliced, *target.shape[len(keys) :]]
    if tuple(values.shape) != (*after[:dim], *indices[0].shape, *after[dim:]):
        # One value for several places: which of them is written last is nothing to see.
        return args
    turned = [k.flip(0) if isinstance(k, torch.Tensor) else k for k in keys]
    return (
        target,
        type(key)(turned) if isinstance(key, tuple | list) else turned[0],
        values.flip(dim),
    )


_TURNS: dict[str, Callable[[Arguments], Arguments]] = {
    "scatter": _scattered,
    "scatter_": _scattered,
    "index_copy": _copied,
    "index_copy_": _copied,
    "index_put": _put,
    "index_put_": _put,
    "__setitem__": _put,
}
_NAMES = {
    "scatter": ("dim", "index", "src"),
    "index_copy": ("dim", "index", "source"),
    "index_put": ("indices", "values"),
}
WRITES = Writes()
"""Of this process."""
