"""A tensor as the executor is told of it by a launch."""

from __future__ import annotations

import torch

from kernelagent.tools.virtual.executor.launch import TensorArgument


def tensor_argument(name: str, tensor: torch.Tensor) -> TensorArgument:
    storage = tensor.untyped_storage()
    return TensorArgument(
        name=name,
        address=tensor.data_ptr(),
        storage_address=storage.data_ptr(),
        storage_bytes=storage.nbytes(),
        item_bytes=tensor.element_size(),
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
    )
