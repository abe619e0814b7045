"""The operations whose variants must be ordered: inputs, eager, and launches written once.

A variant runs unchanged on a GPU and in the counting interpreter: it is given how to launch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F

from benchmarks import cost_kernels as kernels

Tensors = dict[str, torch.Tensor]


class Launching(Protocol):
    """`launch(kernel, grid, num_warps=4, **arguments)`, for real or for counting."""

    def __call__(
        self, kernel: Any, grid: tuple[int, ...], num_warps: int = 4, **arguments: Any
    ) -> None: ...


Variant = Callable[[Launching, Tensors], torch.Tensor]


@dataclass(frozen=True, eq=False)
class Operation:
    name: str
    inputs: Callable[[torch.device, int], Tensors]
    """On a device, every size divided by a number: 1 for the sizes that the name tells."""
    eager: Callable[[Tensors], torch.Tensor]
    variants: dict[str, Variant]
    slower: tuple[tuple[str, str], ...]
    """Pairs: the first must be estimated clearly faster than the second."""


def _normal(device: torch.device, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=device).to(dtype)


def _blocks(total: int, block: int) -> int:
    return -(-total // block)


# add + relu, fp32


def _add_relu_inputs(device: torch.device, divisor: int) -> Tensors:
    return {name: _normal(device, 4096 // divisor, 4096 // divisor) for name in ("x", "y")}


def _add_relu_fused(launch: Launching, t: Tensors) -> torch.Tensor:
    out, n = torch.empty_like(t["x"]), t["x"].numel()
    launch(kernels.add_relu, (_blocks(n, 4096),), **t, out=out, n=n, BLOCK=4096)
    return out


def _add_relu_twice(launch: Launching, t: Tensors) -> torch.Tensor:
    between, out, n = torch.empty_like(t["x"]), torch.empty_like(t["x"]), t["x"].numel()
    launch(kernels.add, (_blocks(n, 4096),), **t, out=between, n=n, BLOCK=4096)
    launch(kernels.relu, (_blocks(n, 4096),), x=between, out=out, n=n, BLOCK=4096)
    return out


def _add_relu_rereading(launch: Launching, t: Tensors) -> torch.Tensor:
    out, n = torch.empty_like(t["x"]), t["x"].numel()
    kernel = kernels.add_relu_reading_four_places
    launch(kernel, (_blocks(n, 4096),), **t, out=out, n=n, quarter=n // 4, BLOCK=4096)
    return out


def _add_relu_uncoalesced(launch: Launching, t: Tensors) -> torch.Tensor:
    out = torch.empty_like(t["x"])
    rows, columns = out.shape
    grid = (columns, _blocks(rows, 1024))
    launch(kernels.add_relu_by_columns, grid, **t, out=out, columns=columns, BLOCK=1024)
    return out


# softmax, bf16


def _rows_inputs(device: torch.device, divisor: int) -> Tensors:
    size = 4096 // divisor
    return {"x": _normal(device, size, size, dtype=torch.bfloat16)}


def _by_rows(kernel: Any, num_warps: int = 8, **constants: Any) -> Variant:
    def run(launch: Launching, t: Tensors) -> torch.Tensor:
        out = torch.empty_like(t["x"])
        rows, columns = out.shape
        arguments = {"BLOCK": columns, **constants}
        launch(kernel, (rows,), num_warps, **t, out=out, columns=columns, **arguments)
        return out

    return run


def _softmax_in_three_kernels(launch: Launching, t: Tensors) -> torch.Tensor:
    x = t["x"]
    out = torch.empty_like(x)
    rows, columns = x.shape
    top, total = (torch.empty(rows, device=x.device) for _ in range(2))
    size = {"columns": columns, "BLOCK": columns}
    launch(kernels.row_maximum, (rows,), 8, x=x, top=top, **size)
    launch(kernels.row_sum_of_exponentials, (rows,), 8, x=x, top=top, total=total, **size)
    launch(kernels.normalise_exponentials, (rows,), 8, x=x, top=top, total=total, out=out, **size)
    return out


def _softmax_spilling(launch: Launching, t: Tensors) -> torch.Tensor:
    out = torch.empty_like(t["x"])
    rows, columns = out.shape
    sizes = {"columns": columns, "ROWS": 16, "BLOCK": columns}
    launch(kernels.softmax_of_many_rows, (rows // 16,), 4, **t, out=out, **sizes)
    return out


# layer norm, bf16


def _layer_norm_inputs(device: torch.device, divisor: int) -> Tensors:
    size = 4096 // divisor
    small = {name: _normal(device, size, dtype=torch.bfloat16) for name in ("weight", "bias")}
    return _rows_inputs(device, divisor) | small


def _statistics_then(kernel: Any, by_columns: bool) -> Variant:
    def run(launch: Launching, t: Tensors) -> torch.Tensor:
        x = t["x"]
        out = torch.empty_like(x)
        rows, columns = x.shape
        stats = {name: torch.empty(rows, device=x.device) for name in ("mean", "scale")}
        launch(kernels.row_statistics, (rows,), 8, x=x, **stats, columns=columns, BLOCK=columns)
        grid = (columns, rows // 1024) if by_columns else (rows,)
        block = 1024 if by_columns else columns
        launch(kernel, grid, 8, **t, **stats, out=out, columns=columns, BLOCK=block)
        return out

    return run


# matmul + bias + gelu, bf16


def _matmul_inputs(device: torch.device, divisor: int) -> Tensors:
    size = 1024 // divisor
    shapes = {"a": (size, size), "b": (size, size), "bias": (size,)}
    return {name: _normal(device, *s, dtype=torch.bfloat16) / 8 for name, s in shapes.items()}


def _tiled(m: int, n: int, k: int, num_warps: int) -> Variant:
    def run(launch: Launching, t: Tensors) -> torch.Tensor:
        return _matmul(launch, t, (m, n, k), num_warps, fused=True)

    return run


def _matmul(
    launch: Launching, t: Tensors, tile: tuple[int, int, int], num_warps: int, fused: bool
) -> torch.Tensor:
    (rows, depth), columns = t["a"].shape, t["b"].shape[1]
    out = torch.empty(rows, columns, device=t["a"].device, dtype=t["a"].dtype)
    m, n, k = tile
    launch(
        kernels.matmul,
        (rows // m, columns // n),
        num_warps,
        **t,
        out=out,
        columns=columns,
        depth=depth,
        M=m,
        N=n,
        K=k,
        FUSED=fused,
    )
    return out


def _matmul_then_gelu(launch: Launching, t: Tensors) -> torch.Tensor:
    between = _matmul(launch, t, (128, 128, 64), 8, fused=False)
    out = torch.empty_like(between)
    rows, columns = out.shape
    sizes = {"columns": columns, "BLOCK": columns}
    launch(kernels.bias_gelu, (rows,), 4, x=between, bias=t["bias"], out=out, **sizes)
    return out


def _matmul_without_dot(launch: Launching, t: Tensors) -> torch.Tensor:
    (rows, depth), columns = t["a"].shape, t["b"].shape[1]
    out = torch.empty(rows, columns, device=t["a"].device, dtype=t["a"].dtype)
    sizes = {"columns": columns, "depth": depth, "M": 64, "N": 64}
    launch(kernels.matmul_without_dot, (rows // 64, columns // 64), 4, **t, out=out, **sizes)
    return out


# cross entropy, bf16


def _cross_entropy_inputs(device: torch.device, divisor: int) -> Tensors:
    rows, classes = 4096 // divisor, 32000 // divisor
    labels = torch.arange(rows, device=device) * 7 % classes
    return {"x": _normal(device, rows, classes, dtype=torch.bfloat16), "labels": labels}


def _losses(kernel: Any) -> Variant:
    def run(launch: Launching, t: Tensors) -> torch.Tensor:
        rows, columns = t["x"].shape
        loss = torch.empty(rows, device=t["x"].device)
        launch(kernel, (rows,), 8, **t, loss=loss, columns=columns, BLOCK=4096)
        return loss

    return run


def _log_softmax_then_pick(launch: Launching, t: Tensors) -> torch.Tensor:
    rows, columns = t["x"].shape
    between = torch.empty_like(t["x"])
    loss = torch.empty(rows, device=t["x"].device)
    launch(kernels.log_softmax, (rows,), 8, x=t["x"], out=between, columns=columns, BLOCK=4096)
    sizes = {"columns": columns, "rows": rows, "BLOCK": 128}
    launch(kernels.pick_label, (rows // 128,), x=between, labels=t["labels"], loss=loss, **sizes)
    return loss


OPERATIONS = (
    Operation(
        "add + relu, fp32 [4096, 4096]",
        _add_relu_inputs,
        lambda t: torch.relu(t["x"] + t["y"]),
        {
            "fused": _add_relu_fused,
            "two kernels": _add_relu_twice,
            "re-reading": _add_relu_rereading,
            "uncoalesced": _add_relu_uncoalesced,
        },
        (
            ("fused", "two kernels"),
            ("two kernels", "re-reading"),
            ("two kernels", "uncoalesced"),
            ("fused", "eager"),
        ),
    ),
    Operation(
        "softmax, bf16 [4096, 4096]",
        _rows_inputs,
        lambda t: torch.softmax(t["x"], -1),
        {
            "fused": _by_rows(kernels.softmax),
            "three passes": _by_rows(kernels.softmax_in_three_passes, BLOCK=1024),
            "three kernels": _softmax_in_three_kernels,
            "spilling": _softmax_spilling,
        },
        (
            ("fused", "three passes"),
            ("three passes", "three kernels"),
            ("three kernels", "spilling"),
        ),
    ),
    Operation(
        "layer norm, bf16 [4096, 4096]",
        _layer_norm_inputs,
        lambda t: F.layer_norm(t["x"], t["x"].shape[-1:], t["weight"], t["bias"]),
        {
            "fused": _by_rows(kernels.layer_norm),
            "two kernels": _statistics_then(kernels.apply_statistics, by_columns=False),
            "uncoalesced": _statistics_then(kernels.layer_norm_by_columns, by_columns=True),
        },
        (("fused", "two kernels"), ("two kernels", "uncoalesced")),
    ),
    Operation(
        "matmul + bias + gelu, bf16 [1024, 1024, 1024]",
        _matmul_inputs,
        lambda t: F.gelu(torch.addmm(t["bias"], t["a"], t["b"])),
        {
            "fused": _tiled(128, 128, 64, 8),
            "two kernels": _matmul_then_gelu,
            "small tiles": _tiled(32, 32, 32, 4),
            "spilling": _tiled(256, 256, 64, 4),
            "without dot": _matmul_without_dot,
        },
        (
            ("fused", "two kernels"),
            ("fused", "small tiles"),
            ("fused", "spilling"),
            ("small tiles", "without dot"),
            ("fused", "eager"),
        ),
    ),
    Operation(
        "cross entropy, bf16 [4096, 32000]",
        _cross_entropy_inputs,
        lambda t: F.cross_entropy(t["x"], t["labels"], reduction="none"),
        {
            "fused": _losses(kernels.cross_entropy),
            "two passes": _losses(kernels.cross_entropy_in_two_passes),
            "log-softmax, then pick": _log_softmax_then_pick,
        },
        (
            ("fused", "two passes"),
            ("two passes", "log-softmax, then pick"),
            ("fused", "eager"),
        ),
    ),
)
