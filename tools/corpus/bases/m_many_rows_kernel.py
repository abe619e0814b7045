import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x_ptr, w_ptr, out_ptr, n_rows, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    j = tl.arange(0, BLOCK)[None, :]
    mask = (row < n_rows) & (j < width)
    x = tl.load(x_ptr + row * width + j, mask=mask, other=0.0)
    x = tl.where(x != x, x, tl.maximum(x, 0.0))
    w = tl.load(w_ptr + j, mask=j < width, other=0.0)
    tl.store(out_ptr + row * width + j, x * w, mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        x = x.contiguous()
        rows, width = x.shape
        out = torch.empty_like(x)
        grid = (triton.cdiv(rows, 16),)
        scaled[grid](
            x, self.weight, out, rows, width, ROWS=16, BLOCK=triton.next_power_of_2(width)
        )
        return out
