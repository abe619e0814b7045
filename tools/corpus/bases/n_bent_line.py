"""A line that is bent at zero, with a slope among the arguments."""

import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, slope: float) -> torch.Tensor:
        return torch.where(x > 0, x, slope * x)


def get_inputs() -> list[object]:
    return [torch.randn(16, 96), 0.125]


def get_init_inputs() -> list[object]:
    return []
