"""The shape of a padded tensor whose sizes are variables: torch's own rule for it would make numbers of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_impls import register_op_impl


@register_op_impl(torch.ops.aten.constant_pad_nd.default)
def _padded(
    mode: Any, operator: Any, images: torch.Tensor, widths: Sequence[Any], value: Any = 0
) -> Any:
    sizes = list(images.shape)
    varies = any(isinstance(size, torch.SymInt) for size in (*sizes, *widths))
    # What is only cut off is copied as it lies, anything else in order.
    plain = suggest_memory_format(images) == torch.contiguous_format
    in_order = images.is_contiguous() or (plain and any(width > 0 for width in widths))
    if not varies or not in_order:
        return NotImplemented
    for axis, (before, after) in enumerate(zip(widths[::2], widths[1::2], strict=True), 1):
        sizes[-axis] += before + after
    with mode:
        return images.new_empty(sizes)
