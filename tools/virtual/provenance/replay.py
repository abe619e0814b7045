"""The executor's side of a forward that is done once more on values which the candidate never holds.

Beside the memory it shares with the runner it keeps a second content of every storage. The floating
inputs are the judge's own there; everything else begins as the runner has it when it is first named.
Operations and launches that the runner asks for are done on that second content as well, so a result
that came about in any other way is missing from it.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelagent.tools.calls.tensors import dtype_of
from kernelagent.tools.virtual.cost.eager import EagerRow, EagerTraffic
from kernelagent.tools.virtual.device.conversions import to_tf32
from kernelagent.tools.virtual.device.storages.arena import Arena
from kernelagent.tools.virtual.executor.requests import Forged, StorageRow, storage_rows

MOST_TOLD = 64
"""Hidden numbers that a forward may ask for, as `.item()` does."""
_MOST_BYTES = 1 << 36


class Replay:
    """One forward on hidden values."""

    def __init__(self, hidden: Sequence[torch.Tensor | None]) -> None:
        """`hidden`: for each tensor among the inputs its other value, None where it is the same."""
        self._hidden = hidden
        self._contents: dict[int, torch.Tensor] = {}
        self.outputs: list[torch.Tensor] = []
        self.rows: list[EagerRow] = []
        """What torch computed."""
        self.told = 0
        self.failure: str | None = None
        """Why the forward could not be done on the hidden values."""

    def step(self, request: Mapping[str, Any], arena: Arena) -> dict[str, Any]:
        """Do what the runner has done; an operation that returns a plain value is answered with it."""
        storages = storage_rows(request)
        arena.ensure(int(request["arena_bytes"]))
        what = request["what"]
        if self.failure is not None:
            return {}
        for row in storages:
            self.know(row, arena.memory)
        try:
            return self._done(what, storages)
        except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError) as error:
            name = what.get("name", what["kind"])
            self.failure = f"{name}: {str(error).splitlines()[0][:200]}"
            return {}

    def _done(self, what: Mapping[str, Any], storages: Sequence[StorageRow]) -> dict[str, Any]:
        match what["kind"]:
            case "inputs":
                self._bind(what["tensors"], storages)
            case "operation":
                return self._operate(what, storages)
            case "rounded":
                self._result(what["result"], to_tf32(self._value(what["factor"], storages)))
            case "outputs":
                self.outputs = [
                    self._opened(spec["tensor"], storages).resolve_conj().resolve_neg().clone()
                    for spec in what["tensors"]
                ]
            case kind:
                raise Forged(f"nothing is replayed that is called {kind!r:.60}")
        return {}

    def know(self, row: StorageRow, memory: mmap.mmap) -> None:
        """Take a storage that was never named, or has another size now, as the runner has it."""
        known = self._contents.get(row.identity)
        if row.empty or (known is not None and known.numel() == row.bytes):
            return
        content = torch.empty(row.bytes, dtype=torch.uint8)
        if row.bytes:
            shared = torch.frombuffer(memory, dtype=torch.uint8, count=row.bytes, offset=row.at)
            content.copy_(shared)
        self._contents[row.identity] = content

    def fill(self, rows: Sequence[StorageRow], memory: mmap.mmap) -> None:
        """The hidden contents, into memory that is laid out as a launch's."""
        for row, private in _within(rows, memory):
            private.copy_(self._contents[row.identity])

    def take(self, rows: Sequence[StorageRow], memory: mmap.mmap) -> None:
        """What a launch left there."""
        for row, private in _within(rows, memory):
            self._contents[row.identity].copy_(private)

    def _bind(self, specs: Sequence[Any], storages: Sequence[StorageRow]) -> None:
        if len(specs) != len(self._hidden):
            raise Forged("the inputs are not those that were sent")
        for spec, value in zip(specs, self._hidden, strict=True):
            if value is not None:
                _write(self._opened(spec["tensor"], storages), value)

    def _operate(self, what: Mapping[str, Any], storages: Sequence[StorageRow]) -> dict[str, Any]:
        operation = _operation(str(what["name"]))
        args = [self._value(value, storages) for value in what["args"]]
        kwargs = {str(k): self._value(v, storages) for k, v in what["kwargs"].items()}
        with EagerTraffic(None) as traffic, torch.no_grad():
            leaves = tree_leaves(operation(*args, **kwargs))
        self.rows += traffic.rows
        places = what["results"]
        if len(places) != len(leaves):
            raise Forged(f"{what['name']} has not {len(places)} results")
        for place, leaf in zip(places, leaves, strict=True):
            if isinstance(leaf, torch.Tensor) and place is not None:
                self._result(place, leaf)
            elif isinstance(leaf, bool | int | float):
                return self._plain(leaf)
        return {}

    def _plain(self, value: bool | int | float) -> dict[str, Any]:
        self.told += 1
        if self.told > MOST_TOLD:
            return {}
        return {"value": value}

    def _result(self, place: Mapping[str, Any], value: torch.Tensor) -> None:
        identity, size = place["identity"], place["bytes"]
        if type(identity) is not int or type(size) is not int or not 0 <= size <= _MOST_BYTES:
            raise Forged("where a result lies is not described")
        if list(value.shape) != place["shape"]:
            raise ValueError("its result has another shape on other values")
        known = self._contents.get(identity)
        if known is None or known.numel() != size:
            self._contents[identity] = torch.zeros(size, dtype=torch.uint8)
        _view(self._contents[identity], place).copy_(value)

    def _value(self, reported: Any, storages: Sequence[StorageRow]) -> Any:
        if not isinstance(reported, dict):
            return reported
        match reported:
            case {"tensor": spec}:
                return self._opened(spec, storages)
            case {"items": items}:
                return [self._value(item, storages) for item in items]
            case {"device": _}:
                return torch.device("cpu")
            case {"torch": str(name)}:
                value = getattr(torch, name, None)
                if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
                    return value
        raise Forged("an argument of an operation is not described")

    def _opened(self, spec: Mapping[str, Any], storages: Sequence[StorageRow]) -> torch.Tensor:
        row = storages[int(spec["storage"])]
        if row.empty:
            raise Forged("a tensor that holds nothing has no second content")
        value = _view(self._contents[row.identity], spec)
        value = value.conj() if spec.get("conj") else value
        return torch._neg_view(value) if spec.get("neg") else value


