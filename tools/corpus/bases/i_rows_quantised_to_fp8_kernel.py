import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gate_and_quantise(gate_ptr, up_ptr, out_ptr, scale_ptr, n, GROUP: tl.constexpr, ROWS: tl.constexpr):
    group = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    mask = (group < n)[:, None]
    gate = tl.load(gate_ptr + at, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + at, mask=mask, other=0.0).to(tl.float32)
    x = gate * tl.sigmoid(gate) * up
    scale = tl.maximum(tl.max(tl.abs(x), axis=1), 1e-8) / 448
    tl.store(out_ptr + at, (x / scale[:, None]).to(tl.float8e4nv), mask=mask)
    tl.store(scale_ptr + group, scale, mask=group < n)


class ModelNew(nn.Module):
    def forward(self, gate, up):
        gate, up = gate.contiguous(), up.contiguous()
        out = torch.empty(gate.shape, dtype=torch.float8_e4m3fn, device=gate.device)
        scale = torch.empty(*gate.shape[:-1], gate.shape[-1] // 32, device=gate.device)
        n = scale.numel()
        gate_and_quantise[(triton.cdiv(n, 8),)](gate, up, out, scale, n, GROUP=32, ROWS=8)
        return out, scale
