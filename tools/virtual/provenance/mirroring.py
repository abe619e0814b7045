"""The runner's side of a forward that is done once more on values which this process does not hold.

While it is entered every operation of torch is told to the executor, which does the same on the values
that only it has (`virtual.provenance.replay`); launches go there anyway. What numpy, a thread, an operator with
the modes switched off or Python itself computes is not told, so its result is missing there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelagent.tools.calls.higher_order import by_its_own_code, is_higher_order, still_entered
from kernelagent.tools.virtual.device.driver import Remote
from kernelagent.tools.virtual.device.storages.storage_transfer import StorageTransfer

_ON_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_SILENT = frozenset("set_ resize_ record_stream is_same_size".split())
"""They bring no values; a storage whose size changed is told anew with what it holds."""


class Mirroring(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """One forward; storages are kept alive so that none of their identities comes twice."""

    supports_higher_order_operators = True

    def __init__(self, remote: Remote) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._remote = remote
        self._kept: list[Any] = remote.keeping()

    def begin(self, inputs: Iterable[torch.Tensor]) -> None:
        """Say where the inputs lie; the executor has other values for the floating ones."""
        self._tell("inputs", list(inputs))

    def rounded(self, factor: torch.Tensor, copy: torch.Tensor) -> None:
        """Say that `copy` is what a convolution takes in the place of `factor`."""
        transfer = StorageTransfer(self._remote.arena)
        with torch._C.DisableTorchFunction():
            reported = _encoded(factor, transfer)
            transfer.copy_in()
            self._kept += [tensor.untyped_storage() for tensor in (factor, copy)]
            told = {"kind": "rounded", "factor": reported, "result": _place(copy)}
            self._remote.replayed(transfer, told)

    def end(self, outputs: Iterable[torch.Tensor]) -> None:
        """Say where the outputs lie."""
        self._tell("outputs", list(outputs))

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        self._remote.keep_none()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if is_higher_order(func):
            return by_its_own_code(self, func, args, kwargs)
        kwargs = kwargs or {}
        name = str(func.overloadpacket).partition(".")[2]
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if func.namespace != "aten":
            with still_entered(self):
                # Straight to its own code, so that what it calls of torch comes by here.
                return func.redispatch(_ON_CPU, *args, **kwargs)
        if func.is_view or not tensors or name in _SILENT:
            return func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            transfer = StorageTransfer(self._remote.arena)
            reported = [_encoded(value, transfer) for value in args]
            named = {key: _encoded(value, transfer) for key, value in kwargs.items()}
            transfer.copy_in()
        result = func(*args, **kwargs)
        leaves = tree_leaves(result)
        with torch._C.DisableTorchFunction():
            places = [_place(leaf) if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
            self._kept += [t.untyped_storage() for t in (*tensors, *leaves) if _is_tensor(t)]
            answer = self._remote.replayed(
                transfer, {"kind": "operation", "name": func.name(), "args": reported, "kwargs": named,
                        "results": places}
            )  # fmt: skip
        value = answer.get("value")
        # A plain value is the one place where a hidden number comes back: the executor counts them.
        return type(result)(value) if value is not None and not _is_tensor(result) else result

    def _tell(self, kind: str, tensors: list[torch.Tensor]) -> None:
        transfer = StorageTransfer(self._remote.arena)
        with torch._C.DisableTorchFunction():
            places = [_encoded(tensor, transfer) for tensor in tensors]
            transfer.copy_in()
            self._kept += [tensor.untyped_storage() for tensor in tensors]
            self._remote.replayed(transfer, {"kind": kind, "tensors": places})


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _place(tensor: torch.Tensor) -> dict[str, Any]:
    """Where a result lies, whatever it holds."""
    storage = tensor.untyped_storage()
    return {
        "identity": storage._cdata,
        "bytes": storage.nbytes(),
        **StorageTransfer.described(tensor),
    }


def _encoded(value: Any, transfer: StorageTransfer) -> Any:
    if isinstance(value, torch.Tensor):
        lazily = {"conj": value.is_conj(), "neg": value.is_neg()}
        return {"tensor": {**transfer.tensor(value), **lazily}}
    if isinstance(value, list | tuple):
        return {"items": [_encoded(item, transfer) for item in value]}
    if isinstance(value, torch.device):
        return {"device": "cpu"}
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return {"torch": str(value).removeprefix("torch.")}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"unknown": type(value).__name__}
