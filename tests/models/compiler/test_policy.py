"""The built-in policy on modules people own: what it writes compiles, is right, and can be read."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from kernelagent.domain.candidate import Candidate, parse_reply
from kernelagent.domain.evaluation import Evaluation, KernelFacts
from kernelagent.models.compiler.capturing.capture import PolicyCannot, Smaller, capture
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.writing import Writer
from kernelagent.models.compiler.policy import Past, Policy
from kernelagent.models.compiler.program.calls import Call
from kernelagent.tools.judge.source_reading.reading import disclosures
from kernelagent.tools.sandbox.spawn import ForkServer
from tests import evaluations
from tests.judges import verdict_on
from tests.lanes import often

Made = Callable[[], tuple[nn.Module, tuple[Any, ...]]]


class Of(nn.Module):
    """A module around a function, with parameters and buffers by name."""

    def __init__(self, function: Callable[..., Any], **tensors: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, tensor in tensors.items():
            self.register_parameter(name, nn.Parameter(tensor))

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


class TwoInputs(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * y.t() + x.sum(0)


class Picks(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.amax(-1), x.argmax(-1)


class WithTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(16, 24))
        self.register_buffer("step", torch.linspace(0, 1, 24), persistent=False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.table[rows] * self.step


class Nested(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"both": [x.exp(), x * 2], "name": "pair"}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 32), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Attention(nn.Module):
    """Query heads share keys and values, by torch or by hand; `masked`: some tokens are not seen."""

    def __init__(self, *, masked: bool, by_torch: bool = False) -> None:
        super().__init__()
        self.query, self.both = nn.Linear(64, 64), nn.Linear(64, 32)
        self.masked, self.by_torch = masked, by_torch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        query = self.query(x).view(batch, tokens, 4, 16).transpose(1, 2)
        key, value = self.both(x).view(batch, tokens, 2, 1, 16).unbind(2)
        key, value = (t.transpose(1, 2) for t in (key, value))
        if not self.by_torch:
            key, value = (t.expand(batch, 4, tokens, 16) for t in (key, value))
        mask = x[:, None, None, :, 0] > -1.0 if self.masked else None
        mixed = nn.functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=not self.masked,
            scale=0.3,
            enable_gqa=self.by_torch,
        )
        return torch.relu(mixed.transpose(1, 2).reshape(batch, tokens, 64)) + x


MODULES: dict[str, Made] = {
    "pointwise chain": lambda: (Of(lambda m, x: torch.sigmoid(x) * x.abs() + 1.5), (torch.randn(7, 33),)),
    "batch norm": lambda: (nn.Sequential(nn.BatchNorm2d(6), nn.ReLU()).eval(), (torch.randn(2, 6, 5, 7),)),
    "two kernels": lambda: (Of(lambda m, x: torch.softmax(x, -1) @ m.w, w=torch.randn(40, 16)), (torch.randn(12, 40),)),
    "broadcast with a transposed input": lambda: (TwoInputs(), (torch.randn(12, 20), torch.randn(20, 12))),
    "max and argmax": lambda: (Picks(), (torch.randn(9, 50),)),
    "buffers and indices": lambda: (WithTable(), (torch.randint(0, 16, (11,)),)),
    "nested results": lambda: (Nested(), (torch.randn(5, 8),)),
    "a stack of layers": lambda: (Block(), (torch.randn(10, 64),)),
    "mean and variance": lambda: (Of(lambda m, x: (x.var(-1), x.mean(-1))), (torch.randn(6, 300),)),
    "half precision": lambda: (Of(lambda m, x: torch.log_softmax(x * m.s, -1), s=torch.randn(1).half()), (torch.randn(8, 70).half(),)),
    "long rows": lambda: (Of(lambda m, x: torch.softmax(x, -1)), (torch.randn(2, 20000),)),
    "causal attention": lambda: (Attention(masked=False), (torch.randn(2, 12, 64),)),
    "attention with shared heads": lambda: (Attention(masked=False, by_torch=True), (torch.randn(2, 12, 64),)),
    "attention with a mask": lambda: (Attention(masked=True), (torch.randn(2, 12, 64),)),
    "a layer of torch's transformer": lambda: (nn.TransformerEncoderLayer(32, 4, 48, batch_first=True).eval(), (torch.randn(2, 10, 32),)),
    "convolution with a bias and relu": lambda: (nn.Sequential(nn.Conv2d(6, 10, 3, stride=2, padding=1), nn.ReLU()), (torch.randn(3, 6, 17, 14),)),
    "depthwise convolution": lambda: (nn.Sequential(nn.Conv2d(12, 12, 3, padding=1, groups=12), nn.SiLU()), (torch.randn(2, 12, 9, 11),)),
    "transposed convolution": lambda: (nn.ConvTranspose3d(6, 8, 3, stride=2, groups=2), (torch.randn(2, 6, 4, 5, 3),)),
    "norm of columns": lambda: (Of(lambda m, x: x / x.norm(dim=0, keepdim=True)), (torch.randn(60, 34),)),
}  # fmt: skip


def policy_for(module: nn.Module, args: tuple[Any, ...]) -> Policy:
    return Policy(module, "from_reference", {"default": (args, {})})


def source_of(reply: str | None) -> str:
    assert reply is not None
    parsed = parse_reply(reply)
    assert isinstance(parsed, Candidate), parsed
    return parsed.source


@cache
def written(name: str) -> tuple[nn.Module, tuple[Any, ...], str]:
    """A module of `MODULES` with its arguments and what the policy writes for it."""
    torch.manual_seed(0)
    module, args = MODULES[name]()
    return module, args, source_of(policy_for(module, args).reply([]))


OFTEN = {"pointwise chain"}
"""Judged and read on every commit; what is written for the others is in the long lane."""
NAMES = {name: name for name in MODULES}


@pytest.mark.parametrize("name", often(NAMES, OFTEN))
def test_what_it_writes_is_accepted_by_the_judge(
    tmp_path: Path, fork_server: ForkServer, name: str
) -> None:
    module, args, source = written(name)
    result = verdict_on(source, module, args, tmp_path / "bundle", fork_server)
    assert result.accepted, f"{result.reason}\n{source}"


@pytest.mark.parametrize("name", often(NAMES, OFTEN))
def test_what_it_writes_can_be_read(name: str) -> None:
    _, _, source = written(name)
    ast.parse(source)
    for word in (
        "_inductor",
        "triton_helpers",
        "triton_per",
        "triton_poi",
        "tmp0",
        "xindex",
        "evict",
    ):
        assert word not in source
    assert max(map(len, source.splitlines())) < 110
    imported = set(re.findall(r"^(?:import|from) (\w+)", source, re.MULTILINE))
    assert imported <= {"torch", "triton"}


@pytest.mark.parametrize("name", often(NAMES, OFTEN))
def test_a_reading_of_what_it_writes_finds_nothing_to_tell(name: str) -> None:
    _, _, source = written(name)
    assert list(disclosures(source)) == []


def test_a_convolution_and_what_follows_it_is_the_only_kernel() -> None:
    _, _, source = written("convolution with a bias and relu")
    assert source.count("@triton.jit") == 1
    assert "def conv2d_relu" in source
    assert "torch.conv" not in source


def test_other_shapes_raise_instead_of_being_computed_wrongly() -> None:
    module, args = MODULES["pointwise chain"]()
    scope: dict[str, Any] = {}
    source = source_of(policy_for(module, args).reply([]))
    checked = next(n for n in ast.parse(source).body if getattr(n, "name", "") == "_contiguous")
    exec(compile(ast.Module([checked], []), "checked", "exec"), scope)
    with pytest.raises(ValueError, match="x must be"):
        scope["_contiguous"]("x", torch.randn(3, 3), (7, 33), torch.float32)


class Breaks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum().item() > 0 else x


class Routes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = (x > 0).nonzero()
        return x[chosen[:, 0]] if len(chosen) else x


class TooMuch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.randn(5000), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.mask


@pytest.mark.parametrize(
    ("module", "args", "said"),
    [
        (Breaks(), (torch.randn(4),), r"by the values .* \(test_policy.py:\d+\)"),
        (Routes(), (torch.randn(4),), "has one path only"),
        (TooMuch(), (torch.randn(5000),), "state_dict"),
        (
            nn.LSTM(8, 8, proj_size=4),
            (torch.randn(90, 2, 8),),
            r"one library call \(cuDNN's.* --submodule",
        ),
    ],
    ids=["branches on a value", "as many rows as values say", "large constant", "projected LSTM"],
)
def test_what_it_cannot_rewrite_is_said_with_the_way_out(
    module: nn.Module, args: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(PolicyCannot, match=said) as caught:
        policy_for(module, args).reply([])
    assert str(caught.value).startswith("the built-in policy cannot rewrite")
    assert str(caught.value).endswith("give a model with --model")


@pytest.mark.long
def test_any_number_of_rows_where_fewer_are_executed() -> None:
    module = nn.Sequential(nn.RMSNorm(64))
    many, fewer = torch.randn(4096, 64), torch.empty(96, 64, device="meta")
    captured = capture(module, (many,), {}, smaller=Smaller(module, (fewer,), {}))
    source = Writer(module, "from_reference", Choice()).write([Call("default", captured)]).source
    assert "= input.shape[0]" in source
    assert "4096" not in source
    assert "96" not in source


@pytest.mark.long
def test_what_torch_does_alone_is_said_to_leave_no_kernel() -> None:
    with pytest.raises(PolicyCannot, match="torch's own libraries"):
        policy_for(nn.Linear(8, 8).double(), (torch.randn(4, 8).double(),)).reply([])


def states(policy: Policy, verdicts: Mapping[int, Any], turns: int) -> list[str]:
    past: list[Past] = []
    for turn in range(turns):
        reply = policy.reply(past)
        if reply is None:
            break
        past.append(Past(source_of(reply), verdicts[turn]))
    return [item.source for item in past]


@pytest.mark.long
def test_it_never_repeats_itself_and_ends() -> None:
    module, args = MODULES["half precision"]()
    scores = {turn: evaluations.accepted(1.5 - 0.01 * turn) for turn in range(60)}
    sources = states(policy_for(module, args), scores, 60)
    assert 3 < len(sources) < 60
    assert len(set(sources)) == len(sources)


def bound_by(bound: str, *estimates_us: float) -> dict[int, Evaluation]:
    verdicts = dict(enumerate(evaluations.accepted(10.0 / us) for us in estimates_us))
    return {
        turn: replace(verdict, estimate=replace(verdict.estimate, bound=bound))
        for turn, verdict in verdicts.items()
        if verdict.estimate is not None
    }


@pytest.mark.long
def test_where_launches_decide_the_estimate_two_configurations_are_enough() -> None:
    module, args = MODULES["half precision"]()
    policy = policy_for(module, args)
    verdicts = bound_by("launch", 4.0, 4.0)
    assert len(states(policy, verdicts, 2)) == 2
    past = [Past(s, verdicts[at]) for at, s in enumerate(states(policy, verdicts, 2))]
    assert policy.reply(past) is None
    assert "launches decide this estimate" in policy.nothing_left(past)


def keeping_busy(device_us: float) -> Evaluation:
    """Accepted, estimated at 20 µs, of which its kernel keeps the device busy for so long."""
    verdict = bound_by("launch", 20.0)[0]
    return replace(verdict, kernels=(KernelFacts("scaled", launches=2, estimate_us=device_us),))


@pytest.mark.long
def test_two_versions_that_raise_alike_are_a_defect_of_the_policy_and_said_to_be_one() -> None:
    module, args = MODULES["half precision"]()
    policy = policy_for(module, args)
    raised = evaluations.rejected("runtime_error")
    first = [Past(source_of(policy.reply([])), raised)]
    second = source_of(policy.reply(first))
    past = [*first, Past(second, raised)]
    assert policy.reply(past) is None
    assert "defect of the built-in policy" in policy.nothing_left(past)


@pytest.mark.long
def test_where_the_host_hides_the_kernels_no_configuration_is_tried() -> None:
    module, args = MODULES["half precision"]()
    policy = policy_for(module, args)
    first = source_of(policy.reply([]))
    assert policy.reply([Past(first, keeping_busy(6.0))]) is None
    assert policy.reply([Past(first, keeping_busy(12.0))]) is not None


@pytest.mark.long
@pytest.mark.parametrize("verdicts", [bound_by("dram", 4.0, 4.0), bound_by("launch", 4.0, 3.8)])
def test_where_a_configuration_may_tell_more_are_tried(verdicts: dict[int, Evaluation]) -> None:
    module, args = MODULES["half precision"]()
    policy = policy_for(module, args)
    past = [Past(s, verdicts[at]) for at, s in enumerate(states(policy, verdicts, 2))]
    assert policy.reply(past) is not None
    assert "launches" not in policy.nothing_left(past)


@pytest.mark.long
def test_the_same_history_gives_the_same_reply() -> None:
    module, args = MODULES["half precision"]()
    scores = {turn: evaluations.accepted(1.0 + 0.1 * (turn % 3)) for turn in range(8)}
    item, two = (states(policy_for(module, args), scores, 6) for _ in range(2))
    assert item == two


@pytest.mark.long
def test_a_refused_first_version_is_answered_with_a_smaller_one() -> None:
    module, args = MODULES["half precision"]()
    policy = policy_for(module, args)
    first = source_of(policy.reply([]))
    reply = policy.reply([Past(first, evaluations.rejected("out_of_resources"))])
    assert reply is not None
    assert "refused (out_of_resources)" in reply
    assert source_of(reply) != first
