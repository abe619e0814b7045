import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_rows(x_ptr, at_ptr, positive_ptr, scale, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < columns
    y = tl.load(x_ptr + row * columns + j, mask=mask, other=float("-inf")) * scale
    tl.store(x_ptr + row * columns + j, y, mask=mask)
    tl.store(positive_ptr + row * columns + j, y > 0, mask=mask)
    tl.store(at_ptr + row, tl.argmax(y, axis=0).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x, *, scale=2.0):
        rows, columns = x.shape
        largest = torch.empty(rows, dtype=torch.int64, device=x.device)
        positive = torch.empty(x.shape, dtype=torch.bool, device=x.device)
        scale_rows[(rows,)](x, largest, positive, scale, columns, BLOCK=triton.next_power_of_2(columns))
        return {"scaled": x, "largest": largest, "positive": positive, "mean": x.mean()}
