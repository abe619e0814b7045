import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def normalise(x_ptr, m_ptr, v_ptr, w_ptr, b_ptr, out_ptr, n, width, eps, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    j = i % width
    x = tl.load(x_ptr + i, mask=mask)
    scale = tl.load(w_ptr + j, mask=mask) / tl.sqrt(tl.load(v_ptr + j, mask=mask, other=1.0) + eps)
    y = (x - tl.load(m_ptr + j, mask=mask)) * scale + tl.load(b_ptr + j, mask=mask)
    tl.store(out_ptr + i, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        x = x.contiguous()
        norm = self.norm
        mean, var = self.statistics(norm, x)
        out = torch.empty_like(x)
        n = x.numel()
        normalise[(triton.cdiv(n, 256),)](
            x, mean, var, norm.weight, norm.bias, out, n, x.shape[1], norm.eps, BLOCK=256
        )
        return out

    def statistics(self, norm, x):
        return norm.running_mean, norm.running_var
