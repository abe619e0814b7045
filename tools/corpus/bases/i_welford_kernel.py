import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def merged(mean_a, square_a, count_a, mean_b, square_b, count_b):
    count = count_a + count_b
    share = tl.where(count == 0.0, 0.0, count_b / tl.maximum(count, 1.0))
    apart = mean_b - mean_a
    return mean_a + apart * share, square_a + square_b + apart * apart * count_a * share, count


@triton.jit
def norm(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask, other=0.0)
    mean, square, count = tl.reduce((x, tl.zeros_like(x), mask.to(tl.float32)), 0, merged)
    tl.store(out_ptr + row * width + j, (x - mean) * tl.rsqrt(square / count + 1e-5), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        norm[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
