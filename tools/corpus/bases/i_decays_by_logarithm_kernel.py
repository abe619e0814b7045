import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def forgetting(x_ptr, factor_ptr, out_ptr, heads, steps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < steps
    x = tl.load(x_ptr + row * steps + at, mask=mask, other=0.0)
    rate = tl.log2(tl.load(factor_ptr + row % heads))
    kept = tl.where(mask, tl.exp2((steps - 1 - at) * rate), 0.0)
    tl.store(out_ptr + row, tl.sum(x * kept, axis=0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor([0.97, 0.9, 0.84, 0.75, 0.6]))

    def forward(self, x):
        batch, heads, steps = x.shape
        out = x.new_empty(batch, heads)
        forgetting[(batch * heads,)](
            x.contiguous(), self.factor, out, heads, steps, BLOCK=triton.next_power_of_2(steps)
        )
        return out
