import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gemm(
    x_ptr, w_ptr, out_ptr, rows, columns, inner, kept,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):
    pid = tl.program_id(0)
    down, across = tl.cdiv(rows, BM), tl.cdiv(columns, BN)
    first = pid // (GROUP * across) * GROUP
    tall = tl.minimum(down - first, GROUP)
    i = (first + pid % (GROUP * across) % tall) * BM + tl.arange(0, BM)
    j = (pid % (GROUP * across) // tall) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, inner, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + i[:, None] * inner + k[None, :], mask=(i[:, None] < rows) & (k[None, :] < inner), other=0.0)
        w = tl.load(w_ptr + k[:, None] * columns + j[None, :], mask=(k[:, None] < inner) & (j[None, :] < columns), other=0.0)
        total = tl.dot(x, w, total, input_precision="ieee")
    total = tl.where(j[None, :] < kept, total, tl.maximum(total, 0.0))
    tl.store(out_ptr + i[:, None] * columns + j[None, :], total, mask=(i[:, None] < rows) & (j[None, :] < columns))


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.q = nn.Linear(inner, outer, bias=False)
        self.k = nn.Linear(inner, outer, bias=False)
        self.v = nn.Linear(inner, outer, bias=False)
        self._key = None
        self._packed = None

    def _weights(self):
        weights = (self.q.weight, self.k.weight, self.v.weight)
        key = tuple((w.data_ptr(), w._version) for w in weights)
        if key != self._key:
            self._packed = torch.cat([w.detach() for w in weights]).t().contiguous()
            self._key = key
        return self._packed

    def forward(self, x):
        x = x.contiguous()
        weights = self._weights()
        (rows, inner), columns = x.shape, weights.shape[1]
        outer = columns // 3
        out = torch.empty((rows, columns), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(rows, 16) * triton.cdiv(columns, 16),)
        gemm[grid](x, weights, out, rows, columns, inner, 2 * outer, BM=16, BN=16, BK=32, GROUP=2)
        return out[:, :outer], out[:, outer : 2 * outer], out[:, 2 * outer :]
