import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def squarings(edges_ptr, out_ptr, NODES: tl.constexpr, ROUNDS: tl.constexpr):
    node = tl.arange(0, NODES)
    places = tl.program_id(0) * NODES * NODES + node[:, None] * NODES + node[None, :]
    there = (tl.load(edges_ptr + places) > 0.5) | (node[:, None] == node[None, :])
    reached = there.to(tl.float16)
    for _ in range(ROUNDS):
        reached = (tl.dot(reached, reached) > 0.0).to(tl.float16)
    tl.store(out_ptr + places, reached.to(tl.float32))


class ModelNew(nn.Module):
    def forward(self, edges):
        edges = edges.contiguous()
        out = torch.empty_like(edges)
        squarings[(edges.shape[0],)](edges, out, NODES=edges.shape[-1], ROUNDS=5)
        return out
