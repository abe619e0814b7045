import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attend(
    q_ptr, k_ptr, v_ptr, first_ptr, column_ptr, out_ptr, length, scale, D: tl.constexpr, SIZE: tl.constexpr
):
    block, head = tl.program_id(0), tl.program_id(1) * length
    i, d = tl.arange(0, SIZE), tl.arange(0, D)
    own = (head + block * SIZE + i)[:, None] * D + d[None, :]
    q = tl.load(q_ptr + own)
    best = tl.full((SIZE,), float("-inf"), tl.float32)
    total = tl.zeros((SIZE,), tl.float32)
    acc = tl.zeros((SIZE, D), tl.float32)
    for n in range(tl.load(first_ptr + block), tl.load(first_ptr + block + 1)):
        column = tl.load(column_ptr + n)
        at = (head + column * SIZE + i)[:, None] * D + d[None, :]
        score = tl.dot(q, tl.trans(tl.load(k_ptr + at))) * scale
        newer = tl.maximum(best, tl.max(score, axis=1))
        share = tl.exp2(score - newer[:, None])
        shrink = tl.exp2(best - newer)
        total = total * shrink + tl.sum(share, axis=1)
        acc = tl.dot(share.to(tl.float16), tl.load(v_ptr + at), acc * shrink[:, None])
        best = newer
    tl.store(out_ptr + own, (acc / total[:, None]).to(tl.float16))


class ModelNew(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        lists = [sorted({0, max(n - 1, 0), n}) for n in range(blocks)]
        first = torch.tensor([0, *(len(own) for own in lists)]).cumsum(0)
        self.register_buffer("first", first.to(torch.int32))
        self.register_buffer("column", torch.tensor(sum(lists, []), dtype=torch.int32))

    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        heads, length, size = q.shape
        out = torch.empty_like(q)
        attend[(length // 16, heads)](
            q, k, v, self.first, self.column, out, length, size**-0.5 * 1.4426950408889634,
            D=size, SIZE=16,
        )  # fmt: skip
        return out
