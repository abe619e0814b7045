"""Convolutions as a template: what it writes is right at any stride, border and grouping, and can be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from kernelagent.models.compiler.capture import Smaller, capture
from kernelagent.models.compiler.choices import Choice, Config
from kernelagent.models.compiler.numbers import sizes_of
from kernelagent.models.compiler.policy import Past
from kernelagent.models.compiler.program import parse_program
from kernelagent.models.compiler.templates import Context, Site, sites_of
from kernelagent.models.compiler.writing import Call, Writer, Written
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.ceilings import ceilings_for
from tests import evaluations
from tests.lanes import examples
from tests.models.compiler.templates.interpreted import answer
from tests.models.compiler.test_policy import policy_for, source_of

TAKEN = Choice(sites={"convolution 0": True, "convolution 1": True})


class Then(nn.Module):
    """A convolution and what is done with its result."""

    def __init__(self, conv: nn.Module, after: Callable[..., Any], **tensors: torch.Tensor) -> None:
        super().__init__()
        self.conv, self.after = conv, after
        for name, tensor in tensors.items():
            self.register_parameter(name, nn.Parameter(tensor))

    def forward(self, x: torch.Tensor) -> Any:
        return self.after(self, self.conv(x), x)


def relu(module: Any, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.relu(y)


@pytest.fixture(scope="module")
def interpreter() -> BatchedInterpreter:
    return BatchedInterpreter()


def written(module: nn.Module, *args: torch.Tensor, choice: Choice = TAKEN) -> Written:
    call = Call("default", capture(module, args, {}))
    return Writer(module, "from_reference", choice).write([call])


def sites(module: nn.Module, *args: torch.Tensor) -> list[Site]:
    captured = capture(module, args, {})
    program = parse_program(captured.source, "it")
    sizes = sizes_of(program, {}, "it")
    return sites_of(Context(captured, program, (sizes, sizes), ceilings_for("sm_90"), "it"))


def agrees(
    interpreter: BatchedInterpreter, folder: Path, module: nn.Module, x: torch.Tensor, source: str
) -> None:
    """What is written answers as the module does, to the last digits of its type."""
    with torch.no_grad():
        expected = module(x)
    got = answer(interpreter, source, folder, module, x)
    loose = 1e-2 if x.dtype != torch.float32 else 1e-4
    torch.testing.assert_close(got, expected, rtol=loose, atol=loose)


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


ONE_KERNEL: dict[str, Callable[[], tuple[nn.Module, tuple[int, ...]]]] = {
    "bias and relu": lambda: (Then(nn.Conv2d(5, 7, 3, padding=1), relu), (2, 5, 9, 11)),
    "a stride": lambda: (Then(nn.Conv2d(5, 20, 3, stride=2, padding=1), relu), (2, 5, 17, 18)),
    "another stride and border along each axis": lambda: (Then(nn.Conv2d(3, 4, (5, 3), stride=(3, 2), padding=(2, 0)), relu), (1, 3, 19, 14)),
    "a dilation": lambda: (Then(nn.Conv2d(4, 6, 3, dilation=2, padding=2), relu), (2, 4, 9, 8)),
    "groups": lambda: (Then(nn.Conv2d(12, 18, 3, groups=3), relu), (2, 12, 8, 7)),
    "points": lambda: (Then(nn.Conv2d(40, 24, 1, bias=False), relu), (2, 40, 5, 7)),
    "points that are far apart": lambda: (Then(nn.Conv2d(6, 24, 1, stride=2), relu), (2, 6, 9, 7)),
    "a line": lambda: (Then(nn.Conv1d(6, 8, 5, stride=2, padding=3, dilation=2), relu), (3, 6, 21)),
    "a volume": lambda: (Then(nn.Conv3d(3, 5, (3, 2, 1), padding=(1, 1, 0), stride=(1, 2, 1)), relu), (2, 3, 5, 6, 7)),
    "depthwise": lambda: (Then(nn.Conv2d(6, 6, 3, padding=1, groups=6), relu), (2, 6, 9, 11)),
    "depthwise with a stride": lambda: (Then(nn.Conv2d(6, 6, (5, 1), stride=2, groups=6), relu), (2, 6, 19, 11)),
    "depthwise, two channels of each": lambda: (Then(nn.Conv2d(6, 12, 3, dilation=2, padding=1, groups=6), relu), (2, 6, 9, 8)),
    "depthwise along a line": lambda: (Then(nn.Conv1d(6, 6, 70, padding=35, groups=6), relu), (2, 6, 90)),
    "depthwise in a volume": lambda: (Then(nn.Conv3d(4, 4, 3, padding=1, groups=4), relu), (2, 4, 5, 6, 7)),
    "transposed": lambda: (Then(nn.ConvTranspose2d(5, 7, 3, stride=2, padding=1, output_padding=1), relu), (2, 5, 6, 5)),
    "transposed, without a stride": lambda: (Then(nn.ConvTranspose2d(5, 7, 3), relu), (2, 5, 6, 5)),
    "transposed, dilated": lambda: (Then(nn.ConvTranspose2d(5, 7, 3, stride=3, dilation=2, padding=2), relu), (2, 5, 6, 5)),
    "transposed, in groups": lambda: (Then(nn.ConvTranspose2d(6, 4, (2, 3), stride=(2, 1), groups=2), relu), (2, 6, 4, 5)),
    "transposed points": lambda: (Then(nn.ConvTranspose2d(6, 4, 1, groups=2), relu), (2, 6, 4, 5)),
    "transposed, a line": lambda: (Then(nn.ConvTranspose1d(6, 4, 4, stride=2, padding=1), relu), (2, 6, 9)),
    "transposed, a volume": lambda: (Then(nn.ConvTranspose3d(3, 4, 3, stride=2), relu), (1, 3, 3, 4, 2)),
    "transposed, depthwise": lambda: (Then(nn.ConvTranspose2d(6, 6, 3, stride=2, padding=1, groups=6), relu), (2, 6, 4, 5)),
    "a factor and an addend for each channel": lambda: (Then(nn.Conv2d(5, 7, 3), lambda m, y, x: torch.sigmoid(y * m.scale + m.shift), scale=draw(1, 7, 1, 1), shift=draw(2, 7, 1, 1)), (2, 5, 9, 8)),
    "an addend for each position": lambda: (Then(nn.Conv2d(5, 5, 3, padding=1), lambda m, y, x: torch.tanh(y) + m.map, map=draw(3, 9, 8)), (2, 5, 9, 8)),
    "what went in": lambda: (Then(nn.Conv2d(5, 5, 3, padding=1), lambda m, y, x: torch.relu(y) + x), (2, 5, 9, 8)),
    "what went in, channel by channel": lambda: (Then(nn.Conv2d(5, 5, 3, padding=1, groups=5), lambda m, y, x: torch.relu(y * m.scale) + x, scale=draw(4, 5, 1, 1)), (2, 5, 9, 8)),
    "one number for each image": lambda: (Then(nn.Conv2d(5, 6, 3), lambda m, y, x: y * m.by_image), (3, 5, 9, 8)),
    "a norm of batches": lambda: (nn.Sequential(nn.Conv2d(5, 6, 3), nn.BatchNorm2d(6), nn.SiLU()).eval(), (3, 5, 9, 8)),
    "one image and one channel": lambda: (Then(nn.Conv2d(1, 1, 3), relu), (1, 1, 9, 8)),
    "a window as large as the image": lambda: (Then(nn.Conv2d(5, 17, 4), relu), (3, 5, 4, 4)),
}  # fmt: skip


def made(name: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    module, shape = ONE_KERNEL[name]()
    if name == "one number for each image":
        module.register_parameter("by_image", nn.Parameter(torch.randn(3, 1, 1, 1)))
    return module, torch.randn(*shape)


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_a_convolution_and_what_follows_it_is_one_kernel_that_answers_as_torch_does(
    interpreter: BatchedInterpreter, tmp_path: Path, name: str
) -> None:
    module, x = made(name)
    source = written(module, x).source
    assert source.count("@triton.jit") == 1, source
    assert "torch.convolution" not in source
    assert max(map(len, source.splitlines())) < 100
    agrees(interpreter, tmp_path, module, x, source)
