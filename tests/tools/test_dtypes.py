"""The one table of floating-point types agrees with torch, triton and numpy."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl

from kernelagent.tools.dtypes import FLOATS, FloatType, name_of, product_kind


@pytest.mark.parametrize("row", FLOATS, ids=lambda row: name_of(row.torch))
def test_a_row_says_of_its_type_what_the_libraries_say(row: FloatType) -> None:
    bits = row.torch.itemsize * 8
    if row.triton is not None:
        assert getattr(tl, row.triton).primitive_bitwidth == bits
    if row.numpy is not None:
        assert torch.zeros(1, dtype=row.torch).numpy().dtype == row.numpy
    if row.range_of_float32:
        assert torch.finfo(row.torch).smallest_normal == torch.finfo(torch.float32).smallest_normal


def test_every_floating_type_of_one_or_more_bytes_that_torch_has_is_in_the_table() -> None:
    known = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    floats = {dtype for dtype in known if dtype.is_floating_point}
    packed = {dtype for dtype in floats if name_of(dtype).endswith("_x2")}
    assert {row.torch for row in FLOATS} == floats - packed


def test_products_have_the_names_of_the_tables_of_peak_rates() -> None:
    names = ("float32", "bfloat16", "float8_e4m3fn", "int8")
    assert [product_kind(name) for name in names] == ["fp32", "bf16", "fp8", "int8"]
