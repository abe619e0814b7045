"""What a confined process tries on the device, step by step; each step's outcome is written at once.

Imported by the fork server before anything is confined, as the product's own runner is.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

_COUNT = 1024


@triton.jit
def add_one(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


def serve(settings: dict[str, Any], fds: list[int]) -> None:
    """Process main; `settings`: `device`; `fds`: where the outcomes are written, a JSON line each."""
    for name, step in steps(str(settings["device"])).items():
        began = time.monotonic()
        try:
            outcome = step()
        except Exception as error:  # noqa: BLE001 - whatever a driver raises is the outcome
            outcome = f"{type(error).__name__}: {str(error).strip().splitlines()[-1:]}"
        reported = {"step": name, "outcome": outcome, "seconds": time.monotonic() - began}
        os.write(fds[0], (json.dumps(reported) + "\n").encode())


def steps(device: str) -> dict[str, Callable[[], str]]:
    """In their order; each returns `ok`, or what is wrong."""
    if device == "cuda":
        return {
            "cuInit": _initialised,
            "a tensor": lambda: _tensor("cuda"),
            "a kernel": _kernel,
            "a trace (CUPTI)": _traced,
            "a graph": _graph,
        }
    return {"a tensor": lambda: _tensor("cpu"), "a kernel compiled": _compiled}


def _initialised() -> str:
    status = int(ctypes.CDLL("libcuda.so.1").cuInit(0))
    return "ok" if status == 0 else f"error {status}"


def _tensor(device: str) -> str:
    total = float((torch.ones(_COUNT, device=device) + 1).sum().item())
    return "ok" if total == 2 * _COUNT else f"{total} instead of {2 * _COUNT}"


def _launched(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    add_one[(_COUNT // 128,)](x, out, _COUNT, BLOCK=128)
    return out


def _kernel() -> str:
    x = torch.arange(_COUNT, device="cuda", dtype=torch.float32)
    return "ok" if torch.equal(_launched(x), x + 1) else "the kernel's answer is wrong"


def _traced() -> str:
    from torch.profiler import ProfilerActivity, profile

    x = torch.ones(_COUNT, device="cuda")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as traced:
        _launched(x)
        torch.cuda.synchronize()
    names = [event.key for event in traced.key_averages() if event.device_type.name == "CUDA"]
    return "ok" if any("add_one" in name for name in names) else f"the kernel is not in {names}"


def _graph() -> str:
    x = torch.ones(_COUNT, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = _launched(x)
    x.fill_(5)
    graph.replay()
    torch.cuda.synchronize()
    return "ok" if bool((out == 6).all()) else "the replay's answer is wrong"


def _compiled() -> str:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(add_one, signature, {"BLOCK": 128}, {})
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    return "ok" if made.asm["cubin"] else "no machine code"
