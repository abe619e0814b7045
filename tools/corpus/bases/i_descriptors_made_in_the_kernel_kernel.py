import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tiles(x_ptr, y_ptr, out_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    x_desc = tl.make_tensor_descriptor(x_ptr, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    y_desc = tl.make_tensor_descriptor(y_ptr, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    out_desc = tl.make_tensor_descriptor(
        out_ptr, shape=[m, n], strides=[n, 1], block_shape=[BM, BN]
    )
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    x = x_desc.load([i, j])
    squashed = 2 * tl.sigmoid(2 * x) - 1
    out_desc.store([i, j], squashed * y_desc.load([i, j]))


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        triton.set_allocator(
            lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=x.device)
        )
        m, n = x.shape
        tiles[(triton.cdiv(m, 16), triton.cdiv(n, 32))](x, y, out, m, n, BM=16, BN=32)
        return out
