"""CPU stand-ins for libdevice's functions, by symbol name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from kernelagent.tools.virtual.arithmetic import libdevice_exact

Function = Callable[..., torch.Tensor]


def _cbrt(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.cbrt(x.double().numpy())).to(x.dtype)


def _round_away(x: torch.Tensor) -> torch.Tensor:
    """Halves away from zero; what is no half keeps its side, also beside one half and beyond 2^23."""
    whole = torch.trunc(x)
    return torch.where((x - whole).abs() >= 0.5, whole + torch.sign(x), whole)


def _logb(x: torch.Tensor) -> torch.Tensor:
    """The exponent, as a float; a rounded logarithm is one too large just below a power of two."""
    _, exponent = torch.frexp(x)
    outcome = torch.where(x.isfinite(), (exponent - 1).to(x.dtype), x.abs())
    return torch.where(x == 0, -torch.inf, outcome)


def _norm(parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The root of the sum of squares, without an overflow on the way."""
    norm: torch.Tensor = torch.linalg.vector_norm(torch.stack(parts).double(), dim=0)
    return norm.to(parts[0].dtype)


def _of_half_turns(x: torch.Tensor, function: Function) -> torch.Tensor:
    """Sine or cosine of pi times x, exact where the result is 0, 1 or -1."""
    turns = torch.remainder(x.double(), 2)
    quarter = (2 * turns).round()
    rest = (turns - quarter / 2) * math.pi
    sine, cosine = torch.sin(rest), torch.cos(rest)
    at = (quarter if function is torch.sin else quarter + 1).remainder(4)
    value = torch.where(at % 2 == 0, sine, cosine)
    return torch.where(at >= 2, -value, value).to(x.dtype)


def _ilogb(x: torch.Tensor) -> torch.Tensor:
    """The exponent as an integer: that of zero is the smallest, of infinity the largest, of NaN the smallest."""
    edges = torch.iinfo(torch.int32)
    outcome = torch.where(x.isfinite() & (x != 0), _logb(x), 0.0).int()
    outcome = torch.where(x.isinf(), edges.max, outcome)
    return torch.where((x == 0) | x.isnan(), edges.min, outcome)


def _whole(x: torch.Tensor) -> torch.Tensor:
    """A whole number of 64 bits; what does not fit is the nearest that does."""
    edges = torch.iinfo(torch.int64)
    values = torch.where(x.abs() < 2.0**63, x, 0.0).long()
    values = torch.where(x >= 2.0**63, edges.max, values)
    return torch.where((x <= -(2.0**63)) | x.isnan(), edges.min, values)


# The approximations of the special function unit (CUDA C++ Programming Guide, "Intrinsic Functions"): each
# first scales its argument in fp32, and gives its result with an absolute or relative error of about 2^-22.
_LOG2_E, _LN_2, _LOG2_10, _LOG10_2 = (
    1.4426950408889634,
    0.6931471805599453,
    3.321928094887362,
    0.3010299956639812,
)
_PER_TURN = 0.15915494309189535
_GRID = 2.0**-22


def _turned(x: torch.Tensor, function: Function) -> torch.Tensor:
    """Sine or cosine of a number of turns that is rounded to fp32; results lie on a coarse grid."""
    turns = (x * _PER_TURN).double()
    exact = function((turns - turns.round()) * (2 * math.pi))
    return (torch.round(exact / _GRID) * _GRID).float()


def _exp2(x: torch.Tensor) -> torch.Tensor:
    return _coarse(torch.exp2(x.double()))


def _log2(x: torch.Tensor) -> torch.Tensor:
    exact = torch.log2(x.double())
    near_one = (x > 0.5) & (x < 2)
    return torch.where(near_one, (torch.round(exact / _GRID) * _GRID).float(), _coarse(exact))


