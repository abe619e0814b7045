"""Whether a node's parents lead to the root, which is node 0, in as many steps as there are nodes."""

import torch


class Model(torch.nn.Module):
    def forward(self, parents: torch.Tensor) -> torch.Tensor:
        at = parents
        for _ in range(parents.shape[1]):
            at = torch.where(at == 0, at, parents.gather(1, at))
        return at == 0


def get_inputs() -> list[torch.Tensor]:
    return [torch.randint(0, 40, (6, 40))]


def get_init_inputs() -> list[object]:
    return []
