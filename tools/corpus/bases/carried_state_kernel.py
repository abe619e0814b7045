import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def smooth(x_ptr, old_ptr, w_ptr, mean_ptr, peak_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < width
    x = tl.load(x_ptr + row * width + i, mask=mask, other=float("-inf"))
    peak = tl.maximum(tl.load(peak_ptr + row), tl.max(x, 0))
    tl.store(peak_ptr + row, peak)
    mean = 0.875 * tl.load(old_ptr + row * width + i, mask=mask) + 0.125 * x
    tl.store(mean_ptr + row * width + i, mean, mask=mask)
    out = mean * tl.load(w_ptr + i, mask=mask) + peak
    tl.store(out_ptr + row * width + i, out, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x, state):
        x = x.contiguous()
        rows, width = x.shape
        old, peak = state["mean"].contiguous(), state["peak"]
        out = torch.empty_like(x)
        mean = torch.empty_like(x)
        smooth[(rows,)](
            x, old, self.weight, mean, peak, out, width, BLOCK=triton.next_power_of_2(width)
        )
        state["mean"] = mean
        return out, dict(state)
