"""Sums and means before the linear maps they are of: the same values, and the maps' own work gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from kernelagent.tools.estimates.moved_reductions import MOVED, Moved, with_reductions_moved
from kernelagent.tools.virtual.cost.ceilings import ceilings_for

H200 = ceilings_for("sm_90")
EVERY = {f"{MOVED}{number}": True for number in range(9)}
X, W, B, V = torch.randn(6, 20), torch.randn(20, 14), torch.randn(14), torch.randn(14)


def moved(
    function: Callable[..., Any], *args: torch.Tensor, chosen: dict[str, bool] | None = EVERY
) -> tuple[GraphModule, tuple[Moved, ...]]:
    traced = make_fx(function, tracing_mode="fake")(*args)
    return with_reductions_moved(traced, H200, chosen)


def shapes_of_products(graph: GraphModule) -> set[tuple[int, ...]]:
    return {
        tuple(node.meta["val"].shape)
        for node in graph.graph.nodes
        if node.target in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    }


ALIKE: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], tuple[int, ...]]] = {
    "over columns": (lambda x, w: (x @ w).sum(1), (X, W), (6, 1)),
    "over columns, kept": (lambda x, w: (x @ w).mean(-1, keepdim=True), (X, W), (6, 1)),
    "over columns, with numbers between": (lambda x, w: ((x @ w) / 2 - 3).sum(1), (X, W), (6, 1)),
    "over columns, with a bias": (lambda x, w, b: torch.addmm(b, x, w).sum(1), (X, W, B), (6, 1)),
    "over columns, with one number as bias": (lambda x, w, b: torch.addmm(b[:1], x, w).sum(1), (X, W, B), (6, 1)),
    "over columns, with factors and terms by column": (
        lambda x, w, b, v: ((torch.addmm(b, x, w) * v - v) / v + b).mean(1), (X, W, B, V), (6, 1)),
    "over rows": (lambda x, w: (x @ w).sum(0), (X, W), (1, 14)),
    "over rows, with a bias": (lambda x, w, b: torch.addmm(b, x, w).sum(0, keepdim=True), (X, W, B), (1, 14)),
    "over some axes of rows": (
        lambda x, w, b: (torch.addmm(b, x, w).view(2, 3, 14) * b + 1).sum(1), (X, W, B), (2, 14)),
    "the mean of some axes of rows": (
        lambda x, w, b: torch.addmm(b, x, w).view(2, 3, 14).mean(0), (X, W, B), (3, 14)),
    "over all axes of rows": (lambda x, w: (x @ w).view(2, 3, 14).sum((0, 1)), (X, W), (1, 14)),
    "over columns in several axes of rows": (lambda x, w: (x @ w).view(2, 3, 14).sum(-1), (X, W), (6, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_a_moved_reduction_has_the_same_values_and_little_of_the_product(name: str) -> None:
    function, args, left = ALIKE[name]
    graph, reductions = moved(function, *args)
    assert [item.done for item in reductions] == [True]
    assert shapes_of_products(graph) == {left}
    torch.testing.assert_close(graph(*args), function(*args), rtol=1e-5, atol=1e-4)


def test_places_of_a_transposed_convolution_are_summed_before_it() -> None:
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (torch.conv_transpose2d(x, w, b, stride=2) * 0.5 + 1).mean((2, 3), keepdim=True)

    args = torch.randn(2, 6, 7, 5), torch.randn(6, 8, 3, 3), torch.randn(8)
    graph, reductions = moved(function, *args)
    assert len(reductions) == 1
    assert not any("convolution" in str(node.target) for node in graph.graph.nodes)
    torch.testing.assert_close(graph(*args), function(*args), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_places_are_counted_at_any_size_dilation_and_stride(stride: int, mode: str) -> None:
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        more = {"output_padding": stride - 1, "dilation": 2 + stride}
        return torch.conv_transpose2d(x, w, b, stride=stride, **more).mean((2, 3))

    args = torch.randn(2, 6, 7, 5), torch.randn(6, 8, 3, 2), torch.randn(8)
    traced = make_fx(function, tracing_mode=mode)(*args)
    graph, reductions = with_reductions_moved(traced, H200, EVERY)
    assert len(reductions) == 1
    assert not any("convolution" in str(node.target) for node in graph.graph.nodes)
    for wider in (args[0], torch.randn(2, 6, 9, 8) if mode == "symbolic" else args[0]):
        given = wider, *args[1:]
        torch.testing.assert_close(graph(*given), function(*given), rtol=1e-4, atol=1e-4)


def test_a_convolution_whose_edges_are_cut_stays() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.conv_transpose2d(x, w, padding=1).mean((2, 3))

    assert moved(function, torch.randn(2, 6, 7, 5), torch.randn(6, 8, 3, 3))[1] == ()


def test_in_half_precision_the_sums_are_kept_in_fp32() -> None:
    x, w = torch.randn(6, 400).half(), torch.randn(400, 300).half()
    graph, _ = moved(lambda x, w: (x @ w).sum(1), x, w)
    exact = (x.double() @ w.double()).sum(1)
    got = graph(x, w)
    assert got.dtype == torch.float16
    torch.testing.assert_close(got.double(), exact, rtol=1e-3, atol=1e-3 * float(exact.abs().max()))


STAYS: dict[str, Callable[..., Any]] = {
    "something that is not linear between": lambda x, w, b, v: torch.relu(x @ w).sum(1),
    "another reader of the product": lambda x, w, b, v: ((y := x @ w).sum(1), y * 2),
    "a factor by row": lambda x, w, b, v: ((x @ w) * x[:, :1]).sum(1),
    "a term that is a matrix": lambda x, w, b, v: ((x @ w) + x[:, :14]).sum(1),
    "a bias by row": lambda x, w, b, v: torch.addmm(x[:, :1], x, w).sum(1),
    "rows and columns at once": lambda x, w, b, v: (x @ w).sum((0, 1)),
    "another type": lambda x, w, b, v: (x.double() @ w.double()).sum(1),
    "a sum in another type": lambda x, w, b, v: (x @ w).sum(1, dtype=torch.float64),
    "a factor that adds an axis": lambda x, w, b, v: ((x @ w) * v[None, None]).sum(1),
    "a term that adds an axis": lambda x, w, b, v: ((x @ w) + v[None, None]).mean(-1),
    "columns that are split": lambda x, w, b, v: (x @ w).view(6, 2, 7).sum(2),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_is_no_reduction_of_a_linear_map_stays(name: str) -> None:
    graph, reductions = moved(STAYS[name], X, W, B, V)
    assert reductions == ()
    assert "mm" in graph.code


CHANGED: dict[str, Callable[..., Any]] = {
    "a factor": lambda x, w, b, v: ((y := x @ w), x.mul_(2), y.sum(1))[2],
    "weights": lambda x, w, b, v: ((y := x @ w), w.zero_(), y.sum(0))[2],
    "a term": lambda x, w, b, v: ((y := (x @ w) + v), v.add_(1), y.mean(1))[2],
}


@pytest.mark.parametrize("name", CHANGED)
def test_nothing_is_moved_past_a_change_in_place(name: str) -> None:
    graph, reductions = moved(CHANGED[name], X, W, B, V)
    assert reductions == ()
    args = [tensor.clone() for tensor in (X, W, B, V)]
    expected = CHANGED[name](*[tensor.clone() for tensor in args])
    torch.testing.assert_close(graph(*args), expected)


def test_a_key_means_the_same_reduction_whatever_is_chosen_for_others() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x @ w).view(2, 3, 14).mean(1).mean(1), (x @ w.relu()).sum(1)

    first, second, third = (f"{MOVED}{number}" for number in range(3))
    on = {item.key: item.words for item in moved(function, X, W)[1]}
    off = {
        item.key: item.words for item in moved(function, X, W, chosen={**EVERY, first: False})[1]
    }
    assert on.keys() == {first, second, third}
    assert off.items() <= on.items()


def test_it_is_moved_where_that_saves_time_and_otherwise_on_request() -> None:
    few = moved(lambda x, w: (x @ w).sum(1), X, W, chosen=None)[1]
    assert [item.done for item in few] == [False]
    with torch.device("meta"):
        large = torch.empty(1024, 8192), torch.empty(8192, 8192)
    many = moved(lambda x, w: (x @ w).sum(1), *large, chosen=None)[1]
    assert [item.done for item in many] == [True]
    assert "sum over the 8192 outputs" in many[0].words


STEPS = st.lists(
    st.tuples(st.sampled_from(["mul", "div", "add", "sub"]), st.sampled_from(["v", 0.5, 3.0])),
    max_size=4,
)


@pytest.mark.long
@given(
    steps=STEPS,
    over=st.sampled_from([(1,), (0,), (-1,)]),
    mean=st.booleans(),
    keepdim=st.booleans(),
    bias=st.booleans(),
)
def test_any_chain_of_numbers_and_columns_may_stand_between(
    steps: list[tuple[str, Any]], over: tuple[int, ...], mean: bool, keepdim: bool, bias: bool
) -> None:
    def function(
        x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        y = torch.addmm(b, x, w) if bias else x @ w
        for name, other in steps:
            y = getattr(torch, name)(y, v if other == "v" else other)
        return y.mean(over, keepdim) if mean else y.sum(over, keepdim)

    args = X, W, B, V.abs() + 0.5
    graph, reductions = moved(function, *args)
    assert len(reductions) == 1
    expected = function(*args)
    got = graph(*args)
    assert got.shape == expected.shape
    size = float(expected.abs().max()) + 1
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4 * size)
