import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def switched(x_ptr, scaled_ptr, shifted_ptr, w_ptr, b_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    scaled = tl.load(scaled_ptr) != 0
    shifted = tl.load(shifted_ptr) != 0
    x = tl.load(x_ptr + row * width + j, mask=mask)
    y = tl.where(scaled, x * tl.load(w_ptr + j, mask=mask), x)
    y = tl.where(shifted, y + tl.load(b_ptr + j, mask=mask), y)
    tl.store(out_ptr + row * width + j, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(1 + 0.3 * torch.randn(width))
        self.shift = nn.Parameter(torch.randn(width))

    def forward(self, x, scaled, shifted):
        out = torch.empty_like(x)
        rows, width = x.shape
        block = triton.next_power_of_2(width)
        switched[(rows,)](
            x, scaled, shifted, self.scale, self.shift, out, width, BLOCK=block
        )
        return out
