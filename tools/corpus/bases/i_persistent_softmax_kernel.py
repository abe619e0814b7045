import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    [triton.Config({"STAGES": s}, num_warps=w) for w in (4, 8) for s in (2, 4)], key=["width"]
)
@triton.jit
def softmax(x_ptr, out_ptr, stride, rows, width, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    j = tl.arange(0, BLOCK)
    mask = j < width
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * stride + j, mask=mask, other=float("-inf")).to(tl.float32)
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * width + j, (e / tl.sum(e, axis=0)).to(tl.bfloat16), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        if x.stride(-1) != 1:
            x = x.contiguous()
        rows, width = x.shape
        out = torch.empty(rows, width, dtype=x.dtype, device=x.device)
        programs = min(rows, 8)
        softmax[(programs,)](
            x, out, x.stride(0), rows, width, BLOCK=triton.next_power_of_2(width)
        )
        return out
