import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def left_out(scores_ptr, own_ptr, sampled_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    inside = j < width
    score = tl.load(scores_ptr + row * width + j, mask=inside)
    same = tl.load(own_ptr + row) == tl.load(sampled_ptr + j, mask=inside, other=0)
    tl.store(out_ptr + row * width + j, tl.where(same, -1e4, score), mask=inside)


class ModelNew(nn.Module):
    def forward(self, scores, own, sampled):
        out = torch.empty_like(scores)
        rows, width = scores.shape
        left_out[(rows,)](
            scores, own, sampled, out, width, BLOCK=triton.next_power_of_2(width)
        )
        return out
