import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_loss(x_ptr, label_ptr, out_ptr, rows, classes, R: tl.constexpr, C: tl.constexpr):
    i = tl.arange(0, R)
    j = tl.arange(0, C)[None, :]
    inside = (i[:, None] < rows) & (j < classes)
    x = tl.load(x_ptr + i[:, None] * classes + j, mask=inside, other=float("-inf"))
    label = tl.load(label_ptr + i, mask=i < rows, other=-100)
    seen = label != -100
    top = tl.max(x, 1)
    top = tl.where(i < rows, top, 0.0)
    log_sum = tl.log(tl.sum(tl.exp(x - top[:, None]), 1)) + top
    picked = tl.sum(tl.where(j == label[:, None], x, 0.0), 1)
    count = tl.sum(seen.to(tl.float32), 0)
    total = tl.sum(tl.where(seen, log_sum - picked, 0.0), 0)
    tl.store(out_ptr, total / count)


class ModelNew(nn.Module):
    def forward(self, scores, labels):
        out = torch.empty((), dtype=scores.dtype, device=scores.device)
        rows, classes = scores.shape
        mean_loss[(1,)](
            scores, labels, out, rows, classes,
            R=triton.next_power_of_2(rows), C=triton.next_power_of_2(classes),
        )
        return out
