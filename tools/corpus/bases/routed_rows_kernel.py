import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def routed_rows(x_ptr, w_ptr, b_ptr, out_ptr, square_ptr, largest_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < width
    x = tl.load(x_ptr + row * width + i, mask=mask, other=0.0)
    share = tl.sigmoid(x * tl.load(w_ptr + i, mask=mask, other=0.0))
    out = x * share + tl.load(b_ptr + i, mask=mask, other=0.0)
    tl.store(out_ptr + row * width + i, out, mask=mask)
    tl.store(square_ptr + row, tl.sum(tl.where(mask, share * share, 0.0), 0))
    tl.store(largest_ptr + row, tl.max(tl.where(mask, out, float("-inf")), 0))


class Router(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.balance = None


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.router = Router(width)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x, notes):
        x = x.contiguous()
        rows, width = x.shape
        out, largest = torch.empty_like(x), x.new_empty(rows)
        squares = torch.empty_like(largest)
        routed_rows[(rows,)](
            x, self.router.weight, self.bias, out, squares, largest, width,
            BLOCK=triton.next_power_of_2(width),
        )
        self.router.balance = squares.sum() / x.numel()
        notes["largest"] = largest
        return out
