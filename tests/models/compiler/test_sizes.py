"""One program for the user's sizes and for the smaller ones that are executed: the judge accepts it at both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.models.compiler.capturing.capture import PolicyCannot, Smaller
from kernelagent.models.compiler.module.constructor import ORIGINAL, state_lines
from kernelagent.models.compiler.module.constructor_sizes import followed, of_the_original
from kernelagent.models.compiler.module.fixed_arguments import fixed_arguments
from kernelagent.models.compiler.policy import Policy
from kernelagent.tools.judge.problem.load import LoadedProblem, load_problem
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.judges import open_judge
from tests.models.compiler.test_policy import source_of

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
NORM = """
class Model(nn.Module):
    def __init__(self, width, height):
        super().__init__()
        self.norm = nn.LayerNorm((width, height))

    def forward(self, x):
        return self.norm(x)

def get_inputs():
    return [torch.randn({rows}, {width}, {height})]

def get_init_inputs():
    return [{width}, {height}]
"""
CONVOLUTION = """
class Model(nn.Module):
    def __init__(self, width, twice):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.group = nn.GroupNorm(4, width)

    def forward(self, x):
        return torch.relu(F.max_pool2d(self.group(self.depthwise(x)), 2))

def get_inputs():
    return [torch.randn({rows}, {width}, {height}, 9)]

def get_init_inputs():
    return [{width}, 2 * {width}]
"""
DENSE = """
class Model(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm2d(width * (at + 1)) for at in range(layers))
        self.layers = nn.ModuleList(nn.Conv2d(width * (at + 1), width, 1) for at in range(layers))

    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers):
            x = torch.cat([x, layer(torch.relu(norm(x)))], 1)
        return x

def get_inputs():
    return [torch.randn({rows}, {width}, 5, {height})]

def get_init_inputs():
    return [{width}, 6]
"""
LONG_ROWS = """
class Model(nn.Module):
    def forward(self, x):
        return torch.var_mean(x, dim=(1, 2))

def get_inputs():
    return [torch.randn({rows}, {width}, {height}) + 3]
"""
FULL, SMALL = {"rows": 6, "width": 48, "height": 36}, {"rows": 4, "width": 32, "height": 20}
DENSE_FULL = {"rows": 6, "width": 24, "height": 36}
LONG = {"rows": 3, "width": 480, "height": 50}


def problem_at(folder: Path, text: str, sizes: dict[str, int]) -> LoadedProblem:
    path = folder / f"sizes_{sizes['rows']}.py"
    path.write_text(HEAD + text.format(**sizes))
    return load_problem(ProblemSpec(path=str(path)))


class Patches(nn.Module):
    """A vision transformer's first weights: places of a picture's patches, and of a class."""

    def __init__(self, size: int, patch: int, width: int) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        self.along = nn.Parameter(torch.zeros(size // patch + 2))


def test_how_many_patches_there_are_follows_from_the_picture() -> None:
    full, small = (224, 16, 512), (48, 16, 128)
    given, less = (full, {}), (small, {})
    state = followed(Patches(*full), Patches(*small), given, less)
    assert state == {
        "places": ("1", "(size // 16) ** 2 + 1", "width"),
        "along": ("(size // 16) + 2",),
    }
    fixed = fixed_arguments(Patches, given, less, state)
    assert [(one.argument, one.value) for one in fixed] == [("patch", "16")]


@pytest.mark.parametrize(
    ("text", "full"),
    [
        pytest.param(NORM, FULL, id="a norm of two given sizes", marks=pytest.mark.long),
        pytest.param(CONVOLUTION, FULL, id="groups and pools", marks=pytest.mark.long),
        pytest.param(
            DENSE,
            DENSE_FULL,
            id="a kernel launched twice, over sums of sizes",
            marks=pytest.mark.long,
        ),
        pytest.param(
            LONG_ROWS, LONG, id="moments of rows too long to hold", marks=pytest.mark.long
        ),
    ],
)
def test_the_judge_accepts_it_at_the_given_and_at_smaller_sizes(
    tmp_path: Path, fork_server: ForkServer, text: str, full: dict[str, int]
) -> None:
    problems = {
        name: problem_at(tmp_path, text, at) for name, at in (("full", full), ("small", SMALL))
    }
    modules = {name: problem.build().eval() for name, problem in problems.items()}
    calls = {name: problem.input_sets()["default"] for name, problem in problems.items()}
    given = (problems[name].init_args() for name in ("full", "small"))
    state = followed(modules["full"], modules["small"], *given)
    smaller = {"default": Smaller(modules["small"], *calls["small"])}
    source = source_of(
        Policy(modules["full"], "init", {"default": calls["full"]}, smaller, state=state).reply([])
    )
    for sizes in (full, SMALL):
        path = str(tmp_path / f"sizes_{sizes['rows']}.py")
        with open_judge(
            JudgeSettings(ProblemSpec(path=path), device="virtual"), fork_server
        ) as judge:
            result = judge.evaluate(source, "turn", lambda _: None)
        assert result.accepted, f"{result.reason}\n{source}"


class Fixed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, 24).sum(1) if x.shape[1] == 48 else x.sum(1)


def test_a_size_that_the_forward_fixes_is_named() -> None:
    module = Fixed()
    smaller = {"default": Smaller(module, (torch.empty(4, 32, device="meta"),), {})}
    policy = Policy(module, "init", {"default": ((torch.randn(4, 48),), {})}, smaller)
    with pytest.raises(PolicyCannot, match="a size of 48 alone, and it is executed with 32"):
        policy.reply([])


class Rows(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.both = nn.Linear(width + hidden, 4 * hidden)
        self.table = nn.Parameter(torch.empty(width // 2, 7))


def test_the_states_sizes_follow_from_the_constructors_arguments() -> None:
    shapes = followed(Rows(96, 40), Rows(48, 20), ((96, 40), {}), ((48, 20), {}))
    assert shapes == {
        "both.weight": ("4 * hidden", "(width + hidden)"),
        "both.bias": ("4 * hidden",),
        "table": ("width // 2", "7"),
    }


def test_made_of_the_original_they_are_read_off_it() -> None:
    full, small = Rows(96, 40), Rows(48, 20)
    shapes = of_the_original(full, small, ORIGINAL)
    lines = "\n".join(f"    {line}" for line in state_lines(full, shapes))
    namespace: dict[str, Any] = {"torch": torch, "nn": nn}
    exec(f"def build(self, {ORIGINAL}):\n{lines}", namespace)
    for original in (full, small):
        made = nn.Module()
        namespace["build"](made, original)
        for name, parameter in original.named_parameters():
            assert made.get_parameter(name).shape == parameter.shape
    assert shapes["table"] == ('shell.get_parameter("table").shape[0]', "7")
