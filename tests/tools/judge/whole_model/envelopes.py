"""What a part was verified on, as the envelope of its emitted module holds it."""

from __future__ import annotations


def taken(
    shape: list[int], dtype: str = "float32", strides: list[int] | None = None
) -> dict[str, object]:
    """One input set of one tensor; without `strides` a contiguous one."""
    if strides is None:
        strides = [1]
        for size in reversed(shape[1:]):
            strides.insert(0, strides[0] * size)
    row = {"dtype": dtype, "shape": shape, "strides": strides}
    return {"input_sets": [{"name": "default", "args": [row], "kwargs": {}}]}
