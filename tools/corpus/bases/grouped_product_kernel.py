import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def grouped(
    a_ptrs,
    b_ptrs,
    c_ptrs,
    rows,
    inner,
    width,
    GROUPS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    tile = tl.program_id(0)
    done = 0
    for g in range(GROUPS):
        m = tl.load(rows + g)
        tiles = tl.cdiv(m, BM)
        while tile >= done and tile < done + tiles:
            a = tl.load(a_ptrs + g).to(tl.pointer_type(tl.float32))
            b = tl.load(b_ptrs + g).to(tl.pointer_type(tl.float32))
            c = tl.load(c_ptrs + g).to(tl.pointer_type(tl.float32))
            i = (tile - done) * BM + tl.arange(0, BM)
            j = tl.arange(0, BN)
            total = tl.zeros((BM, BN), tl.float32)
            for k in range(0, inner, BK):
                n = k + tl.arange(0, BK)
                x = tl.load(
                    a + i[:, None] * inner + n[None, :],
                    mask=(i < m)[:, None] & (n < inner)[None, :],
                    other=0.0,
                )
                w = tl.load(
                    b + n[:, None] * width + j[None, :],
                    mask=(n < inner)[:, None] & (j < width)[None, :],
                    other=0.0,
                )
                total += tl.dot(x, w, input_precision="ieee")
            tl.store(
                c + i[:, None] * width + j[None, :],
                total,
                mask=(i < m)[:, None] & (j < width)[None, :],
            )
            tile += tl.num_programs(0)
        done += tiles


class ModelNew(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, inner, 32) / inner**0.5)

    def forward(self, a, b, c):
        xs = (a, b, c)
        outs = [torch.empty(x.shape[0], 32, device=x.device) for x in xs]
        table = lambda ts: torch.tensor(
            [t.data_ptr() for t in ts], dtype=torch.int64, device=a.device
        )
        rows = torch.tensor([x.shape[0] for x in xs], dtype=torch.int32, device=a.device)
        grouped[(2,)](
            table(xs),
            table([w for w in self.weight]),
            table(outs),
            rows,
            a.shape[1],
            32,
            GROUPS=3,
            BM=16,
            BN=32,
            BK=16,
        )
        return tuple(outs)
