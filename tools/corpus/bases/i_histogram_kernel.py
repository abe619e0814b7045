import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count(labels_ptr, out_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    labels = tl.load(labels_ptr + i, mask=i < n, other=0).to(tl.int32)
    found = tl.histogram(labels, BINS, mask=i < n)
    tl.atomic_add(out_ptr + tl.arange(0, BINS), found)


class ModelNew(nn.Module):
    def forward(self, labels):
        out = torch.zeros(32, dtype=torch.int32, device=labels.device)
        count[(triton.cdiv(labels.numel(), 256),)](labels, out, labels.numel(), BINS=32, BLOCK=256)
        return out
