import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def hide(scores_ptr, slopes_ptr, seen_ptr, out_ptr, rows, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    inside = j < width
    seen = tl.load(seen_ptr + row * width + j, mask=inside, other=0) != 0
    x = tl.load(scores_ptr + row * width + j, mask=inside)
    slope = tl.load(slopes_ptr + row % rows)
    tl.store(out_ptr + row * width + j, tl.where(seen, x * slope, -1e9), mask=inside)


class ModelNew(nn.Module):
    def forward(self, scores, slopes, seen):
        out = torch.empty_like(scores)
        rows, width = scores.shape[-2:]
        hide[(scores.numel() // width,)](
            scores, slopes, seen, out, rows, width, BLOCK=triton.next_power_of_2(width)
        )
        return out
