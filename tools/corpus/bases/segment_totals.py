import torch
import torch.nn as nn


class Model(nn.Module):
    """Rows of one segment added up; rows that are not finite are refused."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x, segments):
        if not torch.isfinite(x).all():
            raise ValueError("a row is not finite")
        totals = torch.zeros(6, x.shape[-1], device=x.device)
        return totals.index_add(0, segments, x) * self.weight


def get_inputs():
    return [torch.randn(40, 100), torch.randint(0, 6, (40,)).sort().values]


def get_init_inputs():
    return [100]
