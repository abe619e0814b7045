"""Tiles of an output that were computed where all others were not, as by a grid that counts one axis twice."""

from __future__ import annotations

from itertools import product

import torch

_SIZES = (16, 32, 64, 128)


def only_diagonal_right(wrong: torch.Tensor) -> tuple[int, int] | None:
    """Rows and columns of the tiles of which those on the diagonal are right and the others wrong throughout."""
    if wrong.dim() < 2 or not bool(wrong.any()) or bool(wrong.all()):
        return None
    flat = wrong.reshape(-1, *wrong.shape[-2:])
    if not bool((flat == flat[:1]).all()):
        return None
    rows, columns = flat.shape[-2:]
    for high, wide in product(_SIZES, _SIZES):
        if rows <= high or columns <= wide:
            continue
        row_tile = torch.arange(rows) // high
        column_tile = torch.arange(columns) // wide
        if torch.equal(flat[0].cpu(), row_tile[:, None] != column_tile[None, :]):
            return high, wide
    return None