def _coarse(exact: torch.Tensor) -> torch.Tensor:
    """With 22 bits of mantissa."""
    mantissa, exponent = torch.frexp(exact)
    rounded = torch.ldexp(torch.round(mantissa * 2.0**22) * 2.0**-22, exponent)
    return torch.where(exact.isfinite(), rounded, exact).float()


def _remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """IEEE's: from the nearest multiple, the even one of two; torch.remainder is another function."""
    size = y.abs()
    twice = torch.fmod(x.abs(), 2 * size)
    odd = twice >= size
    rest = torch.where(odd, twice - size, twice)
    up = (2 * rest > size) | ((2 * rest == size) & odd)
    return torch.where(torch.signbit(x), -1.0, 1.0) * torch.where(up, rest - size, rest)


def _tgamma(x: torch.Tensor) -> torch.Tensor:
    negative = (x < 0) & (torch.floor(x).remainder(2) != 0)
    return torch.where(negative, -1.0, 1.0) * torch.lgamma(x).exp()


_AS_IN_TORCH = """acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh erf erfc erfinv exp exp2 expm1
floor fmod hypot ldexp lgamma log log10 log1p log2 nextafter pow rsqrt signbit sin sinh sqrt tan tanh trunc
abs""".split()
_BY_NAME: dict[str, Function] = {
    **libdevice_exact.BY_NAME,
    **{name: getattr(torch, name) for name in _AS_IN_TORCH},
    "remainder": _remainder,
    "ceil": torch.ceil,
    "floor": torch.floor,
    "rint": torch.round,
    "nearbyint": torch.round,
    "fabs": torch.abs,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "fast_exp": lambda x: _exp2(x * _LOG2_E),
    "fast_exp10": lambda x: _exp2(x * _LOG2_10),
    "fast_log": lambda x: _log2(x) * _LN_2,
    "fast_log2": lambda x: _log2(x),
    "fast_log10": lambda x: _log2(x) * _LOG10_2,
    "fast_sin": lambda x: _turned(x, torch.sin),
    "fast_cos": lambda x: _turned(x, torch.cos),
    "fast_tan": lambda x: _turned(x, torch.sin) / _turned(x, torch.cos),
    "fast_pow": lambda x, y: _exp2(y * _log2(x)),
    "fast_fdivide": lambda x, y: torch.where(y.abs() > 2.0**126, x * 0.0, x / y),
    "exp10": lambda x: torch.pow(10.0, x),
    "cbrt": _cbrt,
    "fma": libdevice_exact.BY_NAME["fma_rn"],
    "erfcx": torch.special.erfcx,
    "normcdf": torch.special.ndtr,
    "normcdfinv": torch.special.ndtri,
    "tgamma": _tgamma,
    "isinfd": torch.isinf,
    "isnand": torch.isnan,
    "isinf": torch.isinf,
    "isnan": torch.isnan,
    "finite": torch.isfinite,
    "isfinited": torch.isfinite,
    "rhypot": lambda a, b: 1 / torch.hypot(a, b),
    "norm3d": lambda *parts: _norm(parts),
    "norm4d": lambda *parts: _norm(parts),
    "rnorm3d": lambda *parts: 1 / _norm(parts),
    "rnorm4d": lambda *parts: 1 / _norm(parts),
    "rcbrt": lambda x: 1 / _cbrt(x),
    "frsqrt_rn": lambda x: (1 / x.double().sqrt()).to(x.dtype),
    "fdim": lambda x, y: torch.where(x <= y, 0.0, x - y),
    "sinpi": lambda x: _of_half_turns(x, torch.sin),
    "cospi": lambda x: _of_half_turns(x, torch.cos),
    "erfcinv": lambda x: torch.special.ndtri(x.double() / 2).neg().div(math.sqrt(2)).to(x.dtype),
    "scalbn": torch.ldexp,
    "powi": torch.pow,
    "ilogb": _ilogb,
    "llrint": lambda x: _whole(torch.round(x)),
    "llround": lambda x: _whole(_round_away(x)),
    "signbitd": torch.signbit,
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
    "saturate": lambda x: torch.where(x.isnan(), 0.0, x.clamp(0, 1)),
    "round": _round_away,
    "logb": _logb,
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
}


