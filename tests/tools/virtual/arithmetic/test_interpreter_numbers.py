"""Each repair of the interpreter's arithmetic, against torch."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

BF16, HALF, FLOAT = torch.bfloat16, torch.float16, torch.float32


def _values(*shape, dtype=FLOAT, scale=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator) * scale).to(dtype)


@triton.jit
def arithmetic(x_ptr, y_ptr, o_ptr, KIND: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    y = tl.load(y_ptr + at)
    if KIND == "add":
        z = x + y
    elif KIND == "sub":
        z = x - y
    elif KIND == "mul":
        z = x * y
    elif KIND == "neg":
        z = -x
    elif KIND == "max":
        z = tl.maximum(x, y)
    elif KIND == "abs":
        z = tl.abs(x)
    else:
        z = tl.where(x > y, x, y)
    tl.store(o_ptr + at, z)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("add", torch.add),
        ("sub", torch.sub),
        ("mul", torch.mul),
        ("neg", lambda x, y: -x),
        ("max", torch.maximum),
        ("abs", lambda x, y: x.abs()),
        ("where", torch.maximum),
    ],
)
@pytest.mark.parametrize("dtype", [BF16, HALF], ids=["bf16", "fp16"])
def test_16_bit_arithmetic_rounds_each_operation_like_torch(interpret, kind, expected, dtype):
    x, y = _values(4096, dtype=dtype), _values(4096, dtype=dtype, seed=1)
    out = torch.empty_like(x)
    interpret(arithmetic, (1,), x, y, out, kind, 4096)
    assert torch.equal(out, expected(x, y))


@triton.jit
def divide(x_ptr, y_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(o_ptr + at, tl.load(x_ptr + at) / tl.load(y_ptr + at))


def test_bf16_quotients_are_the_rounded_fp32_quotients(interpret):
    x, y = _values(1024, dtype=BF16), _values(1024, dtype=BF16, seed=1)
    out = torch.empty_like(x)
    interpret(divide, (1,), x, y, out, 1024)
    assert torch.equal(out, (x.float() / y.float()).to(BF16))


@triton.jit
def compare(x_ptr, y_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    greater = tl.load(x_ptr + at) > tl.load(y_ptr + at)
    tl.store(o_ptr + at, greater.to(tl.float32))


@pytest.mark.parametrize("dtype", [BF16, HALF, FLOAT], ids=["bf16", "fp16", "fp32"])
def test_a_comparison_cast_to_a_number_is_zero_or_one(interpret, dtype):
    x, y = _values(512, dtype=dtype), _values(512, dtype=dtype, seed=1)
    out = torch.empty(512)
    interpret(compare, (1,), x, y, out, 512)
    assert torch.equal(out, (x > y).float())


@triton.jit
def reduce_all(x_ptr, o_ptr, KIND: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    if KIND == "sum":
        tl.store(o_ptr, tl.sum(x, axis=0))
    elif KIND == "max":
        tl.store(o_ptr, tl.max(x, axis=0))
    elif KIND == "argmax":
        tl.store(o_ptr, tl.argmax(x, axis=0))
    else:
        tl.store(o_ptr, tl.min(x, axis=0))


def test_bf16_sums_match_float64_to_the_format_s_precision(interpret):
    x = torch.full((4096,), 1.01, dtype=BF16)
    out = torch.empty(1, dtype=BF16)
    interpret(reduce_all, (1,), x, out, "sum", 4096)
    assert float(out) == pytest.approx(float(x.double().sum()), rel=2**-8)


@pytest.mark.parametrize(("kind", "function"), [("max", torch.max), ("min", torch.min)])
def test_bf16_extremes_of_negative_numbers_are_exact(interpret, kind, function):
    x = _values(1024, dtype=BF16) - 10
    out = torch.empty(1, dtype=BF16)
    interpret(reduce_all, (1,), x, out, kind, 1024)
    assert float(out) == float(function(x))


def test_bf16_argmax_points_at_the_largest_value(interpret):
    x = _values(1024, dtype=BF16)
    out = torch.empty(1, dtype=torch.int32)
    interpret(reduce_all, (1,), x, out, "argmax", 1024)
    assert float(x[int(out)]) == float(x.max())


@triton.jit
def running_sum(x_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(o_ptr + at, tl.cumsum(tl.load(x_ptr + at), axis=0))


def test_bf16_running_sums_follow_float64(interpret):
    x = _values(256, dtype=BF16).abs()
    out = torch.empty_like(x)
    interpret(running_sum, (1,), x, out, 256)
    assert torch.allclose(out.double(), x.double().cumsum(0), rtol=2**-7)


@triton.jit
def _larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def reduce_own(x_ptr, o_ptr, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(o_ptr + tl.arange(0, R), tl.reduce(x, 1, _larger))


@pytest.mark.parametrize("dtype", [BF16, FLOAT, torch.int32], ids=["bf16", "fp32", "int32"])
def test_a_user_s_own_reduction_works_on_values(interpret, dtype):
    x = _values(8, 64, scale=100, dtype=dtype)
    out = torch.empty(8, dtype=dtype)
    interpret(reduce_own, (1,), x, out, 8, 64)
    assert torch.equal(out, x.amax(1))


@triton.jit
def _affine(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


@triton.jit
def scan_own(a_ptr, b_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    pair = (tl.load(a_ptr + at), tl.load(b_ptr + at))
    _, h = tl.associative_scan(pair, 0, _affine)
    tl.store(o_ptr + at, h)


def test_a_user_s_own_scan_computes_a_linear_recurrence(interpret):
    a, b = torch.rand(128), _values(128)
    out = torch.empty(128)
    interpret(scan_own, (1,), a, b, out, 128)
    expected, h = [], 0.0
    for factor, term in zip(a.tolist(), b.tolist(), strict=True):
        h = factor * h + term
        expected.append(h)
    assert torch.allclose(out, torch.tensor(expected), atol=1e-5)


@triton.jit
def product(a_ptr, b_ptr, o_ptr, PRECISION: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    c = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), input_precision=PRECISION)
    tl.store(o_ptr + at, c)


def _product_error(interpret, dtype, precision):
    a, b = _values(64, 64, dtype=dtype), _values(64, 64, dtype=dtype, seed=1)
    out = torch.empty(64, 64)
    interpret(product, (1,), a, b, out, precision, 64)
    return float((out.double() - a.double() @ b.double()).abs().max())


@pytest.mark.parametrize("dtype", [BF16, HALF], ids=["bf16", "fp16"])
def test_16_bit_products_accumulate_in_fp32(interpret, dtype):
    assert _product_error(interpret, dtype, "tf32") < 1e-4


def test_fp32_products_show_the_error_of_tf32(interpret):
    assert 1e-3 < _product_error(interpret, FLOAT, "tf32") < 0.1


@pytest.mark.parametrize("precision", ["ieee", "tf32x3", "bf16x6"])
def test_fp32_products_are_exact_to_fp32_where_asked(interpret, precision):
    assert _product_error(interpret, FLOAT, precision) < 1e-4


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=["e4m3", "e5m2"])
def test_fp8_products_match_float64(interpret, dtype):
    assert _product_error(interpret, dtype, "tf32") < 1e-3


def test_int8_products_are_exact(interpret):
    a = torch.randint(-128, 128, (32, 32), dtype=torch.int8)
    out = torch.empty(32, 32, dtype=torch.int32)
    interpret(product, (1,), a, a, out, "ieee", 32)
    assert torch.equal(out, a.int() @ a.int())


@triton.jit
def cast(x_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(o_ptr + at, tl.load(x_ptr + at).to(o_ptr.dtype.element_ty))


@pytest.mark.parametrize(
    ("source", "destination"),
    [(FLOAT, BF16), (HALF, BF16), (BF16, HALF), (BF16, FLOAT), (FLOAT, HALF)],
    ids=["fp32-bf16", "fp16-bf16", "bf16-fp16", "bf16-fp32", "fp32-fp16"],
)
def test_casts_round_to_nearest_even(interpret, source, destination):
    x = _values(8192, dtype=source, scale=30)
    out = torch.empty(8192, dtype=destination)
    interpret(cast, (1,), x, out, 8192)
    assert torch.equal(out, x.to(destination))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=["e4m3", "e5m2"])
def test_casts_to_fp8_round_to_nearest_even_and_saturate(interpret, dtype):
    x = torch.cat([_values(8190, scale=30), torch.tensor([1e6, -1e6])])
    out = torch.empty(8192, dtype=dtype)
    interpret(cast, (1,), x, out, 8192)
    largest = torch.finfo(dtype).max
    expected = x.clamp(-largest, largest).to(dtype)
    assert torch.equal(out.view(torch.uint8), expected.view(torch.uint8))


@triton.jit
def apply_libdevice(x_ptr, o_ptr, KIND: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    if KIND == "tanh":
        y = libdevice.tanh(x)
    elif KIND == "erf":
        y = libdevice.erf(x)
    elif KIND == "log1p":
        y = libdevice.log1p(x)
    elif KIND == "expm1":
        y = libdevice.expm1(x)
    elif KIND == "rsqrt":
        y = libdevice.rsqrt(x)
    elif KIND == "round":
        y = libdevice.round(x)
    elif KIND == "cbrt":
        y = libdevice.cbrt(x)
    elif KIND == "pow":
        y = libdevice.pow(x, x)
    elif KIND == "atan2":
        y = libdevice.atan2(x, x + 1)
    elif KIND == "fma":
        y = libdevice.fma(x, x, x)
    elif KIND == "rint":
        y = libdevice.rint(x)
    else:
        y = libdevice.lgamma(x)
    tl.store(o_ptr + at, y)


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("tanh", torch.tanh),
        ("erf", torch.erf),
        ("log1p", torch.log1p),
        ("expm1", torch.expm1),
        ("rsqrt", torch.rsqrt),
        ("round", lambda x: torch.floor(x + 0.5)),
        ("cbrt", lambda x: x ** (1 / 3)),
        ("pow", lambda x: x**x),
        ("atan2", lambda x: torch.atan2(x, x + 1)),
        ("fma", lambda x: x * x + x),
        ("rint", torch.round),
        ("lgamma", torch.lgamma),
    ],
)
def test_libdevice_matches_float64(interpret, kind, function):
    x = _values(256).abs() + 0.1
    x[0] = 2.5
    out = torch.empty(256)
    interpret(apply_libdevice, (1,), x, out, kind, 256)
    assert torch.allclose(out.double(), function(x.double()), rtol=2e-6, atol=1e-6)


@triton.jit
def builtin_math(x_ptr, o_ptr, KIND: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    if KIND == "erf":
        y = tl.math.erf(x)
    elif KIND == "sigmoid":
        y = tl.sigmoid(x)
    elif KIND == "exp2":
        y = tl.exp2(x)
    elif KIND == "rsqrt":
        y = tl.rsqrt(x)
    else:
        y = tl.log(x)
    tl.store(o_ptr + at, y)


@pytest.mark.parametrize("kind", ["erf", "sigmoid", "exp2", "rsqrt", "log"])
def test_triton_s_own_functions_match_float64(interpret, kind):
    x = _values(256).abs() + 0.1
    out = torch.empty(256)
    interpret(builtin_math, (1,), x, out, kind, 256)
    assert torch.allclose(out.double(), getattr(torch, kind)(x.double()), rtol=2e-6)


@triton.jit
def add_atomically(x_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.atomic_add(o_ptr + at % 4, tl.load(x_ptr + at))


@pytest.mark.parametrize("dtype", [BF16, HALF, FLOAT, torch.int32], ids=str)
def test_atomic_additions_to_one_place_all_arrive(interpret, dtype):
    x = torch.ones(64, dtype=dtype)
    out = torch.zeros(4, dtype=dtype)
    interpret(add_atomically, (2,), x, out, 64)
    assert out.tolist() == [32, 32, 32, 32]


def test_atomic_sums_of_halves_overflow_to_infinity_and_the_others_are_whole(interpret):
    x = torch.tensor([40000.0, -40000, 1, 65504] * 16, dtype=torch.float16).repeat(2)
    out = torch.zeros(4, dtype=torch.float16)
    interpret(add_atomically, (2,), x, out, 64)
    assert out.tolist() == [torch.inf, -torch.inf, 32, torch.inf]


@triton.jit
def whole_numbers(o_ptr):
    tl.store(o_ptr, -7 // tl.full((), 2, tl.int32))
    tl.store(o_ptr + 1, tl.full((), -7, tl.int32) % 2)
    tl.store(o_ptr + 2, tl.full((), 2147483647, tl.int32) + 1)


def test_integers_divide_and_wrap_as_on_the_gpu(interpret):
    out = torch.zeros(3, dtype=torch.int32)
    interpret(whole_numbers, (1,), out)
    assert out.tolist() == [-3, -1, -2147483648]
