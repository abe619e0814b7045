"""What the built-in policy writes for a module that is trained: its gradients are right, and it can be read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from kernelagent.models.compiler.capturing.capture import PolicyCannot
from kernelagent.models.compiler.capturing.capture_step import capture_step
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.writing import Writer
from kernelagent.models.compiler.policy import Past, Policy
from kernelagent.models.compiler.program.calls import Call
from kernelagent.prompts.repeats import normal_form
from kernelagent.tools.judge.source_reading.reading import disclosures
from kernelagent.tools.sandbox.spawn import ForkServer
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests.evaluations import accepted
from tests.judges import verdict_on
from tests.lanes import often
from tests.models.compiler.templates.interpreted import loaded
from tests.models.compiler.templates.test_attend import Block
from tests.models.compiler.test_policy import source_of

Made = Callable[[], tuple[nn.Module, tuple[Any, ...]]]


class Of(nn.Module):
    """A function of the inputs and of the module's own tensors and layers, by name."""

    def __init__(self, function: Callable[..., Any], **own: Any) -> None:
        super().__init__()
        self.function = function
        for name, value in own.items():
            setattr(self, name, value)

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> Any:
        return self.function(self, x) if y is None else self.function(self, x, y)


def parameter(*shape: int, **how: Any) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape), **how)


class Tied(nn.Module):
    """Embeds with the weight that it reads out with."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 32)
        self.out = nn.Linear(32, 40, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(self.embedding(tokens)))


class Frozen(nn.Module):
    """Its first layer is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 48), nn.Linear(48, 24)
        self.first.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(functional.silu(self.first(x)))


