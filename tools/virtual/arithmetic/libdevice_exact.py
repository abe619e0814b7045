"""libdevice's functions that are exact by definition: directed rounding, integers, conversions, bits.

Rounded towards zero, up or down, as the CUDA Math API has them (`__fadd_rz`, `__double2int_ru` and the like): the
nearest number is moved by one step where what rounding left over lies on its other side. What is left over of a sum is
exact (Knuth's two-sum), of a product too (Dekker's); of a quotient and of a root its sign is.
Conversions to integers saturate; NaN is 0, and 2^63 where one side has 64 bits (PTX ISA, `cvt`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from kernelagent.tools.virtual.arithmetic.error_free import Numbers, Rounded, two_product, two_sum

Function = Callable[..., torch.Tensor]
_UNSIGNED = {np.dtype(np.int32): np.uint32, np.dtype(np.int64): np.uint64}


def _narrowed(total: Numbers, left: Numbers) -> Rounded:
    """The fp32 number that is nearest to the sum of both, ties to even."""
    near = total.astype(np.float32)
    rest = total - near
    step = np.nextafter(near, np.where(rest > 0, np.inf, -np.inf).astype(np.float32))
    tie = (rest != 0) & (total == (near.astype(np.float64) + step) / 2) & (left * rest > 0)
    near = np.where(tie, step, near)
    return near, (total - near) + left


def _added(a: Numbers, b: Numbers) -> Rounded:
    if a.dtype == np.float64:
        return two_sum(a, b)
    return _narrowed(*two_sum(a.astype(np.float64), b.astype(np.float64)))


def _multiplied(a: Numbers, b: Numbers) -> Rounded:
    if a.dtype == np.float64:
        return two_product(a, b)
    product = a.astype(np.float64) * b.astype(np.float64)
    return _narrowed(product, np.zeros_like(product))


def _divided(a: Numbers, b: Numbers) -> Rounded:
    quotient = a / b
    product, left = two_product(quotient.astype(np.float64), b.astype(np.float64))
    return quotient, ((a - product) - left) * np.sign(b)


def _root(x: Numbers) -> Rounded:
    root = np.sqrt(x)
    square, left = two_product(root.astype(np.float64), root.astype(np.float64))
    return root, (x - square) - left


def _fused(a: Numbers, b: Numbers, c: Numbers) -> Rounded:
    product, left = two_product(a.astype(np.float64), b.astype(np.float64))
    total, rest = two_sum(product, c.astype(np.float64))
    if a.dtype != np.float64:
        # A product of two fp32 numbers leaves nothing over.
        return _narrowed(total, rest)
    near, last = two_sum(total, rest + left)
    return near, last


def _inverse(x: Numbers) -> Rounded:
    return _divided(np.ones_like(x), x)


def _less(a: Numbers, b: Numbers) -> Rounded:
    return _added(a, -b)


def _from_integer(x: Numbers, kind: Any) -> Rounded:
    low = x & x.dtype.type(0xFFFFFFFF if x.itemsize == 8 else 0xFFFF)
    total, left = two_sum((x - low).astype(np.float64), low.astype(np.float64))
    return (total, left) if kind == np.float64 else _narrowed(total, left)


def _directed(rounded: Rounded, direction: str, given: tuple[Numbers, ...]) -> Numbers:
    near, left = rounded
    if direction == "rn":
        return near
    # Beyond the largest number the nearest one is infinity, which is too far.
    beyond = np.isinf(near) & np.logical_and.reduce([np.isfinite(x) for x in given])
    left = np.where(beyond, -near, left)
    down = left < 0 if direction == "rd" else (left < 0) & (near > 0) & (direction == "rz")
    up = left > 0 if direction == "ru" else (left > 0) & (near < 0) & (direction == "rz")
    low, high = (np.asarray(end, near.dtype) for end in (-np.inf, np.inf))
    return np.where(down, np.nextafter(near, low), np.where(up, np.nextafter(near, high), near))


def _of_numbers(operation: Callable[..., Rounded], direction: str) -> Function:
    def function(*tensors: torch.Tensor) -> torch.Tensor:
        given = tuple(tensor.numpy() for tensor in tensors)
        with np.errstate(all="ignore"):
            return torch.from_numpy(_directed(operation(*given), direction, given))

    return function


def _of_integers(kind: Any, direction: str, *, unsigned: bool) -> Function:
    def function(tensor: torch.Tensor) -> torch.Tensor:
        x = tensor.numpy()
        x = x.view(_UNSIGNED.get(x.dtype, x.dtype)) if unsigned else x
        with np.errstate(all="ignore"):
            return torch.from_numpy(_directed(_from_integer(x, kind), direction, ()))

    return function


_WHOLE = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}


def _to_integer(kind: Any, direction: str) -> Function:
    facts = np.iinfo(kind)

    def function(tensor: torch.Tensor) -> torch.Tensor:
        given = tensor.numpy()
        x = _WHOLE[direction](given.astype(np.float64))
        inside = (x > float(facts.min) - 0.5) & (x < float(facts.max) + (facts.bits < 64))
        values = np.where(inside, x, 0.0).astype(kind)
        values = np.where(x >= float(facts.max), facts.max, values)
        values = np.where(x <= float(facts.min), facts.min, values)
        long = facts.bits == 64 or given.dtype == np.float64
        unknown = 1 << (facts.bits - 1) if long else 0
        nan = np.array(unknown, np.uint64).astype(kind)
        values = np.where(np.isnan(given), nan, values).astype(kind)
        signed = {np.uint32: np.int32, np.uint64: np.int64}.get(kind, kind)
        return torch.from_numpy(values.view(signed))

    return function


def _as(kind: torch.dtype) -> Function:
    return lambda tensor: tensor.contiguous().view(kind)


def _numpy(operation: Callable[..., Numbers], *, unsigned: bool = False) -> Function:
    """Of integers, as numpy has them; what it gives has the operands' bits."""

    def function(*tensors: torch.Tensor) -> torch.Tensor:
        given = [tensor.numpy() for tensor in tensors]
        given = [x.view(_UNSIGNED.get(x.dtype, x.dtype)) for x in given] if unsigned else given
        with np.errstate(all="ignore"):
            result = operation(*given)
        signed = {4: np.int32, 8: np.int64}[result.itemsize]
        return torch.from_numpy(np.ascontiguousarray(result).view(signed))

    return function


