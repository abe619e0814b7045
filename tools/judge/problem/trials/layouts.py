"""How a tensor lies in memory: its strides at another shape, and values laid out as another tensor is."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def with_loose_ones(tensor: torch.Tensor) -> torch.Tensor:
    """Dimensions of one element with a stride of their own, which means nothing; other tensors as they are."""
    if 1 not in tensor.shape or tensor.layout != torch.strided or not tensor.is_contiguous():
        return tensor
    strides = tuple(
        2 * stride + 1 if size == 1 else stride
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return with_strides(tensor.detach(), strides).requires_grad_(tensor.requires_grad)


def in_layout_of(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`values`, moved where they do not lie in memory as `like` does; of another shape they stay where they are."""
    if values.shape != like.shape or values.stride() == like.stride():
        return values
    return with_strides(values.detach(), like.stride()).requires_grad_(values.requires_grad)


def with_strides(values: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The same values with these strides, in memory of their own; elements that share a place share one value."""
    expanded = [
        size > 1 and stride == 0 for size, stride in zip(values.shape, strides, strict=True)
    ]
    base = values[tuple(slice(0, 1) if repeated else slice(None) for repeated in expanded)]
    if _overlaps(base.shape, strides):
        laid_out = _scattered(base, strides)
    else:
        laid_out = torch.empty_strided(
            base.shape, strides, dtype=values.dtype, device=values.device
        )
        laid_out.copy_(base)
    return laid_out.expand(values.shape) if any(expanded) else laid_out


def strides_at(shape: Sequence[int], like: torch.Tensor) -> tuple[int, ...]:
    """The strides of `like` at another shape: what lies next to what stays, gaps grow with what they stand beside."""
    if like.is_contiguous():
        return row_major(shape)
    return scaled_strides(like.shape, usual_strides(like), shape)


def usual_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Its strides; that of a dimension of one element, which says nothing, as if it had more."""
    result = list(tensor.stride())
    within = 1
    for dim in sorted(range(tensor.dim()), key=lambda d: (tensor.stride(d), -d)):
        if tensor.shape[dim] == 1:
            result[dim] = within
        elif result[dim]:
            within = result[dim] * tensor.shape[dim]
    return tuple(result)


def scaled_strides(
    old: Sequence[int], strides: Sequence[int], new: Sequence[int]
) -> tuple[int, ...]:
    """Each stride grows as the dimensions within it do; the emitted module asks for the same (`_strides_at`)."""
    result = []
    for dim, stride in enumerate(strides):
        now, was = 1, 1
        for other, step in enumerate(strides):
            if step and (step, -other) < (stride, -dim):
                now, was = now * new[other], was * old[other]
        result.append(-(-stride * now // was) if was else stride)
    return tuple(result)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(torch.empty(tuple(shape), device="meta").stride())


def _overlaps(shape: torch.Size, strides: tuple[int, ...]) -> bool:
    reach = 0
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


def _scattered(values: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """Overlapping elements share one of their values."""
    places = torch.zeros(values.shape, dtype=torch.int64, device=values.device)
    for dim, (size, stride) in enumerate(zip(values.shape, strides, strict=True)):
        along = torch.arange(size, device=values.device) * stride
        places += along.reshape([-1 if d == dim else 1 for d in range(values.dim())])
    storage = values.new_zeros(int(places.amax()) + 1)
    storage[places.reshape(-1)] = values.reshape(-1)
    return storage.as_strided(values.shape, strides)
