"""Runs functions of Triton IR that are written down in tests."""

from __future__ import annotations

import mmap
import time

import numpy as np

from kernelagent.tools.virtual.compiled_ir.execution import CompiledKernel, Running
from kernelagent.tools.virtual.compiled_ir.memory import LaunchMemory
from kernelagent.tools.virtual.compiled_ir.reading import read_module


def run(body, *tensors, extra="", programs=1, until=60.0):
    """`body`: lines of a function of `%a`, `%b`, ... that point at the tensors, which it changes in place."""
    kinds = {"float32": "f32", "int32": "i32", "int64": "i64", "float16": "f16", "uint16": "bf16"}
    names = "abcdefgh"[: len(tensors)]
    pointers = [
        f"%{name}: !tt.ptr<{kinds[str(t.dtype)]}> loc(#loc)"
        for name, t in zip(names, tensors, strict=True)
    ]
    text = "\n".join(
        [
            '#loc = loc("candidate.py":3:1)',
            "module {",
            f"  tt.func public @k({', '.join(pointers)}) attributes {{noinline = false}} {{",
            *body.strip().splitlines(),
            "    tt.return loc(#loc)",
            "  } loc(#loc)",
            extra,
            "} loc(#loc)",
        ]
    )
    kernel = CompiledKernel(read_module(text))
    whole = np.frombuffer(
        mmap.mmap(-1, 64 * len(tensors) + sum(t.nbytes for t in tensors)), np.uint8
    )
    ranges, at = [], 0
    for tensor in tensors:
        at += -at % 64
        ranges.append((at, at + tensor.nbytes))
        whole[at : at + tensor.nbytes] = tensor.reshape(-1).view(np.uint8)
        at += tensor.nbytes
    memory = LaunchMemory(whole, ranges)
    running = Running(memory, (programs, 1, 1), (), time.process_time() + until)
    base = whole.ctypes.data
    arguments = {
        f"%{name}": np.array([base + low], np.int64)
        for name, (low, _) in zip(names, ranges, strict=True)
    }
    for program in range(programs):
        running.place = (program, 0, 0)
        kernel.run(running, arguments)
    for tensor, (low, high) in zip(tensors, ranges, strict=True):
        tensor.reshape(-1).view(np.uint8)[:] = whole[low:high]
    return memory.stored