class Doubles(nn.Module):
    """Another function while it is trained."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * 2 if self.training else torch.cos(x)


class RunningMean(nn.Module):
    """What it subtracts it has changed first, and its backward reads both: as it was, and as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.scale = parameter(8), parameter(8)
        self.register_buffer("kept", torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = x * self.scale * self.kept.clone()
        if self.training:
            self.kept.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return (x - self.kept) * self.weight + before


class Counted(nn.Module):
    """Its result depends on the number of the call, which is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = parameter(8)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("unread", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.unread.add_(3)
            self.calls.add_(1)
        return torch.tanh(x * self.weight) / (self.calls + 1)


MODULES: dict[str, Made] = {
    "layer norm and gelu": lambda: (Of(lambda m, x: functional.gelu(m.norm(x)), norm=nn.LayerNorm(48)), (torch.randn(10, 48),)),
    "rms norm of a residual": lambda: (Of(lambda m, x, y: (m.norm(x + y), x + y), norm=nn.RMSNorm(48)), (torch.randn(10, 48), torch.randn(10, 48))),
    "group norm": lambda: (nn.GroupNorm(3, 12), (torch.randn(4, 12, 5, 6),)),
    "batch norm without statistics": lambda: (nn.BatchNorm2d(6, track_running_stats=False), (torch.randn(4, 6, 5, 6),)),
    "batch norm": lambda: (nn.BatchNorm1d(8), (torch.randn(50, 8),)),
    "batch norm of a convolution": lambda: (nn.Sequential(nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU()), (torch.randn(4, 3, 9, 8),)),
    "batch norm twice with one norm": lambda: (Of(lambda m, x: m.norm(torch.tanh(m.norm(x))), norm=nn.BatchNorm1d(8)), (torch.randn(50, 8),)),
    "a running mean": lambda: (RunningMean(), (torch.randn(20, 8),)),
    "a count that decides": lambda: (Counted(), (torch.randn(20, 8),)),
    "activations": lambda: (Of(lambda m, x: functional.silu(x) * torch.tanh(x) + functional.relu(x - 0.5) + functional.leaky_relu(x).abs()), (torch.randn(9, 33),)),
    "softmax": lambda: (Of(lambda m, x: torch.softmax(x, -1)), (torch.randn(9, 70),)),
    "log softmax of columns": lambda: (Of(lambda m, x: torch.log_softmax(x, 0)), (torch.randn(20, 33),)),
    "cross entropy": lambda: (Of(lambda m, x, y: functional.cross_entropy(x, y)), (torch.randn(10, 70), torch.randint(0, 70, (10,)))),
    "cross entropy that ignores some": lambda: (Of(lambda m, x, y: functional.cross_entropy(x, y, ignore_index=3, label_smoothing=0.1)), (torch.randn(10, 7), torch.randint(0, 7, (10,)))),
    "linear and gelu": lambda: (nn.Sequential(nn.Linear(32, 48), nn.GELU()), (torch.randn(20, 32),)),
    "two linears": lambda: (nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16)), (torch.randn(3, 7, 32),)),
    "tied weights": lambda: (Tied(), (torch.randint(0, 40, (5, 6)),)),
    "frozen weights": lambda: (Frozen(), (torch.randn(20, 32),)),
    "several results, some without gradients": lambda: (Of(lambda m, x: {"best": x.amax(-1), "at": x.argmax(-1), "all": [x.exp(), *torch.chunk(x.detach() * 2, 3, -1)]}), (torch.randn(9, 33),)),
    "a parameter without dimensions": lambda: (Of(lambda m, x: torch.tanh(x * m.scale), scale=parameter()), (torch.randn(9, 33),)),
    "half precision": lambda: (Of(lambda m, x: x + functional.silu(m.linear(m.norm(x))), norm=nn.RMSNorm(64, dtype=torch.bfloat16), linear=nn.Linear(64, 64, dtype=torch.bfloat16)), (torch.randn(32, 64).bfloat16(),)),
    "a flag that changes it": lambda: (Doubles(), (torch.randn(9, 33),)),
    "written in place": lambda: (Of(lambda m, x: (x * m.w).add_(1.0).relu_().mul(x), w=parameter(33)), (torch.randn(9, 33),)),
    "one gradient for two inputs": lambda: (Of(lambda m, x, y: torch.sin(x + y)), (torch.randn(9, 33), torch.randn(9, 33))),
    "parts of one tensor": lambda: (Of(lambda m, x: torch.chunk(torch.tanh(x), 2, -1)), (torch.randn(9, 34),)),
    "causal attention": lambda: (Of(lambda m, x, y: functional.scaled_dot_product_attention(x, y, torch.sin(y), is_causal=True)), (torch.randn(2, 2, 24, 16), torch.randn(2, 2, 24, 16))),
    "attention of grouped heads": lambda: (Of(lambda m, x, y: functional.scaled_dot_product_attention(x, y, torch.sin(y), enable_gqa=True)), (torch.randn(2, 4, 21, 16), torch.randn(2, 2, 37, 16))),
    "causal attention of grouped heads over more keys": lambda: (Of(lambda m, x, y: functional.scaled_dot_product_attention(x, y, torch.sin(y), is_causal=True, enable_gqa=True)), (torch.randn(2, 4, 21, 16), torch.randn(2, 2, 37, 16))),
    "attention with a mask": lambda: (Of(lambda m, x, y: functional.scaled_dot_product_attention(x, y, torch.sin(y), m.seen), seen=nn.Buffer(torch.ones(24, 24).tril(-1) > 0)), (torch.randn(2, 2, 24, 16), torch.randn(2, 2, 24, 16))),
    "attention with lowest numbers": lambda: (Of(lambda m, x, y: functional.scaled_dot_product_attention(x, y, torch.sin(y), m.added, scale=0.3), added=nn.Buffer(torch.finfo().min * torch.ones(24, 24).triu(2) * (torch.arange(24) % 5 > 1)[:, None])), (torch.randn(2, 2, 24, 16), torch.randn(2, 2, 24, 16))),
    "attention in bfloat16": lambda: (Of(lambda m, x, y: functional.scaled_dot_product_attention(x, y, torch.sin(y))), (torch.randn(2, 2, 40, 24, dtype=torch.bfloat16), torch.randn(2, 2, 40, 24, dtype=torch.bfloat16))),
    "attention of a block": lambda: (Block(32, 2), (torch.randn(2, 20, 32),)),
    "attention of long heads": lambda: (Of(lambda m, x, y: functional.scaled_dot_product_attention(x, y, torch.sin(y))), (torch.randn(1, 1, 6, 264), torch.randn(1, 1, 6, 264))),
}  # fmt: skip
OFTEN = {"layer norm and gelu", "softmax", "written in place", "frozen weights"}
"""Tried on every commit; the others in the long lane."""


@pytest.fixture(autouse=True)
def convolutions_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not rounded to tf32: gradients are compared to five digits."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture(scope="module")
def interpreter() -> BatchedInterpreter:
    return BatchedInterpreter()


@cache
def written(name: str) -> tuple[nn.Module, tuple[Any, ...], str]:
    """A module of `MODULES` with its arguments and what the policy writes for it."""
    torch.manual_seed(0)
    module, args = MODULES[name]()
    return module, args, policy_for(module, args).first().source


def policy_for(module: nn.Module, args: tuple[Any, ...]) -> Policy:
    return Policy(module, "from_reference", {"default": (args, {})}, train=True)


def upstream_of(outputs: Sequence[torch.Tensor], kind: str) -> list[torch.Tensor]:
    """Gradients of these: side by side in memory, the other way round, or one number for all."""
    torch.manual_seed(1)
    # By place, wherever the results lie in memory.
    drawn = [torch.randn(output.shape).to(output.dtype) for output in outputs]
    if kind == "transposed":
        return [g.mT.contiguous().mT if g.dim() > 1 else g for g in drawn]
    if kind == "expanded":
        return [g.reshape(-1)[0].expand(g.shape) for g in drawn]
    return drawn


def gradients(
    module: nn.Module, args: tuple[Any, ...], kind: str
) -> tuple[list[Any], list[torch.Tensor | None]]:
    """The tensors of the result, and the gradients of the parameters and of the floating inputs."""
    given = [a.clone().requires_grad_() if a.is_floating_point() else a for a in args]
    outputs = [o for o in tree_leaves(module(*given)) if isinstance(o, torch.Tensor)]
    kept = [output for output in outputs if output.requires_grad]
    asked = [p for p in module.parameters() if p.requires_grad]
    asked += [a for a in given if a.requires_grad]
    found = torch.autograd.grad(kept, asked, upstream_of(kept, kind), allow_unused=True)
    return [(output.detach(), output.requires_grad) for output in outputs], list(found)


def assert_same(ours: Any, theirs: Any) -> None:
    for (got, traced), (want, needed) in zip(ours[0], theirs[0], strict=True):
        assert traced == needed
        _assert_close(got, want)
    for got, want in zip(ours[1], theirs[1], strict=True):
        assert (got is None) == (want is None)
        if want is not None:
            _assert_close(got, want)


def _assert_close(got: torch.Tensor, want: torch.Tensor) -> None:
    coarse = want.dtype == torch.bfloat16
    rtol, atol = (3e-2, 6e-2) if coarse else (1e-4, 2e-5)
    torch.testing.assert_close(got, want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", often({name: name for name in MODULES}, OFTEN))
def test_gradients_are_those_of_the_module_however_the_upstream_ones_lie(
    interpreter: BatchedInterpreter, tmp_path: Path, name: str
) -> None:
    module, args, source = written(name)
    for training in (True, False):
        new = loaded(interpreter, source, tmp_path, module.train(training))
        for kind in ("contiguous", "transposed", "expanded"):
            assert_same(gradients(new, args, kind), gradients(module, args, kind))
            for (path, got), want in zip(new.named_buffers(), module.buffers(), strict=True):
                torch.testing.assert_close(got, want, msg=path)


@pytest.mark.long
def test_few_channels_of_large_images_are_summed_image_by_image_first(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module, args = nn.BatchNorm2d(3), (2 + torch.randn(4, 3, 33, 34),)
    source = policy_for(module, args).first().source
    assert "(3 * input_size_0,)" in source
    assert "(3 * grad_out_size_0,)" in source
    new = loaded(interpreter, source, tmp_path, module)
    for kind in ("contiguous", "transposed"):
        assert_same(gradients(new, args, kind), gradients(module, args, kind))
        for got, want in zip(new.buffers(), module.buffers(), strict=True):
            torch.testing.assert_close(got, want)
    # What all places share has no gradient, and leaves none of its rounding.
    _, (weight, _, x) = gradients(new, args, "expanded")
    assert weight is not None
    assert not weight.any()
    assert x is not None
    assert not x.any()


@pytest.mark.long
@pytest.mark.parametrize("name", often({name: name for name in MODULES}, OFTEN))
def test_what_it_writes_can_be_read_and_has_nothing_to_tell(name: str) -> None:
    _, _, source = written(name)
    assert list(disclosures(source)) == []
    (function, *_) = [n for n in ast.parse(source).body if "Function" in getattr(n, "name", "")]
    for word in ("buf0", "primals", "tangents", "tmp0", "xindex", "reinterpret", "alias", ".item("):
        assert word not in source
    assert [line for line in source.splitlines() if len(line) >= 120] == []
    assert "save_for_backward" in ast.unparse(function)


def test_a_larger_batch_than_the_one_it_was_written_for_is_trained_too(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module, _, source = written("layer norm and gelu")
    new = loaded(interpreter, source, tmp_path, module)
    args = (torch.randn(37, 48),)
    assert_same(gradients(new, args, "contiguous"), gradients(module, args, "contiguous"))


@pytest.mark.long
def test_attention_that_a_convolution_follows_is_written_out_where_nothing_is_known_of_its_gradient(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    """torch's own backward of a convolution is a library's call: how what it returns lies is not in the program."""

    class Before(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Conv1d(16, 16, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            heads = x.unflatten(1, (2, 8)).transpose(-2, -1)
            y = functional.scaled_dot_product_attention(heads, heads, torch.tanh(heads))
            return self.project(y.transpose(-2, -1).flatten(1, 2))

    module, args = Before(), (torch.randn(2, 16, 20),)
    source = source_of(policy_for(module, args).reply([]) or "")
    assert "attention_query_gradient" not in source
    new = loaded(interpreter, source, tmp_path, module)
    assert_same(gradients(new, args, "contiguous"), gradients(module, args, "contiguous"))


@pytest.mark.long
def test_everything_may_be_kept_instead_of_computed_again(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module, args, again = written("layer norm and gelu")
    pairs = capture_step(module, args, {}, recompute=False)
    keeping = Writer(module, "from_reference", Choice()).write([Call("default", pairs)]).source
    assert keeping.count("save_for_backward") == again.count("save_for_backward") == 1
    assert keeping != again
    new = loaded(interpreter, keeping, tmp_path, module)
    assert_same(gradients(new, args, "contiguous"), gradients(module, args, "contiguous"))


class WritesToItsInput(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y.add_(1.0)
        return x * 2


class ReturnsItsState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.kept.add_(1.0)
        return x * 2, self.kept


@pytest.mark.parametrize(
    ("module", "args", "said"),
    [
        (WritesToItsInput(), (torch.randn(5, 3), torch.zeros(3)), "writes to y"),
        (ReturnsItsState(), (torch.randn(5, 3),), "returns what it was given"),
        (nn.Sequential(nn.Dropout(0.5), nn.ReLU()), (torch.randn(5, 3),), "random numbers"),
        (Of(lambda m, x: (x, x * 2)), (torch.randn(5, 3),), "returns what it was given"),
        (Of(lambda m, x: x.argmax(-1)), (torch.randn(5, 3),), "nothing that it returns has"),
        (Of(lambda m, x: x * 2), (torch.randn(5, 3, dtype=torch.complex64),), "x is complex"),
    ],
    ids=["writes to an input", "its state", "dropout", "its input", "no gradient", "complex"],
)
def test_what_it_cannot_train_is_said(module: nn.Module, args: tuple[Any, ...], said: str) -> None:
    with pytest.raises(PolicyCannot, match=said):
        policy_for(module, args).first()


OFTEN = {"layer norm and gelu", "batch norm"}
JUDGED = [
    pytest.param(name, marks=[] if name in OFTEN else [pytest.mark.long])
    for name in (
        "layer norm and gelu",
        "batch norm",
        "cross entropy",
        "two linears",
        "a flag that changes it",
        "batch norm of a convolution",
        "a running mean",
        "a count that decides",
        "attention of a block",
        "causal attention of grouped heads over more keys",
    )
]


@pytest.mark.parametrize("name", JUDGED)
@pytest.mark.always
@pytest.mark.long
def test_a_step_of_what_it_writes_is_accepted_by_the_judge(
    tmp_path: Path, fork_server: ForkServer, name: str
) -> None:
    module, args, source = written(name)
    result = verdict_on(source, module, args, tmp_path / "bundle", fork_server, "train")
    assert result.accepted, f"{result.reason}\n{source}"


@pytest.mark.long
def test_no_turn_hands_in_what_was_handed_in_before() -> None:
    """To keep what the backward would compute again changes nothing where it computes nothing again."""
    policy = policy_for(
        Of(lambda module, x: x * module.scale, scale=parameter(8)), (torch.randn(4, 8),)
    )
    past: list[Past] = []
    while (reply := policy.reply(past)) is not None:
        source = source_of(reply)
        assert normal_form(source) not in {normal_form(earlier.source) for earlier in past}
        past.append(Past(source, accepted(2.0)))
    assert len(past) > 1


@pytest.mark.long
def test_what_a_call_in_training_writes_to_is_copied_for_the_backward_of_one_in_eval_mode() -> None:
    """As of a teacher that is called between: the kernels write without torch's noticing."""
    _, _, source = written("a count that decides")
    trained, in_eval = source.split("class CountedInEvalFunction")
    assert "clone" not in trained
    assert "calls_before = calls.clone()" in in_eval
