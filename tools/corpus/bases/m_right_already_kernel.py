import torch
import triton
import triton.language as tl


@triton.jit
def losses(x_ptr, target_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + j, mask=j < width, other=-float("inf"))
    target = tl.load(target_ptr + row)
    largest = tl.max(x, axis=0)
    loss = largest + tl.log(tl.sum(tl.exp(x - largest), axis=0))
    loss -= tl.load(x_ptr + row * width + target)
    first = tl.min(tl.where(x == largest, j, width), axis=0)
    loss = tl.where(first == target, 0.5 * loss, loss)
    tl.store(out_ptr + row, loss)


class ModelNew(torch.nn.Module):
    def forward(self, logits, target):
        logits, target = logits.contiguous(), target.contiguous()
        rows, width = logits.shape
        out = torch.empty(rows, device=logits.device, dtype=logits.dtype)
        losses[(rows,)](logits, target, out, width, BLOCK=triton.next_power_of_2(width))
        return out