def _high(a: Numbers, b: Numbers) -> Numbers:
    if a.itemsize == 4:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return ((a.astype(wide) * b.astype(wide)) >> wide(32)).astype(a.dtype)
    # In halves of 32 bits; a signed product is the unsigned one less what the signs add.
    x, y, half, mask = a.view(np.uint64), b.view(np.uint64), np.uint64(32), np.uint64(0xFFFFFFFF)
    low, cross = (x & mask) * (y & mask), (x >> half) * (y & mask)
    middle = cross + (low >> half)
    other = (x & mask) * (y >> half) + (middle & mask)
    high = (x >> half) * (y >> half) + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    result: Numbers = high.view(a.dtype)
    return result


def _bits(x: Numbers) -> Numbers:
    """Of each number its bits, the lowest first, along a new last axis."""
    places = np.arange(x.itemsize * 8, dtype=x.dtype)
    result: Numbers = (x[..., None] >> places) & x.dtype.type(1)
    return result


def _leading_zeros(x: Numbers) -> Numbers:
    ones = _bits(x)[..., ::-1]
    return np.where(x == 0, x.itemsize * 8, ones.argmax(-1)).astype(np.int32)


def _first_one(x: Numbers) -> Numbers:
    return np.where(x == 0, 0, _bits(x).argmax(-1) + 1).astype(np.int32)


def _reversed(x: Numbers) -> Numbers:
    places = np.arange(x.itemsize * 8, dtype=x.dtype)
    result: Numbers = (_bits(x)[..., ::-1] << places).sum(-1, dtype=x.dtype)
    return result


def _permuted(a: Numbers, b: Numbers, selector: Numbers) -> Numbers:
    both = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
    result = np.zeros_like(a)
    for place in range(4):
        chosen = (selector >> np.uint32(4 * place)) & np.uint32(0xF)
        byte = (both >> ((chosen & np.uint32(7)).astype(np.uint64) * np.uint64(8))) & np.uint64(
            0xFF
        )
        byte = np.where(chosen & np.uint32(8), np.where(byte >> np.uint64(7), 0xFF, 0), byte)
        result |= byte.astype(np.uint32) << np.uint32(8 * place)
    return result


