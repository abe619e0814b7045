import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn(x_ptr, out_ptr, m, n, B: tl.constexpr):
    i, j = tl.program_id(0) * B, tl.program_id(1) * B
    source = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [B, B])
    x = source.load([i, j])
    row, column = j + tl.arange(0, B)[:, None], i + tl.arange(0, B)[None, :]
    tl.store(out_ptr + row * m + column, tl.trans(2 * x), mask=(row < n) & (column < m))


class ModelNew(nn.Module):
    def forward(self, x):
        m, n = x.shape
        out = torch.empty(n, m, device=x.device)
        # The descriptor lies in memory that Triton asks this function for.
        triton.set_allocator(
            lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=x.device)
        )
        turn[(triton.cdiv(m, 16), triton.cdiv(n, 16))](x, out, m, n, B=16)
        return out
