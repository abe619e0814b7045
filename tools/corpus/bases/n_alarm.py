"""An alarm that begins above one level and goes on until the signal falls below a lower one."""

import torch


class Model(torch.nn.Module):
    def __init__(self, begins: float, ends: float) -> None:
        super().__init__()
        self.begins, self.ends = begins, ends

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        ringing = torch.zeros_like(signal[:, 0], dtype=torch.bool)
        every = []
        for at in range(signal.shape[1]):
            now = signal[:, at]
            ringing = (now > self.begins) | (ringing & (now > self.ends))
            every.append(ringing)
        return torch.stack(every, 1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(3, 48, 16)]


def get_init_inputs() -> list[float]:
    return [1.75, 0.875]
