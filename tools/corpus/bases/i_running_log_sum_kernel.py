import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def joined(best, total, other_best, other_total):
    newer = tl.maximum(best, other_best)
    # Two of minus infinity, as beyond the end of the row, have no difference.
    shift = tl.where(newer == float("-inf"), 0.0, newer)
    return newer, total * tl.exp(best - shift) + other_total * tl.exp(other_best - shift)


@triton.jit
def log_sums(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask, other=float("-inf"))
    best, total = tl.associative_scan((x, tl.full((BLOCK,), 1.0, tl.float32)), 0, joined)
    tl.store(out_ptr + row * width + j, best + tl.log(total), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, width = x.shape
        out = torch.empty_like(x)
        log_sums[(rows,)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
