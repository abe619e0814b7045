import torch
import triton
import triton.language as tl


@triton.jit
def bent(x, out, count, slope, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    value = tl.load(x + place, mask=inside)
    tl.store(out + place, tl.where(value > 0, value, slope * value), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x: torch.Tensor, slope: float) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        bent[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), slope, BLOCK=256)
        return out
