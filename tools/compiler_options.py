"""Options of Triton's compiler that a launch may carry where what is judged must be what runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend

EXECUTED = (
    "num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "launch_cooperative_grid",
    "launch_pdl", "default_dot_input_precision", "debug", "sanitize_overflow",
)  # fmt: skip
"""Those that the virtual device compiles with."""
FROM_ELSEWHERE = ("ir_override", "ptx_options", "extern_libs")
"""Files and flags for the assembler: what they mean on another machine nobody knows."""


def set_by_hand(options: Mapping[str, Any], target: GPUTarget) -> tuple[str, ...]:
    """The options that are not as Triton sets them by itself for `target`."""
    usual = _as_usual(target)
    return tuple(n for n, value in options.items() if n in usual and value != usual[n])


@cache
def _as_usual(target: GPUTarget) -> Mapping[str, Any]:
    return MappingProxyType(vars(make_backend(target).parse_options({})))


def refusal(kernel: str, names: tuple[str, ...], device: str) -> str:
    """What a writer reads."""
    return (
        f"`{kernel}` is launched with {', '.join(f'{name}=' for name in names)}: with such an option of the "
        f"compiler what runs in another program need not be what was judged {device}; leave it out"
    )
