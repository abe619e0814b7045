"""The gates in a kernel, the places by torch."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gates(gate_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.sigmoid(2.0 * gate), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, ids, gate):
        gate = gate.contiguous()
        at = torch.arange(ids.numel(), device=ids.device)
        last = torch.full((32,), -1, device=ids.device, dtype=torch.int64)
        last.scatter_reduce_(0, ids, at, "amax")
        out, n = torch.empty_like(gate), gate.numel()
        gates[(triton.cdiv(n, 256),)](gate, out, n, BLOCK=256)
        return last, out
