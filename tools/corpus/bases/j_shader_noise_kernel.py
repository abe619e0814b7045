import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def noise(across_ptr, down_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    across = tl.load(across_ptr + at, mask=at < count, other=0.0)
    down = tl.load(down_ptr + at, mask=at < count, other=0.0)
    wave = tl.sin(across * 12.9898 + down * 78.233) * 43758.5453
    tl.store(out_ptr + at, wave - tl.floor(wave), mask=at < count)


class ModelNew(nn.Module):
    def forward(self, across, down):
        across, down = across.contiguous(), down.contiguous()
        out = torch.empty_like(across)
        count = out.numel()
        noise[(triton.cdiv(count, 512),)](across, down, out, count, BLOCK=512)
        return out
