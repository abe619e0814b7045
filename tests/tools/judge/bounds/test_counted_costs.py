from __future__ import annotations

import pytest

from kernelagent.tools.judge.bounds.counted_costs import rows_aligned


@pytest.mark.parametrize(
    ("shapes", "aligned"),
    [
        ([((64, 1024), "float32")], True),
        ([((64, 1023), "float32")], False),
        ([((64, 1026), "float16")], False),
        ([((64, 1023), "float32"), ((64, 1024), "float32")], True),
        ([((1 << 24,), "float32"), ((8, 3), "float32")], None),
        ([((4096,), "float32"), ((4096, 1), "float32"), ((), "float32")], None),
    ],
)
def test_rows_that_begin_at_multiples_of_16_bytes_are_told_from_others(
    shapes: list[tuple[tuple[int, ...], str]], aligned: bool | None
) -> None:
    tensors = [{"name": "x", "shape": list(shape), "dtype": dtype} for shape, dtype in shapes]
    assert rows_aligned(tensors) is aligned
