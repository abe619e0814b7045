import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_rows(index_ptr, table_ptr, out_ptr, length, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for at in range(0, length):
        found = tl.load(index_ptr + row * length + at)
        total += tl.load(table_ptr + found * width + j, mask=j < width, other=0.0)
    tl.store(out_ptr + row * width + j, total, mask=j < width)


class ModelNew(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Embedding(rows, width)

    def forward(self, index):
        index = index.contiguous()
        table = self.table.weight
        rows, length = index.shape
        out = torch.empty((rows, table.shape[1]), device=table.device, dtype=table.dtype)
        block = triton.next_power_of_2(table.shape[1])
        sum_rows[(rows,)](index, table, out, length, table.shape[1], BLOCK=block)
        return out
