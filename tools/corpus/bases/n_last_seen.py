"""The mean of what was seen last: each frame takes the place of the oldest."""

import torch


class Model(torch.nn.Module):
    def __init__(self, frames: int, width: int) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(frames, width))
        self.register_buffer("oldest", torch.zeros(1, dtype=torch.int64))

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        self.seen[self.oldest] = frame.unsqueeze(0)
        self.oldest.copy_((self.oldest + 1) % self.seen.shape[0])
        return self.seen.mean(0)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(48)]


def get_init_inputs() -> list[int]:
    return [6, 48]
