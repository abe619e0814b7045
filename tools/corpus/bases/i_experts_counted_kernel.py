import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def choose(
    x_ptr, bias_ptr, share_ptr, place_ptr, count_ptr, tokens, experts,
    K: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, KEPT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j, n = tl.arange(0, BLOCK), tl.arange(0, KEPT)
    here, mask = row < tokens, (j < experts)[None, :]
    x = tl.load(
        x_ptr + row[:, None] * experts + j[None, :], mask=here[:, None] & mask, other=0.0
    )
    score = tl.sigmoid(x)
    bias = tl.load(bias_ptr + j, mask=j < experts, other=0.0)
    left = tl.where(mask, score + bias[None, :], float("-inf"))
    share = tl.zeros((ROWS, KEPT), tl.float32)
    place = tl.zeros((ROWS, KEPT), tl.int64)
    for k in tl.static_range(K):
        best = tl.argmax(left, axis=1)
        chosen = j[None, :] == best[:, None]
        own = tl.sum(tl.where(chosen, score, 0.0), axis=1)
        share = tl.where((n == k)[None, :], own[:, None], share)
        place = tl.where((n == k)[None, :], best[:, None].to(tl.int64), place)
        # A row of NaN alone may choose a place beyond the last expert.
        tl.atomic_add(count_ptr + best, 1, mask=here & (best < experts))
        left = tl.where(chosen, float("-inf"), left)
    share /= tl.sum(share, axis=1)[:, None]
    at, kept = row[:, None] * K + n[None, :], here[:, None] & (n < K)[None, :]
    tl.store(share_ptr + at, share, mask=kept)
    tl.store(place_ptr + at, place, mask=kept)


@triton.jit
def begins(count_ptr, begin_ptr, experts, PART: tl.constexpr, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)
    count = tl.load(count_ptr + j, mask=j < experts, other=0)
    end = tl.cumsum((count + PART - 1) // PART * PART, axis=0)
    tl.store(begin_ptr + 1 + j, end, mask=j < experts)
    tl.store(begin_ptr, 0)


class ModelNew(nn.Module):
    def __init__(self, experts):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(experts) / 4)

    def forward(self, x):
        x = x.contiguous()
        tokens, experts = x.shape
        share = torch.empty(tokens, 3, device=x.device)
        place = torch.empty(tokens, 3, dtype=torch.int64, device=x.device)
        count = torch.zeros(experts, dtype=torch.int32, device=x.device)
        begin = torch.empty(experts + 1, dtype=torch.int32, device=x.device)
        block = triton.next_power_of_2(experts)
        choose[(triton.cdiv(tokens, 16),)](
            x, self.bias, share, place, count, tokens, experts, K=3, ROWS=16, BLOCK=block, KEPT=4
        )
        begins[(1,)](count, begin, experts, PART=8, BLOCK=block)
        return share, place, count, begin
