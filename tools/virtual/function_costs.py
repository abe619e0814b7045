"""How many instructions a function of libdevice is, at least: the shortest way through its machine code.

Counted in what `nvdisasm` shows for sm_90 of a kernel that calls it once for each element (triton 3.9), branches taken as
is shortest, so that special cases (large arguments, numbers that are none) do not count. What is not listed is fewer
than four instructions.
"""

from __future__ import annotations

from collections.abc import Mapping

_BY_COUNT: Mapping[int, str] = {
    5: "fast_tanf llround",
    6: "rsqrt_rn",
    7: "div_rd div_ru div_rz nextafter pow",
    9: "exp exp10 fmod j0 logb",
    10: "atan2 div_rn rcp_rd rcp_rn rcp_ru rcp_rz sqrt_rn",
    11: "ilogb sqrt_ru",
    12: "asinh cbrt sinh sqrt_rd sqrt_rz",
    14: "rcbrt rhypot",
    15: "j1",
    16: "hypot tanh",
    17: "erfinv remainder",
    18: "cyl_bessel_i0 y0",
    19: "atan cosh cyl_bessel_i1 y1",
    20: "erfcinv erfcx sinpi",
    21: "cospi",
    22: "rnorm3d",
    23: "acos normcdfinv",
    24: "asin log1p tan",
    25: "expm1 lgamma log norm3d",
    26: "log10 sin",
    27: "log2",
    28: "cos erf tgamma",
    33: "acosh",
    36: "atanh",
    47: "erfc",
    62: "normcdf",
}
_COUNTS = {name: count for count, names in _BY_COUNT.items() for name in names.split()}
_FEW = 1


def instructions_of(symbol: str) -> int:
    """Of `__nv_lgammaf` and the like, for one element in fp32."""
    name = symbol.removeprefix("__nv_")
    for spelling in (name, name.removesuffix("f")):
        if spelling in _COUNTS:
            return _COUNTS[spelling]
    return _FEW