def _write(place: torch.Tensor, value: torch.Tensor) -> None:
    """Along dimensions of stride 0 all elements are one, and it is written once."""
    for dim, (size, stride) in enumerate(zip(place.shape, place.stride(), strict=True)):
        if stride == 0 and size > 1:
            place, value = place.narrow(dim, 0, 1), value.narrow(dim, 0, 1)
    place.copy_(value)


def _view(content: torch.Tensor, spec: Mapping[str, Any]) -> torch.Tensor:
    """Raises `RuntimeError` when it reaches beyond the storage."""
    dtype = dtype_of(str(spec["dtype"]))
    whole = content.numel() // dtype.itemsize
    typed = content[: whole * dtype.itemsize].view(dtype)
    return typed.as_strided(spec["shape"], spec["strides"], int(spec["offset"]) // dtype.itemsize)


def _operation(name: str) -> Any:
    """An operation of torch's own by its full name, such as `aten::add.Tensor`."""
    space, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    if space != "aten" or "from_file" in packet:
        raise Forged(f"{name!r:.80} is no operation that is replayed")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _within(rows: Sequence[StorageRow], memory: mmap.mmap) -> list[tuple[StorageRow, torch.Tensor]]:
    return [
        (row, torch.frombuffer(memory, dtype=torch.uint8, count=row.bytes, offset=row.at))
        for row in rows
        if row.bytes and not row.empty
    ]
