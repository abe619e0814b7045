"""What of an input the windows of a convolution or a pooling meet: with strides and dilations some of it lies between them."""

from __future__ import annotations

from collections.abc import Sequence


def read_share(
    sizes: Sequence[int],
    windows: Sequence[int],
    results: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
) -> float:
    """Share of the rows that any window meets, 0 to 1; all arguments by spatial dimension.

    Of the last dimension all counts: what lies between two elements that are read comes with them.
    """
    share = 1.0
    by_dimension = zip(sizes, windows, results, strides, paddings, dilations, strict=True)
    for size, window, result, stride, padding, dilation in list(by_dimension)[:-1]:
        met = {
            place
            for first in range(-padding, -padding + result * stride, stride)
            for place in range(first, first + window * dilation, dilation)
            if 0 <= place < size
        }
        share *= len(met) / max(1, size)
    return share
