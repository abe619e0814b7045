"""Takes a pair and a dictionary, gives a tuple with a dictionary in it: integers, truth values and numbers."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, pair, options):
        a, b = pair
        total = a + b * options["scale"]
        above = total > options["limit"]
        return total, {"above": above, "count": above.sum(dim=1), "any": above.any(), "top": total.amax()}


def get_inputs():
    pair = (torch.randn(11, 60), torch.randn(11, 60))
    return [pair, {"scale": torch.rand(60), "limit": 0.25}]


def get_init_inputs():
    return []
