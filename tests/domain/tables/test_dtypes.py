"""The one table of floating-point types agrees with torch, triton and numpy."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import triton.language as tl

from kernelagent.domain.tables.dtypes import FLOATS, FloatType, half_ulp, product_kind
from kernelagent.tools.calls.torch_dtypes import FLOAT_TYPES, name_of


@pytest.mark.parametrize("row", FLOATS, ids=lambda row: row.name)
def test_a_row_says_of_its_type_what_the_libraries_say(row: FloatType) -> None:
    dtype = getattr(torch, row.name)
    assert dtype.itemsize * 8 == row.bits
    if row.triton is not None:
        assert getattr(tl, row.triton).primitive_bitwidth == row.bits
    if row.numpy:
        assert torch.zeros(1, dtype=dtype).numpy().dtype == row.name
    if row.range_of_float32:
        assert torch.finfo(dtype).smallest_normal == torch.finfo(torch.float32).smallest_normal


NARROWER = [row for row in FLOATS if row.name != "float64"]


@pytest.mark.parametrize("row", NARROWER, ids=lambda row: row.name)
def test_a_type_has_the_next_number_after_one_and_not_what_lies_half_way(row: FloatType) -> None:
    half = half_ulp(row.name)
    assert half is not None
    exact = torch.tensor([1 + 2 * half, 1 + half], dtype=torch.float64)
    assert (exact.to(getattr(torch, row.name)).double() == exact).tolist() == [True, False]


def test_half_an_ulp_of_float64_is_what_torch_says() -> None:
    assert half_ulp("float64") == torch.finfo(torch.float64).eps / 2


def test_what_is_no_floating_type_has_no_ulp() -> None:
    assert half_ulp("int8") is None


def test_float8_e4m3fn_is_the_one_that_nvidia_gpus_multiply() -> None:
    row = FLOAT_TYPES[torch.float8_e4m3fn]
    assert (row.name, row.triton, row.product) == ("float8_e4m3fn", "float8e4nv", "fp8")
    assert str(tl.float8e4nv) == "fp8e4nv"


def test_every_floating_type_of_one_or_more_bytes_that_torch_has_is_in_the_table() -> None:
    known = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    floats = {dtype for dtype in known if dtype.is_floating_point}
    packed = {dtype for dtype in floats if name_of(dtype).endswith("_x2")}
    assert FLOAT_TYPES.keys() == floats - packed


def test_products_have_the_names_of_the_tables_of_peak_rates() -> None:
    names = ("float32", "bfloat16", "float8_e4m3fn", "int8")
    assert [product_kind(name) for name in names] == ["fp32", "bf16", "fp8", "int8"]


def test_a_report_reads_the_table_without_torch() -> None:
    code = "import sys, kernelagent.report.files; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