@dataclass(frozen=True)
class Flushing:
    """Where a function takes fp32 numbers below the normal ones for zero."""

    arguments: bool = False
    result: bool = False


_OF_ARGUMENTS = """abs fabs asin asinh atan atanh ceil div_rn erf fast_cos fast_fdivide fast_log fast_log10 fast_log2
fast_pow fast_sin fast_tan fdiv_rn floor fma fmod fsqrt_rn hypot lgamma log1p expm1 rcp_rn remainder rhypot
rsqrt saturate sin sinh sqrt sqrt_rn tan tanh""".split()
_OF_RESULTS = (
    """div_rn exp2 fast_exp fast_exp10 fast_fdivide fast_pow fast_tan fdiv_rn fma rcp_rn""".split()
)
_IN_A_DIRECTION = [
    f"{name}_{direction}"
    for name in ("fadd", "fsub", "fmul", "fdiv", "frcp", "fsqrt", "fmaf")
    for direction in ("rn", "rz", "rd", "ru")
]
_OF_ARGUMENTS += [*_IN_A_DIRECTION, "fdim", "ilogb", "llrint", "llround"]
_OF_RESULTS += [*_IN_A_DIRECTION, "fdim"]
_FLUSHING = {
    name: Flushing(arguments=name in _OF_ARGUMENTS, result=name in _OF_RESULTS)
    for name in {*_OF_ARGUMENTS, *_OF_RESULTS}
}
"""Triton links libdevice with `nvvm-reflect-ftz` (nvidia/compiler.py, `enable_reflect_ftz`). Read from the PTX that each
function gives for sm_90: `arguments` where nothing but `.ftz` instructions compute with them, `result` where one makes
it. So logarithms, `exp` and `exp10` do not flush, and of those whose code does both (`pow`, `cbrt`, `tgamma` among
others) nothing is said here."""


_ERRS = frozenset(
    """acos acosh asin asinh atan atan2 atanh cos cosh erf erfc erfinv exp exp2 exp10 expm1 hypot lgamma log log10 log1p
    log2 pow powi rsqrt sin sinh tan tanh cbrt rcbrt erfcx erfcinv normcdf normcdfinv tgamma rhypot norm3d norm4d rnorm3d
    rnorm4d sinpi cospi y0 y1 j0 j1 cyl_bessel_i0 cyl_bessel_i1 fast_exp fast_exp10 fast_log fast_log2 fast_log10 fast_sin
    fast_cos fast_tan fast_pow fast_fdivide""".split()
)
"""Functions of fp32 whose last place is not documented (CUDA C++ Programming Guide, "Mathematical Functions")."""


def errs(symbol: str) -> bool:
    """Whether a GPU's result may be off by a last place; `sqrt` is compiled as it is in eager's kernels."""
    return any(item in _ERRS for item in _spellings(symbol))


def flushing_of(symbol: str) -> Flushing:
    """What the function with this symbol flushes; those of doubles nothing."""
    return next((_FLUSHING[item] for item in _spellings(symbol) if item in _FLUSHING), Flushing())


def _spellings(symbol: str) -> list[str]:
    name = symbol.removeprefix("__nv_").removeprefix("__ocml_")
    spellings = [name]
    if name.endswith("f"):
        spellings.append(name[:-1])
    if name.endswith(("_f32", "_f64")):
        spellings.append(name[:-4])
    return spellings


def function_for(symbol: str) -> Function:
    """The stand-in for `__nv_tanhf`, `__nv_erf` and the like; raises NotImplementedError by name."""
    for spelling in _spellings(symbol):
        if spelling in _BY_NAME:
            return _BY_NAME[spelling]
    raise NotImplementedError(
        f"the libdevice function {symbol} has no CPU implementation on the virtual device"
    )
