"""A kernel of somebody else's project as a candidate, and the forward of torch that it is judged against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Project:
    """A repository; `packages`: the folder in it that holds the package."""

    repository: str
    packages: str = "."
    given: Mapping[str, str] = field(default_factory=dict)
    """Names that choose between devices or versions while they are imported, as text for an NVIDIA GPU."""
    branches: Mapping[str, bool] = field(default_factory=dict)
    """Conditions of the package's modules whose branches are taken apart, and how they come out there."""


@dataclass(frozen=True)
class Case:
    """A forward of torch, and the same with a kernel of `project`.

    `state` and `own_state`: the statements of both constructors, the second of the candidate's where it
    is another. `forward`, `kernel`: what is returned. Backward too where `train`.
    """

    name: str
    project: Project
    module: str
    takes: tuple[str, ...]
    inputs: str
    forward: str
    kernel: str
    state: str = ""
    own_state: str | None = None
    arguments: str = "x"
    train: bool = False
    fault: str = ""
    """What is wrong with the kernel itself where it has to be refused; empty where it is right."""
    limit: str = ""
    """What the judge or `virtual` cannot do, where a right kernel is not accepted; empty where it can."""
    defined: str = ""
    """What `forward` calls that torch has not, as text beside the module."""
    own_defined: str = ""
    """What `kernel` calls that the project has not: the launch, where the project's own is not to be had apart."""


def calls(project: Project, short: str, folder: str) -> Callable[..., Case]:
    """Cases of a project whose functions are called as they are, from modules below a folder of it."""

    def case(
        name: str,
        file: str,
        takes: str | tuple[str, ...],
        inputs: str,
        forward: str,
        kernel: str,
        **more: Any,
    ) -> Case:
        taken = (takes,) if isinstance(takes, str) else takes
        module = f"{folder}.{file}"
        return Case(f"{short} {name}", project, module, taken, inputs, forward, kernel, **more)

    return case


ROWS = "torch.randn(512, 1000)"
SEQUENCES = "torch.randn(4, 128, 768)"
TWO = "torch.randn(4, 128, 1376), torch.randn(4, 128, 1376)"
IMAGES = "torch.randn(8, 32, 28, 28)"
CLASSES = "torch.randn(512, 1000), torch.randint(0, 1000, (512,))"
PROBABILITIES = "torch.randn(256, 1000).log_softmax(-1), torch.randn(256, 1000).softmax(-1)"
LOGS = "torch.randn(256, 1000).log_softmax(-1), torch.randn(256, 1000).log_softmax(-1)"
WEIGHT = "self.weight = nn.Parameter(torch.rand(768) + 0.5)"
AFFINE = WEIGHT + "; self.bias = nn.Parameter(torch.randn(768) * 0.1)"
HEADS = (
    "torch.randn(2, 8, 64, 64), torch.randn(2, 2, 64, 64), torch.randn(1, 64, 32).repeat(1, 1, 2).cos(), "
    "torch.randn(1, 64, 32).repeat(1, 1, 2).sin()"
)
TURNED = (
    "(q * cos[:, None] + torch.cat((-q[..., 32:], q[..., :32]), -1) * sin[:, None], "
    "k * cos[:, None] + torch.cat((-k[..., 32:], k[..., :32]), -1) * sin[:, None])"
)
RMS = "self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))"
ONE_GRADIENT = (
    "the gradients of both summands are one tensor: what clips one of them changes the other"
)
"""A fault that layer norms of a sum share."""
