import torch
import triton
import triton.language as tl


@triton.jit
def overlaps(a_ptr, b_ptr, out_ptr, count, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < count
    left = tl.maximum(tl.load(a_ptr + i * 4), tl.load(b_ptr + j * 4, mask=mask, other=0.0))
    top = tl.maximum(tl.load(a_ptr + i * 4 + 1), tl.load(b_ptr + j * 4 + 1, mask=mask, other=0.0))
    right = tl.minimum(tl.load(a_ptr + i * 4 + 2), tl.load(b_ptr + j * 4 + 2, mask=mask, other=1.0))
    below = tl.minimum(tl.load(a_ptr + i * 4 + 3), tl.load(b_ptr + j * 4 + 3, mask=mask, other=1.0))
    wide, high = right - left, below - top
    common = tl.maximum(wide, 0.0) * tl.maximum(high, 0.0)
    areas = tl.load(a_ptr + i * 4 + 2) - tl.load(a_ptr + i * 4)
    areas *= tl.load(a_ptr + i * 4 + 3) - tl.load(a_ptr + i * 4 + 1)
    wide = tl.load(b_ptr + j * 4 + 2, mask=mask, other=1.0) - tl.load(b_ptr + j * 4, mask=mask, other=0.0)
    high = tl.load(b_ptr + j * 4 + 3, mask=mask, other=1.0) - tl.load(b_ptr + j * 4 + 1, mask=mask, other=0.0)
    tl.store(out_ptr + i * count + j, common / (areas + wide * high - common), mask=mask)


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        if (a[:, 2:] <= a[:, :2]).any() or (b[:, 2:] <= b[:, :2]).any():
            raise ValueError("boxes must have an area")
        count = b.shape[0]
        out = torch.empty(a.shape[0], count, device=a.device, dtype=a.dtype)
        overlaps[(a.shape[0],)](a, b, out, count, BLOCK=triton.next_power_of_2(count))
        return out
