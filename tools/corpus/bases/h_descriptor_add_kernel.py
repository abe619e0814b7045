import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def cut_product(
    x_desc, w_desc, y_desc, K, CUTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    m, n, cut = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(cut * BK, K, BK * CUTS):
        x, w = x_desc.load([m * BM, k]), w_desc.load([n * BN, k])
        total = tl.dot(x, w.T, total, input_precision="tf32x3")
    y_desc.atomic_add([m * BM, n * BN], total)


class ModelNew(nn.Module):
    def __init__(self, inner, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(columns, inner))

    def forward(self, x):
        x = x.contiguous()
        rows, inner = x.shape
        columns = self.weight.shape[0]
        y = torch.zeros(rows, columns, device=x.device)
        grid = (triton.cdiv(rows, 32), triton.cdiv(columns, 32), 2)
        tensors = [TensorDescriptor.from_tensor(t, [32, 32]) for t in (x, self.weight, y)]
        cut_product[grid](*tensors, inner, CUTS=2, BM=32, BN=32, BK=32)
        return y
