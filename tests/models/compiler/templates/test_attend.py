"""Attention as a template: what it writes is right for any heads, lengths and masks, and is left where it does not pay."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from kernelagent.models.compiler.capturing.capture import PolicyCannot, Smaller, capture
from kernelagent.models.compiler.capturing.hollow_tensors import HollowTensors
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.writing import Writer, Written
from kernelagent.models.compiler.program.calls import Call
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests.lanes import crossed, examples, often
from tests.models.compiler.templates.interpreted import answer

TAKEN = Choice(sites={"attention 0": True})


def _as_it_is(y: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return y


class Attend(nn.Module):
    """`scaled_dot_product_attention` with these settings."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = settings

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        return scaled_dot_product_attention(q, k, v, mask, **self.settings)


class Block(nn.Module):
    """Self-attention as in a transformer: one projection before, one after."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class WrittenOut(nn.Module):
    """Attention step by step; `after` is done to the scores before the softmax, `last` to the weights."""

    def __init__(
        self, after: Callable[..., torch.Tensor], last: Callable[..., Any] = _as_it_is
    ) -> None:
        super().__init__()
        self.after, self.last = after, last
        self.register_buffer("seen", torch.tril(torch.ones(64, 64)))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        scores = self.after(q @ k.transpose(-2, -1), self.seen[: q.shape[2], : k.shape[2]])
        weights = torch.softmax(scores, -1)
        y = (weights @ v).transpose(1, 2)
        return self.last(y.reshape(y.shape[0], y.shape[1], -1), weights)


@pytest.fixture(scope="module")
def interpreter() -> BatchedInterpreter:
    return BatchedInterpreter()


def written(module: nn.Module, *args: Any, choice: Choice = TAKEN) -> Written:
    call = Call("default", capture(module, args, {}))
    return Writer(module, "from_reference", choice).write([call])


def agrees(
    interpreter: BatchedInterpreter, folder: Path, module: nn.Module, source: str, *args: Any
) -> None:
    with torch.no_grad():
        expected = module(*args)
    got = answer(interpreter, source, folder, module, *args)
    loose = 2e-2 if args[0].dtype != torch.float32 else 1e-4
    torch.testing.assert_close(got, expected, rtol=loose, atol=loose, equal_nan=True)


def made(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(*shape, dtype=dtype) for shape in shapes]


SAME = ((2, 3, 40, 24),) * 3
SHAPES = {"same": SAME,
          "queries": ((2, 2, 70, 16), (2, 2, 33, 16), (2, 2, 33, 16)),
          "one query": ((2, 2, 1, 32), (2, 2, 65, 32), (2, 2, 65, 32)),
          "longer values": ((1, 2, 20, 16), (1, 2, 20, 16), (1, 2, 20, 48)),
          "an odd head": ((1, 2, 20, 7), (1, 2, 20, 7), (1, 2, 20, 7)),
          "a head of one tile's length": ((1, 1, 64, 64), (1, 1, 64, 64), (1, 1, 64, 64))}  # fmt: skip


@pytest.mark.parametrize(
    ("shapes", "causal"), crossed(SHAPES, {"all are seen": False, "causal": True})
)
def test_it_answers_as_torch_does(
    interpreter: BatchedInterpreter, tmp_path: Path, shapes: Any, causal: bool
) -> None:
    module, tensors = Attend(is_causal=causal), made(*shapes)
    source = written(module, *tensors).source
    assert "scaled_dot_product_attention" not in source
    agrees(interpreter, tmp_path, module, source, *tensors)


MASKS: Mapping[str, torch.Tensor] = {
    "added, for all": torch.randn(40, 40),
    "added, by head": torch.randn(1, 3, 40, 40),
    "added, one row for all queries": torch.randn(2, 1, 1, 40),
    "one number for each head": torch.randn(1, 3, 1, 1),
    "one number for all": torch.randn(1, 1, 1, 1),
    "chosen or not for all": torch.ones(1, 1, 1, 1) > 0,
    "chosen": torch.rand(2, 3, 40, 40) > 0.4,
    "chosen, one row for all queries": torch.rand(2, 1, 1, 40) > 0.4,
    "a row that sees nothing": torch.ones(40, 40).tril(-1) > 0,
    "the lowest number, also in whole rows": torch.finfo().min
    * (torch.rand(2, 1, 40, 40).round() * torch.arange(40)[:, None]).clamp(max=1),
    "the lowest number everywhere": torch.full((40, 40), torch.finfo().min),
}


MASKS_OFTEN = (
    "added, by head",
    "one number for all",
    "chosen",
    "a row that sees nothing",
    "the lowest number, also in whole rows",
)


@pytest.mark.long
@pytest.mark.parametrize("mask", often(MASKS, MASKS_OFTEN))
def test_masks_are_added_or_choose(
    interpreter: BatchedInterpreter, tmp_path: Path, mask: torch.Tensor
) -> None:
    module, tensors = Attend(), [*made(*SAME), mask]
    source = written(module, *tensors).source
    assert "def masked_attention(" in source
    agrees(interpreter, tmp_path, module, source, *tensors)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits_are_multiplied_as_they_are(
    interpreter: BatchedInterpreter, tmp_path: Path, dtype: torch.dtype
) -> None:
    module, tensors = Attend(is_causal=True), made(*SAME, dtype=dtype)
    source = written(module, *tensors).source
    assert "input_precision" not in source
    assert "weights.to(value.dtype)" in source
    agrees(interpreter, tmp_path, module, source, *tensors)


def test_heads_may_share_keys_and_values(interpreter: BatchedInterpreter, tmp_path: Path) -> None:
    module = Attend(enable_gqa=True, scale=0.3)
    tensors = made((2, 6, 20, 16), (2, 2, 24, 16), (2, 2, 24, 16))
    source = written(module, *tensors).source
    assert "n_shared_heads" in source
    agrees(interpreter, tmp_path, module, source, *tensors)


@pytest.mark.long
def test_heads_are_read_where_a_projection_left_them(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module, x = Block(48, 3), torch.randn(2, 21, 48)
    result = written(module, x)
    assert set(result.kinds.values()) == {"product", "attention"}
    agrees(interpreter, tmp_path, module, result.source, x)


@pytest.mark.long
def test_sizes_that_are_executed_smaller_are_arguments(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module, full = Block(48, 3), torch.randn(4, 37, 48)
    few = torch.empty(2, 21, 48, device="meta")
    captured = capture(module, (full,), {}, smaller=Smaller(module, (few,), {}))
    source = Writer(module, "from_reference", TAKEN).write([Call("default", captured)]).source
    assert "37" not in source.split("def forward")[1]
    for x in (full, torch.randn(2, 21, 48)):
        agrees(interpreter, tmp_path, module, source, x)


@pytest.mark.long
def test_rows_that_would_be_spread_over_two_axes_go_over_one(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    shapes = ((1, 3, 2, 1), (1, 8, 3, 1), (1, 8, 3, 7))
    q, k, v = made(*shapes)
    module, tensors = Attend(), (q, k.transpose(1, 2), v.transpose(1, 2))
    source = written(module, *tensors).source
    agrees(interpreter, tmp_path, module, source, *tensors)


STEPS: Mapping[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "scaled": lambda s, seen: s * 0.2,
    "divided, then hidden": lambda s, seen: (s / 5.0).masked_fill(seen == 0, -math.inf),
    "hidden, then scaled": lambda s, seen: s.masked_fill(seen == 0, -math.inf) * 0.2,
    "scaled, then added": lambda s, seen: s * 0.2 + seen,
    "added in front": lambda s, seen: seen + s,
    "a row that sees nothing": lambda s, seen: s.masked_fill(seen.tril(-1) == 0, -math.inf),
}


@pytest.mark.long
@pytest.mark.parametrize("after", STEPS.values(), ids=list(STEPS))
def test_attention_that_is_written_out_becomes_one_kernel(
    interpreter: BatchedInterpreter, tmp_path: Path, after: Callable[..., torch.Tensor]
) -> None:
    module, tensors = WrittenOut(after), made(*SAME)
    result = written(module, *tensors)
    assert list(result.kinds.values()).count("attention") == 1
    assert "bmm" not in result.source
    agrees(interpreter, tmp_path, module, result.source, *tensors)


OTHER: Mapping[str, tuple[Callable[..., torch.Tensor], Callable[..., Any]]] = {
    "weights are an answer too": (STEPS["scaled"], lambda y, weights: (y, weights)),
    "what was added is scaled": (lambda s, seen: (s + seen) * 0.2, _as_it_is),
    "hidden by a number": (lambda s, seen: s.masked_fill(seen == 0, -50.0), _as_it_is),
    "turned around": (lambda s, seen: -s, _as_it_is),
    "scores are an answer": (lambda s, seen: torch.tanh(s), _as_it_is),
}


@pytest.mark.long
@pytest.mark.parametrize(("after", "last"), OTHER.values(), ids=list(OTHER))
def test_what_is_not_quite_attention_stays_as_it_is(
    after: Callable[..., torch.Tensor], last: Callable[..., Any]
) -> None:
    assert "attention" not in written(WrittenOut(after, last), *made(*SAME)).kinds.values()


@pytest.mark.long
def test_written_out_attention_takes_other_sizes(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module = WrittenOut(STEPS["scaled"])
    full, few = made(*SAME), made(*((1, 3, 17, 24),) * 3)
    hollow = [torch.empty(t.shape, device="meta") for t in few]
    captured = capture(module, full, {}, smaller=Smaller(module, hollow, {}))
    source = Writer(module, "from_reference", TAKEN).write([Call("default", captured)]).source
    assert "def attention(" in source
    for tensors in (full, few):
        agrees(interpreter, tmp_path, module, source, *tensors)


LONG = ((1, 4, 20, 300), (1, 2, 24, 300), (1, 2, 24, 300))


KINDS = ("plain", "causal", "added", "a row that sees nothing")
SCALES = {"as usual": None, "scaled": 0.1}


@pytest.mark.long
@pytest.mark.parametrize(("kind", "scale"), crossed({kind: kind for kind in KINDS}, SCALES))
def test_heads_that_no_tile_holds_are_products_and_a_softmax(
    interpreter: BatchedInterpreter, tmp_path: Path, kind: str, scale: float | None
) -> None:
    module, tensors = Attend(is_causal=kind == "causal", enable_gqa=True, scale=scale), made(*LONG)
    if kind not in ("plain", "causal"):
        tensors.append(torch.randn(20, 24) if kind == "added" else torch.ones(20, 24).tril(-1) > 0)
    source = written(module, *tensors).source
    assert "scaled_dot_product_attention" not in source
    agrees(interpreter, tmp_path, module, source, *tensors)


@pytest.mark.long
def test_a_long_head_that_is_executed_shorter_keeps_its_scale(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module, full = Attend(), made(*((1, 2, 20, 300),) * 3)
    few = made(*((1, 2, 20, 40),) * 3)
    hollow = [torch.empty(t.shape, device="meta") for t in few]
    captured = capture(module, full, {}, smaller=Smaller(module, hollow, {}))
    source = Writer(module, "from_reference", TAKEN).write([Call("default", captured)]).source
    for tensors in (full, few):
        agrees(interpreter, tmp_path, module, source, *tensors)


class Scaled(nn.Module):
    """Heads of another size where the module is made smaller, and what scores are divided by with them."""

    def __init__(self, width: int, divisor: Callable[[int], float]) -> None:
        super().__init__()
        self.divisor = divisor
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 3, c // 3).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) / self.divisor(k.size(-1)), -1)
        return (weights @ v).transpose(1, 2).reshape(b, t, c)


def root(size: int) -> float:
    return math.sqrt(size)


def double(size: int) -> float:
    return 2 * math.sqrt(size)


def smaller(divisor: Callable[[int], float]) -> Smaller:
    return Smaller(Scaled(24, divisor), (torch.empty(2, 17, 24, device="meta"),), {})


@pytest.mark.long
def test_the_root_of_the_head_s_size_follows_it(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module, full = Scaled(48, root), torch.randn(2, 33, 48)
    captured = capture(module, (full,), {}, smaller=smaller(root))
    result = Writer(module, "from_reference", TAKEN).write([Call("default", captured)])
    assert "(qkv_weight_size_1 // 3) ** -0.5" in result.source
    agrees(interpreter, tmp_path, module, result.source, full)


@pytest.mark.long
def test_another_root_of_a_size_follows_it_too(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module, full = Scaled(48, double), torch.randn(2, 33, 48)
    captured = capture(module, (full,), {}, smaller=smaller(double))
    result = Writer(module, "from_reference", Choice()).write([Call("default", captured)])
    agrees(interpreter, tmp_path, module, result.source, full)


@pytest.mark.long
def test_what_is_added_to_a_root_of_a_size_follows_it_as_well(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    def more(size: int) -> float:
        return float(size) ** 0.5 + 1.0

    torch.manual_seed(0)
    module, full = Scaled(48, more), torch.randn(2, 33, 48)
    captured = capture(module, (full,), {}, smaller=smaller(more))
    result = Writer(module, "from_reference", Choice()).write([Call("default", captured)])
    agrees(interpreter, tmp_path, module, result.source, full)


@pytest.mark.long
def test_a_size_that_is_made_a_number_is_named_and_nothing_is_written() -> None:
    def fixed(size: int) -> float:
        return 1.0 + len(range(size))

    with pytest.raises(PolicyCannot, match="holds only where"):
        capture(Scaled(48, fixed), (torch.randn(2, 33, 48),), {}, smaller=smaller(fixed))


def test_it_is_left_to_torch_where_that_is_estimated_to_be_faster() -> None:
    hollow = HollowTensors()
    with hollow:
        half = [torch.empty(8, 16, 4096, 128, dtype=torch.float16) for _ in range(3)]
        whole = [torch.empty(8, 16, 4096, 128) for _ in range(3)]
    for tensors in (half, whole):
        result = written(Attend(), *tensors, choice=Choice())
        (remark,) = result.remarks
        ours, theirs = (float(part.split(" µs")[0].split()[-1]) for part in remark.split(": ")[1:])
        assert result.sites == {"attention 0": True}, "nothing else is a kernel here"
        assert ("slower" in remark) == (ours > theirs), remark


@st.composite
def attentions(draw: Any) -> tuple[nn.Module, list[torch.Tensor]]:
    groups, shared = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    batch, queries, keys = (
        draw(st.integers(1, 2)),
        draw(st.integers(1, 80)),
        draw(st.integers(1, 80)),
    )
    dims, value_dims = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    torch.manual_seed(draw(st.integers(0, 9)))

    def tensor(heads: int, tokens: int, length: int) -> torch.Tensor:
        if draw(st.booleans()):
            return torch.randn(batch, heads, tokens, length)
        return torch.randn(batch, tokens, heads, length).transpose(1, 2)

    tensors = [
        tensor(groups * shared, queries, dims),
        tensor(shared, keys, dims),
        tensor(shared, keys, value_dims),
    ]
    kind = draw(st.sampled_from(["plain", "causal", "added", "chosen"]))
    if kind in ("added", "chosen"):
        sizes = (batch, groups * shared, queries, keys)
        mask = torch.randn([size if draw(st.booleans()) else 1 for size in sizes])
        tensors.append(mask > 0 if kind == "chosen" else mask)
    return Attend(is_causal=kind == "causal", enable_gqa=groups > 1), tensors


@pytest.mark.long
@given(drawn=attentions(), seed=st.integers(0, 9))
@settings(max_examples=examples(20))
def test_any_attention_answers_as_torch_does_in_any_tile(
    interpreter: BatchedInterpreter,
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[nn.Module, list[torch.Tensor]],
    seed: int,
) -> None:
    module, tensors = drawn
    first = written(module, *tensors)
    if "attention" not in first.kinds.values():
        # torch forms some of these step by step.
        assert "scaled_dot_product_attention" not in first.source
        return
    name = next(name for name, kind in first.kinds.items() if kind == "attention")
    offered = [first.configs[name], *(item.config for item in first.alternatives[name])]
    chosen = Choice(sites=TAKEN.sites, configs={name: offered[seed % len(offered)]})
    source = written(module, *tensors, choice=chosen).source
    agrees(interpreter, tmp_path_factory.mktemp("any"), module, source, *tensors)