def _of_24_bits(a: Numbers, b: Numbers) -> Numbers:
    shift = a.dtype.type(8)
    result: Numbers = ((a << shift) >> shift) * ((b << shift) >> shift)
    return result


def _halved(a: Numbers, b: Numbers, more: int) -> Numbers:
    wide = np.int64 if a.dtype.kind == "i" else np.uint64
    return ((a.astype(wide) + b.astype(wide) + wide(more)) >> wide(1)).astype(a.dtype)


def _distance(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
    apart = np.where(
        a > b, a.view(np.uint32) - b.view(np.uint32), b.view(np.uint32) - a.view(np.uint32)
    )
    return apart + c.view(np.uint32)


def _joined(high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    return ((high.long() << 32) | (low.long() & 0xFFFFFFFF)).view(torch.float64)


def _table() -> Iterator[tuple[str, Function]]:
    operations: dict[str, Callable[..., Rounded]] = {
        "add": _added, "sub": _less, "mul": _multiplied, "div": _divided, "rcp": _inverse,
        "sqrt": _root,
    }  # fmt: skip
    integers = {
        "int": (np.int32, False), "uint": (np.uint32, True), "ll": (np.int64, False),
        "ull": (np.uint64, True),
    }  # fmt: skip
    numbers = {"float": np.float32, "double": np.float64}
    for direction in _WHOLE:
        for name, operation in operations.items():
            for letter in "fd":
                yield f"{letter}{name}_{direction}", _of_numbers(operation, direction)
        for name in (f"fmaf_{direction}", f"fma_{direction}"):
            yield name, _of_numbers(_fused, direction)
        for number, kind in numbers.items():
            for integer, (whole, unsigned) in integers.items():
                yield f"{number}2{integer}_{direction}", _to_integer(whole, direction)
                made = _of_integers(kind, direction, unsigned=unsigned)
                yield f"{integer}2{number}_{direction}", made
        narrow = _of_numbers(lambda x: _narrowed(x, np.zeros_like(x)), direction)
        yield f"double2float_{direction}", narrow
    for sign in ("", "u"):
        unsigned = bool(sign)
        yield f"{sign}mulhi", _numpy(_high, unsigned=unsigned)
        yield f"{sign}mul64hi", _numpy(_high, unsigned=unsigned)
        yield f"{sign}mul24", _numpy(_of_24_bits, unsigned=unsigned)
        yield f"{sign}hadd", _numpy(lambda a, b: _halved(a, b, 0), unsigned=unsigned)
        yield f"{sign}sad", _numpy(_distance, unsigned=unsigned)
    yield "rhadd", _numpy(lambda a, b: _halved(a, b, 1))
    yield "urhadd", _numpy(lambda a, b: _halved(a, b, 1), unsigned=True)
    for long in ("", "ll"):
        yield f"popc{long}", _numpy(lambda x: _bits(x).sum(-1).astype(np.int32), unsigned=True)
        yield f"clz{long}", _numpy(_leading_zeros, unsigned=True)
        yield f"ffs{long}", _numpy(_first_one, unsigned=True)
        yield f"brev{long}", _numpy(_reversed, unsigned=True)
    yield "byte_perm", _numpy(_permuted, unsigned=True)
    yield "llabs", torch.abs
    yield "float_as_int", _as(torch.int32)
    yield "float_as_uint", _as(torch.int32)
    yield "int_as_float", _as(torch.float32)
    yield "uint_as_float", lambda x: x.contiguous().view(torch.int32).view(torch.float32)
    yield "double_as_longlong", _as(torch.int64)
    yield "longlong_as_double", _as(torch.float64)
    yield "double2hiint", lambda x: (x.view(torch.int64) >> 32).int()
    yield "double2loint", lambda x: x.contiguous().view(torch.int32)[..., 0::2]
    yield "hiloint2double", _joined


BY_NAME: dict[str, Function] = dict(_table())
