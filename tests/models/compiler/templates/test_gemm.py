"""Products as a template: which steps it takes over, what it prints for them, and when it leaves them alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from kernelagent.models.compiler.capturing.capture import Smaller, capture
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.writing import Writer, Written
from kernelagent.models.compiler.policy import Past
from kernelagent.models.compiler.program.calls import Call
from kernelagent.models.compiler.program.numbers import sizes_of
from kernelagent.models.compiler.program.program import parse_program
from kernelagent.models.compiler.templates import Context, Site, sites_of
from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from tests import evaluations
from tests.models.compiler.test_policy import policy_for, source_of


class Of(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
        return self.function(a, b)


def sites(module: nn.Module, *args: torch.Tensor) -> list[Site]:
    captured = capture(module, args, {})
    program = parse_program(captured.source, "it")
    sizes = sizes_of(program, {}, "it")
    return sites_of(Context(captured, program, (sizes, sizes), ceilings_for("sm_90"), "it"))


def written(module: nn.Module, *args: torch.Tensor, choice: Choice | None = None) -> Written:
    call = Call("default", capture(module, args, {}))
    return Writer(module, "from_reference", choice or Choice()).write([call])


def kernels(source: str) -> int:
    return source.count("@triton.jit")


A, B = torch.randn(20, 64), torch.randn(64, 24)
ONE_KERNEL: dict[str, tuple[Callable[..., Any], torch.Tensor, torch.Tensor]] = {
    "an elementwise chain": (lambda a, b: torch.sigmoid(a @ b) * 2 + 1, A, B),
    "a mask by place": (lambda a, b: torch.tril(a @ b), A, B),
    "softmax over rows": (lambda a, b: torch.softmax(a @ b, -1), A, B),
    "logsumexp over rows": (lambda a, b: torch.logsumexp(torch.relu(a @ b), -1), A, B),
    "a cast": (lambda a, b: (a.half() @ b).float(), A, B.half()),
    "views of both factors": (lambda a, b: torch.relu(a.T @ b.T), A.T.contiguous(), B.T.contiguous()),
    "a batch": (lambda a, b: torch.softmax(a @ b * 0.3, -1), torch.randn(2, 3, 20, 32), torch.randn(2, 3, 32, 24)),
    "a factor for each column": (lambda a, b: (a @ b) * b[0], A, B),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", ONE_KERNEL)
def test_what_follows_a_product_is_done_in_its_tile(name: str) -> None:
    function, a, b = ONE_KERNEL[name]
    source = written(Of(function), a, b).source
    assert kernels(source) == 1, source
    assert "torch.mm" not in source
    assert "torch.bmm" not in source


APART: dict[str, Callable[..., Any]] = {
    "a transposed result": lambda a, b: (a @ b).view(4, 5, 24).transpose(0, 1).contiguous() + 1,
    "norms of columns": lambda a, b: torch.softmax(a @ b, 0),
    "rows too long to hold": lambda a, b: torch.softmax(a.view(2, -1).T @ a.view(2, -1), -1),
}


@pytest.mark.parametrize("name", APART)
def test_what_no_tile_holds_stays_a_kernel_of_its_own(name: str) -> None:
    (site,) = sites(Of(APART[name]), A, B)
    assert len(site.steps) == 1
    assert kernels(written(Of(APART[name]), A, B).source) >= 2


def read_twice(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    product = a @ b
    return torch.softmax(product, 0), torch.relu(product * 2)


@pytest.mark.long
def test_a_product_that_is_read_twice_is_stored() -> None:
    (site,) = sites(Of(read_twice), A, B)
    assert len(site.steps) == 1


def test_whole_numbers_and_fp64_are_left_to_the_library() -> None:
    assert sites(Of(lambda a, b: torch.relu(a @ b)), A.double(), B.double()) == []


@pytest.mark.long
def test_sides_that_are_vectors_are_summed_without_tensor_cores() -> None:
    for a, b in ((A, B[:, :1].contiguous()), (A[:1].contiguous(), B)):
        source = written(Of(lambda a, b: a @ b), a, b).source
        assert "tl.dot" not in source
        assert "product = tl.sum(sums" in source


def test_few_tiles_and_a_long_inner_dimension_are_split_and_added_up_in_order() -> None:
    source = written(Of(lambda a, b: a @ b), torch.randn(16, 65536), torch.randn(65536, 16)).source
    assert "SPLIT_K=" in source
    assert "matmul_sum[" in source
    assert "atomic" not in source


@pytest.mark.parametrize(
    ("asked", "precision"), [("highest", "tf32x3"), ("high", "tf32"), ("medium", "tf32")]
)
def test_products_are_rounded_only_where_the_module_allows_it(asked: str, precision: str) -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(asked)
    try:
        source = written(Of(lambda a, b: torch.relu(a @ b)), A, B).source
    finally:
        torch.set_float32_matmul_precision(before)
    assert f'input_precision="{precision}"' in source


def test_half_precision_says_no_precision() -> None:
    source = written(Of(lambda a, b: torch.relu(a @ b)), A.bfloat16(), B.bfloat16()).source
    assert "tl.dot(a, b, product)" in source


def test_offsets_are_wide_where_an_operand_needs_it() -> None:
    a, b = torch.empty(1, 64).expand(1 << 25, 64), torch.empty(64, 128)
    source = written(Of(lambda a, b: a @ b), a, b).source
    assert ".to(tl.int64)[:, None]" in source
    assert "int64" not in written(Of(lambda a, b: a @ b), A, B).source


def test_sizes_that_are_executed_smaller_are_arguments() -> None:
    module = Of(lambda a, b: torch.sigmoid(a @ b))
    few = torch.empty(12, 64, device="meta"), torch.empty(64, 24, device="meta")
    captured = capture(module, (A, B), {}, smaller=Smaller(module, few, {}))
    source = Writer(module, "from_reference", Choice()).write([Call("default", captured)]).source
    assert kernels(source) == 1
    assert "a.shape[0]" in source
    assert "20" not in source.split("def forward")[1]


@pytest.mark.long
def test_a_site_can_be_left_to_the_library() -> None:
    module = Of(lambda a, b: torch.relu(a @ b))
    source = written(module, A, B, choice=Choice(sites={"product 0": False})).source
    assert "torch.mm(a, b, out=out)" in source
    assert "tl.dot" not in source


@pytest.mark.long
def test_turns_try_other_tiles_and_the_library_and_end() -> None:
    policy = policy_for(Of(lambda a, b: torch.relu(a @ b)), (A, B))
    past: list[Past] = []
    while (reply := policy.reply(past)) is not None:
        past.append(Past(source_of(reply), evaluations.accepted(2.0 - 0.01 * len(past))))
        assert len(past) < 60
    sources = [item.source for item in past]
    assert len(set(sources)) == len(sources) > 3
    assert any("torch.mm" in source for source in sources)
    assert any('"ieee"' in source for source in sources)


@pytest.mark.long
def test_a_wrong_result_is_answered_with_another_precision() -> None:
    policy = policy_for(Of(lambda a, b: torch.relu(a @ b)), (A, B))
    first = source_of(policy.reply([]))
    reply = policy.reply([Past(first, evaluations.rejected("wrong_output"))])
    assert 'input_precision="ieee"' in source_of(reply)
