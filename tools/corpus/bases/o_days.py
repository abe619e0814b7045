"""Days and seconds of the day, from seconds since 1970, as features of logs have them."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, seconds: torch.Tensor) -> torch.Tensor:
        return torch.stack((seconds // 86400, seconds % 86400), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randint(0, 2**31, (2048,))]


def get_init_inputs() -> list[object]:
    return []
