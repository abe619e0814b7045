import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def top_k(x_ptr, value_ptr, place_ptr, width, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + j, mask=j < width, other=float("-inf"))
    left = j < width
    for n in tl.static_range(K):
        best = tl.max(tl.where(left, x, float("-inf")), axis=0)
        place = tl.min(tl.where(left & (x == best), j, BLOCK), axis=0)
        tl.store(value_ptr + row * K + n, best)
        tl.store(place_ptr + row * K + n, place.to(tl.int64))
        left = left & (j != place)


class ModelNew(nn.Module):
    def forward(self, x):
        values = torch.empty(x.shape[0], 4, device=x.device)
        places = torch.empty(x.shape[0], 4, dtype=torch.int64, device=x.device)
        top_k[(x.shape[0],)](
            x, values, places, x.shape[1], K=4, BLOCK=triton.next_power_of_2(x.shape[1])
        )
        return values, places
