"""Convolutions as a template: what it writes is right at any stride, border and grouping, and can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from kernelagent.models.compiler.capturing.capture import Smaller, capture
from kernelagent.models.compiler.capturing.hollow_tensors import HollowTensors
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.writing import Writer, Written
from kernelagent.models.compiler.policy import Past
from kernelagent.models.compiler.program.calls import Call
from kernelagent.models.compiler.program.numbers import sizes_of
from kernelagent.models.compiler.program.program import parse_program
from kernelagent.models.compiler.templates import Context, Site, sites_of
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from tests import evaluations
from tests.lanes import examples, often
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


@pytest.fixture(autouse=True)
def exactly() -> Iterator[None]:
    """Nothing is rounded, so that the answers can be compared; a test may allow it."""
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = True


def agrees(
    interpreter: BatchedInterpreter,
    folder: Path,
    module: nn.Module,
    x: torch.Tensor,
    source: str,
    within: float = 1e-4,
) -> None:
    """What is written answers as the module does, to the last digits of its type."""
    with torch.no_grad():
        expected = module(x)
    got = answer(interpreter, source, folder, module, x)
    loose = 1e-2 if x.dtype != torch.float32 else within
    torch.testing.assert_close(got, expected, rtol=loose, atol=loose)


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


ONE_KERNEL: dict[str, Callable[[], tuple[nn.Module, tuple[int, ...]]]] = {
    "bias and relu": lambda: (Then(nn.Conv2d(5, 7, 3, padding=1), relu), (2, 5, 9, 11)),
    "a stride": lambda: (Then(nn.Conv2d(5, 20, 3, stride=2, padding=1), relu), (2, 5, 17, 18)),
    "no border, by its name": lambda: (Then(nn.Conv2d(3, 8, 4, stride=4, padding="valid"), relu), (2, 3, 16, 16)),
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
    "numbers that the forward makes": lambda: (Then(nn.Conv2d(5, 5, 3), lambda m, y, x: torch.min(y, torch.tensor(0.5)) * torch.tensor(3)), (2, 5, 9, 8)),
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


OFTEN = (
    "bias and relu",
    "a stride",
    "a dilation",
    "groups",
    "points",
    "a line",
    "a volume",
    "depthwise",
    "depthwise, two channels of each",
    "transposed",
    "transposed, depthwise",
    "a factor and an addend for each channel",
    "an addend for each position",
    "numbers that the forward makes",
    "what went in",
    "one number for each image",
    "a norm of batches",
)
"""Each way to be a convolution, and each thing that may follow, once; the long lane has them together."""


@pytest.mark.long
@pytest.mark.parametrize("name", often({name: name for name in ONE_KERNEL}, OFTEN))
def test_a_convolution_and_what_follows_it_is_one_kernel_that_answers_as_torch_does(
    interpreter: BatchedInterpreter, tmp_path: Path, name: str
) -> None:
    module, x = made(name)
    source = written(module, x).source
    assert source.count("@triton.jit") == 1, source
    assert "torch.convolution" not in source
    assert [line for line in source.splitlines() if len(line) >= 100] == []
    agrees(interpreter, tmp_path, module, x, source)


@st.composite
def convolutions(draw: Any) -> tuple[nn.Module, torch.Tensor]:
    """Any convolution of one to three axes, small, and images that it takes."""
    axes = draw(st.integers(1, 3))

    def some(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(axes))

    window, stride, dilation = some(1, 3), some(1, 3), some(1, 2)
    groups, depthwise = draw(st.integers(1, 3)), draw(st.booleans())
    each_in = 1 if depthwise else draw(st.integers(1, 18))
    channels = groups * each_in, groups * draw(st.integers(1, 18))
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, window, strict=True)]
    sizes = tuple(r + draw(st.integers(0, 5)) for r in reach)
    padding = tuple(draw(st.integers(0, r - 1)) for r in reach)
    numbers = {"stride": stride, "dilation": dilation, "padding": padding, "groups": groups}
    numbers["bias"] = draw(st.booleans())
    transposed = draw(st.booleans())
    if transposed:
        most = (max(s, d) - 1 for s, d in zip(stride, dilation, strict=True))
        numbers["output_padding"] = tuple(draw(st.integers(0, m)) for m in most)
    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    if transposed:
        kinds = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    torch.manual_seed(0)
    module = kinds[axes - 1](*channels, window, **numbers)
    return Then(module, relu), torch.randn(draw(st.integers(1, 3)), channels[0], *sizes)


@pytest.mark.long
@given(drawn=convolutions(), seed=st.integers(0, 7))
@settings(max_examples=examples(20))
def test_any_convolution_answers_as_torch_does_in_any_tile(
    interpreter: BatchedInterpreter,
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[nn.Module, torch.Tensor],
    seed: int,
) -> None:
    module, x = drawn
    first = written(module, x)
    name = next(name for name, kind in first.kinds.items() if kind == "convolution")
    offered = [first.configs[name], *(item.config for item in first.alternatives[name])]
    chosen = Choice(sites=TAKEN.sites, configs={name: offered[seed % len(offered)]})
    source = written(module, x, choice=chosen).source
    agrees(interpreter, tmp_path_factory.mktemp("any"), module, x, source)


def both_read(module: Any, y: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.softmax(y, 1), y


def flattened(module: Any, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(y.flatten(1), -1)


def pooled(module: Any, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return nn.functional.max_pool2d(torch.relu(y), 2)


@pytest.mark.long
@pytest.mark.parametrize("after", [both_read, flattened, pooled])
def test_what_no_tile_holds_stays_a_kernel_of_its_own(
    interpreter: BatchedInterpreter, tmp_path: Path, after: Callable[..., Any]
) -> None:
    torch.manual_seed(0)
    module, x = Then(nn.Conv2d(5, 6, 3), after), torch.randn(2, 5, 9, 8)
    source = written(module, x).source
    assert source.count("@triton.jit") >= 2
    agrees(interpreter, tmp_path, module, x, source)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(6, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))) + x)


@pytest.mark.long
def test_two_convolutions_of_one_shape_are_two_kernels_with_all_that_follows(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module, x = Residual(), torch.randn(2, 6, 9, 8)
    source = written(module, x).source
    assert source.count("@triton.jit") == 2
    agrees(interpreter, tmp_path, module, x, source)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_added_up_in_float32(
    interpreter: BatchedInterpreter, tmp_path: Path, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    module = Then(nn.Conv2d(5, 6, 3), relu).to(dtype)
    x = torch.randn(2, 5, 9, 8).to(dtype)
    source = written(module, x).source
    assert "tl.dot(weight, patches, total)" in source
    agrees(interpreter, tmp_path, module, x, source)


@pytest.mark.long
@pytest.mark.parametrize(
    ("may_round", "first", "all_of"),
    [(True, "tf32", {"tf32", "tf32x3", "ieee"}), (False, "tf32x3", {"tf32x3", "ieee"})],
)
def test_factors_are_rounded_only_where_cudnn_may(
    may_round: bool, first: str, all_of: set[str]
) -> None:
    torch.backends.cudnn.allow_tf32 = may_round
    module, x = made("bias and relu")
    made_of = written(module, x)
    assert f'input_precision="{first}"' in made_of.source
    offered = {item.config.precision for item in made_of.alternatives["conv2d_relu"]}
    assert offered <= all_of


@pytest.mark.long
def test_rounded_factors_stay_as_near_as_tf32_is(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    torch.backends.cudnn.allow_tf32 = True
    module, x = made("bias and relu")
    agrees(interpreter, tmp_path, module, x, written(module, x).source, within=2e-3)


def test_depthwise_has_nothing_to_multiply_as_matrices() -> None:
    module, x = made("depthwise")
    assert "tl.dot" not in written(module, x).source


@pytest.mark.long
def test_weights_are_read_as_they_are_at_each_call(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module, x = made("groups")
    source = written(module, x).source
    with torch.no_grad():
        module.conv.weight.mul_(-2.0)
        module.conv.bias.add_(1.0)
    agrees(interpreter, tmp_path, module, x, source)


@pytest.mark.long
def test_a_convolution_can_be_left_to_the_library() -> None:
    module, x = made("bias and relu")
    source = written(module, x, choice=Choice(sites={"convolution 0": False})).source
    assert "out = torch.convolution(" in source
    assert "tl.dot" not in source


@pytest.mark.long
def test_what_the_estimate_calls_slower_is_left_to_the_library_and_said_to_be_slower() -> None:
    hollow = HollowTensors()
    with hollow:
        x = torch.empty(16, 64, 256, 256)
    conv = nn.Conv2d(64, 128, 3)
    fused = written(Then(conv, relu), x, choice=Choice())
    assert fused.sites == {"convolution 0": False}
    assert fused.remarks[0].startswith("torch's library does")
    # Alone there would be no kernel at all without it.
    alone = written(conv, x, choice=Choice())
    assert alone.sites == {"convolution 0": True}
    assert "slower than the library by this estimate" in alone.remarks[0]


@pytest.mark.long
def test_images_that_lie_channels_last_are_left_to_the_library() -> None:
    module, x = made("bias and relu")
    assert sites(module, x.to(memory_format=torch.channels_last)) == []


@pytest.mark.long
def test_fp64_is_left_to_the_library() -> None:
    module, x = made("bias and relu")
    assert sites(module.double(), x.double()) == []


@pytest.mark.long
def test_offsets_are_wide_where_an_operand_needs_it() -> None:
    hollow = HollowTensors()
    with hollow:
        large = torch.empty(1 << 17, 1, 130, 130)
    assert ".to(tl.int64)" in written(Then(nn.Conv2d(1, 1, 3), relu), large).source
    module, x = made("bias and relu")
    assert "int64" not in written(module, x).source


@pytest.mark.long
def test_sizes_that_are_executed_smaller_are_arguments(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module = Then(nn.Conv2d(5, 6, 3, stride=2, padding=1), relu)
    full = torch.randn(4, 5, 34, 28)
    few = torch.empty(2, 5, 17, 9, device="meta")
    captured = capture(module, (full,), {}, smaller=Smaller(module, (few,), {}))
    source = Writer(module, "from_reference", TAKEN).write([Call("default", captured)]).source
    assert source.count("@triton.jit") == 1
    assert "x.shape[2]" in source
    assert "34" not in source.split("def forward")[1]
    for x in (full, torch.randn(2, 5, 17, 9)):
        agrees(interpreter, tmp_path, module, x, source)


@pytest.mark.long
def test_turns_try_other_tiles_and_the_library_and_end() -> None:
    module, x = made("bias and relu")
    policy = policy_for(module, (x,))
    past: list[Past] = []
    while (reply := policy.reply(past)) is not None:
        past.append(Past(source_of(reply), evaluations.accepted(2.0 - 0.01 * len(past))))
        assert len(past) < 60
    sources = [item.source for item in past]
    assert len(set(sources)) == len(sources) > 3
    assert any("torch.convolution" in source for source in sources)
    assert any('"ieee"' in source for source in sources)


@pytest.mark.long
def test_a_wrong_result_is_answered_with_another_precision() -> None:
    module, x = made("bias and relu")
    policy = policy_for(module, (x,))
    first = source_of(policy.reply([]))
    reply = policy.reply([Past(first, evaluations.rejected("wrong_output"))])
    assert 'input_precision="ieee"' in source_of(reply)
