"""What torch's settings let float32 products and convolutions on a GPU be rounded to.

Since torch 2.9 there are two ways to set it, and the older names raise where the newer was used.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import _C

MatmulPrecision = Literal["highest", "high", "medium"]


def matmul_precision() -> MatmulPrecision:
    """Of matrix products, in the words of `torch.set_float32_matmul_precision`."""
    try:
        precision: MatmulPrecision = torch.get_float32_matmul_precision()  # type: ignore[assignment]
    except RuntimeError:
        # It was set as `torch.backends.cuda.matmul.fp32_precision`, which has no "medium".
        return "high" if _C._get_fp32_precision_getter("cuda", "matmul") == "tf32" else "highest"
    return precision


def convolutions_round() -> bool:
    """Whether convolutions may be rounded to tf32, as they may be unless a user says otherwise."""
    return bool(_C._get_fp32_precision_getter("cuda", "conv") == "tf32")


def is_depthwise(channels: int, groups: int, *, transposed: bool) -> bool:
    """A convolution of each channel by itself: a GPU has kernels of torch's own for it, which stay in float32
    (`is_depthwise` in ATen)."""
    return groups > 1 and not transposed and channels == groups


def recurrences_round() -> bool:
    """Whether LSTMs and the like may be rounded to tf32."""
    return bool(_C._get_fp32_precision_getter("cuda", "rnn") == "tf32")
