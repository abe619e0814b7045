"""CPU stand-ins for libdevice's functions, by symbol name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Function = Callable[..., torch.Tensor]


def _cbrt(x: torch.Tensor) -> torch.Tensor:
    return torch.sign(x) * x.abs() ** (1 / 3)


def _round_away(x: torch.Tensor) -> torch.Tensor:
    return torch.sign(x) * torch.floor(x.abs() + 0.5)


_BY_NAME: dict[str, Function] = {
    "ceil": torch.ceil,
    "floor": torch.floor,
    "rint": torch.round,
    "nearbyint": torch.round,
    "fabs": torch.abs,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "rcp_rn": torch.reciprocal,
    "fast_exp": torch.exp,
    "fast_log": torch.log,
    "fast_sin": torch.sin,
    "fast_cos": torch.cos,
    "fast_tan": torch.tan,
    "fast_pow": torch.pow,
    "fast_fdivide": torch.div,
    "fdiv_rn": torch.div,
    "ddiv_rn": torch.div,
    "div_rn": torch.div,
    "exp10": lambda x: torch.pow(10.0, x),
    "cbrt": _cbrt,
    "fma": lambda a, b, c: torch.addcmul(c, a, b),
    "erfcx": torch.special.erfcx,
    "normcdf": torch.special.ndtr,
    "normcdfinv": torch.special.ndtri,
    "tgamma": lambda x: torch.lgamma(x).exp(),
    "isinfd": torch.isinf,
    "isnand": torch.isnan,
    "isinf": torch.isinf,
    "isnan": torch.isnan,
    "finite": torch.isfinite,
    "isfinited": torch.isfinite,
    "rhypot": lambda a, b: 1 / torch.hypot(a, b),
    "sqrt_rn": torch.sqrt,
    "fsqrt_rn": torch.sqrt,
    "saturate": lambda x: x.clamp(0, 1),
    "round": _round_away,
    "logb": lambda x: torch.floor(torch.log2(x.abs())),
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
}


def function_for(symbol: str) -> Function:
    """The stand-in for `__nv_tanhf`, `__nv_erf` and the like; raises NotImplementedError by name."""
    name = symbol.removeprefix("__nv_").removeprefix("__ocml_")
    spellings = [name]
    if name.endswith("f"):
        spellings.append(name[:-1])
    if name.endswith(("_f32", "_f64")):
        spellings.append(name[:-4])
    for spelling in spellings:
        result: Any = (
            _BY_NAME.get(spelling)
            or getattr(torch, spelling, None)
            or getattr(torch.special, spelling, None)
        )
        if callable(result):
            known: Function = result
            return known
    raise NotImplementedError(
        f"the libdevice function {symbol} has no CPU implementation on the virtual device"
    )
