"""Which tensors of a forward would lie in the host's memory on a machine with a GPU.

On the virtual device all of them are the same memory; a tensor that is made without `device=` works there, and
is refused by Triton, or by torch beside tensors of the GPU, at the first call of a user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

_FACTORIES = frozenset(
    """empty zeros ones full arange range linspace logspace eye rand randn randint randperm tensor
    scalar_tensor as_tensor asarray empty_strided tril_indices triu_indices from_numpy frombuffer hann_window
    hamming_window bartlett_window blackman_window kaiser_window""".split()
)
_JOINING = frozenset("cat stack concat concatenate hstack vstack matmul mm bmm __matmul__".split())
"""Operations that take no tensor of the host beside one of the GPU, whatever their shapes."""
_FROM_PYTHON = frozenset({"tensor", "as_tensor", "asarray", "new_tensor"})
"""Factories that take numbers of the host, wherever the tensor is to lie."""
_TO_NUMPY = frozenset({"numpy", "__array__", "__dlpack__"})
_PRODUCTS = frozenset(
    """matmul mm bmm mv addmm addmv addbmm baddbmm linear __matmul__ __rmatmul__ dot vdot inner tensordot conv1d conv2d
    conv3d conv_transpose1d conv_transpose2d conv_transpose3d avg_pool1d avg_pool2d avg_pool3d""".split()
)
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))
_KEPT_AT_MOST = 256
"""Marks after which those of freed memory are let go of."""


class HostTensors:
    """Storages that a forward made on the host; nothing is noted outside `watching`."""

    def __init__(self) -> None:
        self._marks: dict[int, StorageWeakRef] = {}
        self._watching = False
        self._copied: dict[str, None] = {}

    @property
    def copied(self) -> list[str]:
        """By which of torch's functions the last forward has copied between the host and the GPU."""
        return list(self._copied)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A forward of the candidate's."""
        self._watching = True
        self._copied = {}
        try:
            yield
        finally:
            self._watching = False

    def placed(self, module: torch.nn.Module) -> None:
        """A module that was just made has gone to the GPU, as `.to` takes it: parameters and buffers, nothing else."""
        for tensor in (*module.parameters(), *module.buffers()):
            if _has_storage(tensor):
                self._marks.pop(tensor.untyped_storage()._cdata, None)

    def left_on_the_gpu(self, module: torch.nn.Module) -> list[str]:
        """Attributes of a module that was just made whose tensors lie there, and which `.to` will never move."""
        held = (*module.parameters(), *module.buffers())
        own = {t.untyped_storage()._cdata for t in held if _has_storage(t)}
        names = []
        for path, part in module.named_modules():
            for name, value in vars(part).items():
                # What every module has, its parameters among it, begins so.
                if name.startswith("_") and name in _OF_EVERY_MODULE:
                    continue
                tensors = [leaf for leaf in tree_leaves(value) if _has_storage(leaf)]
                if any(
                    t.untyped_storage()._cdata not in own and not self.holds(t) for t in tensors
                ):
                    names.append(".".join(filter(None, (path, name))))
        return names

    def holds(self, tensor: Any) -> bool:
        """Whether it lies on the host."""
        if not self._marks or not _has_storage(tensor):
            return False
        mark = self._marks.get(tensor.untyped_storage()._cdata)
        return mark is not None and not mark.expired()  # type: ignore[no-untyped-call]

    def made(self, name: str, device: Any, args: tuple[Any, ...], result: Any) -> None:
        """`name` of torch's has returned `result`; `device`: as it was given, None where it was not."""
        if not self._watching or not isinstance(result, torch.Tensor):
            return
        if name in _FACTORIES and args and isinstance(args[0], torch.Tensor):
            # `torch.tensor(t)` and the methods `t.new_...` stay where `t` is.
            wanted = device is not None and _is_host(device)
        elif name in _FACTORIES:
            wanted = device is None or _is_host(device)
            if name in _FROM_PYTHON and not wanted:
                self._copied[name] = None
        elif name == "new_tensor":
            wanted = device is not None and _is_host(device)
            if not wanted and not self.holds(args[0]):
                self._copied[name] = None
        else:
            wanted = self._of_host_only(args)
        if wanted and _has_storage(result):
            self._mark(result)

    def moved(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """What `.to`, `.type_as`, `.cuda` or `.cpu` of a tensor gives where that is another memory; None where it is not."""
        if not self._watching or not args or not _has_storage(args[0]):
            return None
        given = (*args[1:], *kwargs.values())
        beside = [item for item in given if isinstance(item, torch.Tensor)]
        to_host = name == "cpu" or any(map(_is_host, given)) or any(map(self.holds, beside))
        to_gpu = name == "cuda" or any(_is_device(item) and not _is_host(item) for item in given)
        to_gpu |= any(not self.holds(item) for item in beside)
        here = self.holds(args[0])
        if not (to_gpu and here) and not (to_host and not here):
            return None
        with torch._C.DisableTorchFunction():
            fresh = args[0].clone()
        self._copied[name] = None
        if to_host:
            self._mark(fresh)
        return fresh

    def written(self, name: str, args: tuple[Any, ...]) -> None:
        """`copy_`, or an assignment to elements, takes what lies elsewhere to where its tensor lies."""
        if not self._watching or name not in ("copy_", "__setitem__") or len(args) < 2:
            return
        target, given = args[0], args[-1] if name == "__setitem__" else args[1]
        if _has_storage(target) and _has_storage(given) and self.holds(target) != self.holds(given):
            self._copied[name] = None

    def on_the_gpu(self, tensor: torch.Tensor) -> torch.Tensor:
        """What `.cuda()` gives."""
        fresh = self.moved("cuda", (tensor,), {})
        return tensor if fresh is None else fresh

    def require_on_host(self, name: str, args: tuple[Any, ...]) -> None:
        """Raises `TypeError`, as torch does on a GPU, where numpy is to read a tensor of the GPU."""
        if (
            self._watching
            and name in _TO_NUMPY
            and _has_storage(args[0])
            and not self.holds(args[0])
        ):
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
                "memory first."
            )

    def require_one_place(self, name: str, args: tuple[Any, ...]) -> None:
        """Raises `RuntimeError`, as torch does on a GPU, where an operation gets tensors of both."""
        if not self._marks or name not in _JOINING:
            return
        tensors = [leaf for leaf in tree_leaves(args) if _has_storage(leaf)]
        places = {self.holds(tensor) for tensor in tensors}
        if len(places) > 1:
            raise RuntimeError(
                f"Expected all tensors to be on the same device: torch.{name} is given tensors of cuda:0 and cpu; "
                f"make them with device=x.device"
            )

    def require_product_of_floats(self, name: str, args: tuple[Any, ...]) -> None:
        """Raises `NotImplementedError`, as torch does on a GPU, for a product or a pooling of integers there."""
        if not self._watching or name not in _PRODUCTS:
            return
        for tensor in args:
            whole = _has_storage(tensor) and not (tensor.is_floating_point() or tensor.is_complex())
            if whole and not self.holds(tensor):
                raise NotImplementedError(
                    f"torch.{name} is not implemented for {tensor.dtype} on a GPU, though it is on a CPU"
                )

    def _of_host_only(self, args: tuple[Any, ...]) -> bool:
        if not self._marks:
            return False
        tensors = [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)]
        return bool(tensors) and all(map(self.holds, tensors))

    def _mark(self, tensor: torch.Tensor) -> None:
        if len(self._marks) > _KEPT_AT_MOST:
            marks = self._marks.items()
            self._marks = {key: ref for key, ref in marks if not ref.expired()}  # type: ignore[no-untyped-call]
        storage = tensor.untyped_storage()
        # Held weakly, so that the number names no other memory while it is here.
        self._marks[storage._cdata] = StorageWeakRef(storage)  # type: ignore[no-untyped-call]


def _has_storage(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and value.device.type == "cpu"
    )


def _is_device(value: Any) -> bool:
    if isinstance(value, torch.device):
        return True
    return isinstance(value, str) and value.split(":")[0] in ("cpu", "cuda")


def _is_host(value: Any) -> bool:
    return _is_device(value) and str(value).split(":")[0] == "cpu"


HOST_TENSORS = HostTensors()
"""Of this process, which runs one candidate."""
