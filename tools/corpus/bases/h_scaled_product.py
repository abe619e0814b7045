"""A product with weights of four bits, two in a byte, and a scale for each 32 of them."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, weight, scale):
        values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device=x.device)
        signed = torch.cat((values, -values))
        wide = signed[torch.stack((weight & 15, weight >> 4), -1).flatten(1).long()]
        wide = wide * torch.exp2(scale.float() - 127).repeat_interleave(32, 1)
        return x.float() @ wide.t()


def get_inputs():
    weight = torch.randint(0, 256, (32, 32), dtype=torch.uint8)
    scale = torch.randint(122, 130, (32, 2), dtype=torch.uint8)
    return [torch.randn(16, 64, dtype=torch.bfloat16), weight, scale]


def get_init_inputs():
    return []
