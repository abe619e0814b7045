import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def ragged_sums(x_ptr, offset_ptr, out_ptr, width, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    begin = tl.load(offset_ptr + group)
    end = tl.load(offset_ptr + group + 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(begin, end):
        total += tl.load(x_ptr + row * width + j, mask=mask, other=0.0)
    tl.store(out_ptr + group * width + j, total, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, offsets):
        groups = offsets.numel() - 1
        out = torch.empty((groups, x.shape[1]), device=x.device)
        ragged_sums[(groups,)](
            x, offsets, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1])
        )
        return out
