"""Dimensions declared dynamic: where they are found, and at which sizes they are tried."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest
import torch

from kernelagent.domain.configuration.judge_settings import DynamicDimension
from kernelagent.domain.errors import ProblemError, UsageError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.envelope.envelope import open_sizes
from kernelagent.tools.judge.problem.dynamic import dynamic_of, hidden, resizing
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.steps.training import STEPS_OF_A_TURN, training_rounds
from kernelagent.tools.judge.problem.trials.inputs import InputSource, input_sources
from kernelagent.tools.judge.problem.trials.probes import named_tensors
from kernelagent.tools.judge.problem.trials.trials import rounds

PROBLEM = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(5))

    def forward(self, x, mask, scale=1.0):
        return (x * self.weight * scale).masked_fill(mask, 0.0)


def get_inputs():
    return [torch.rand(8, 5), torch.rand(8, 5) < 0.5]
"""


MASKED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, mask):
        return mask @ x


def get_inputs():
    return [torch.rand(1024, 4), torch.rand(1024, 1024, dtype=torch.float32)]
"""


@pytest.fixture
def opened(tmp_path) -> tuple[InputSource, Oracle]:
    path = tmp_path / "problem.py"
    path.write_text(PROBLEM, encoding="utf-8")
    problem = load_problem(ProblemSpec(path=str(path)))
    oracle = Oracle(problem, "cpu", nullcontext)
    (source,) = input_sources(problem, oracle.module, "cpu", nullcontext, may_shrink=False)
    return source, oracle


def found(opened, text):
    source, oracle = opened
    return dynamic_of(source, [DynamicDimension.read(text)], oracle)[0]


@pytest.mark.parametrize("text", ["0", "-2", "x:0", "mask:0", "x:0=mask:0"])
def test_a_dimension_is_found_with_everything_that_changes_with_it(opened, text):
    assert {name for name, _ in found(opened, text).places} == {
        "arguments[0][0]",
        "arguments[0][1]",
    }


def test_a_dimension_that_a_weight_depends_on_is_refused_with_advice(opened):
    with pytest.raises(ProblemError, match="refuses 6 in place of 5"):
        found(opened, "x:1")


def test_an_argument_that_is_not_there_is_named(opened):
    with pytest.raises(ProblemError, match="no tensor argument 'y'"):
        found(opened, "y:0")


@pytest.mark.parametrize("text", ["", "x", "x:", ":0", "x:0=", "one"])
def test_what_is_no_dimension_is_wrong_usage(text):
    with pytest.raises(UsageError, match="write an axis"):
        DynamicDimension.read(text)


@pytest.mark.long
def test_hidden_sizes_differ_from_the_known_one_and_fit_the_reference(opened):
    source, oracle = opened
    dynamic = (found(opened, "0"),)
    sizes = set()
    for seed in range(20):
        for other in hidden(source, dynamic, random.Random(seed)):
            (x, mask), _ = other.draw(seed)
            assert x.shape == mask.shape == (x.shape[0], 5)
            assert x.is_contiguous()
            assert oracle.eager(((x, mask), {})).shape == x.shape
            sizes.add(x.shape[0])
    assert 8 not in sizes
    assert 1 in sizes
    assert max(sizes) > 8


def test_rows_beyond_the_known_size_are_fresh_draws(opened):
    source, _ = opened
    for other in hidden(source, (found(opened, "0"),), random.Random(1)):
        (x, _), _ = other.draw(3)
        assert len(torch.unique(x, dim=0)) == len(x)


FREE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        assert x.shape[0] > 1, "one row is too few"
        return x.softmax(-1)


def get_inputs():
    return [torch.rand(6, 20)]
"""


def opened_from(tmp_path, text):
    path = tmp_path / "problem.py"
    path.write_text(text, encoding="utf-8")
    problem = load_problem(ProblemSpec(path=str(path)))
    oracle = Oracle(problem, "cpu", nullcontext)
    return input_sources(problem, oracle.module, "cpu", nullcontext, may_shrink=False), oracle


def two_dimensions(source, oracle):
    return dynamic_of(source, [DynamicDimension.read(text) for text in ("x:0", "x:1")], oracle)


@pytest.mark.long
def test_both_axes_of_a_mask_change_with_the_length(tmp_path):
    path = tmp_path / "problem.py"
    path.write_text(MASKED, encoding="utf-8")
    problem = load_problem(ProblemSpec(path=str(path)))
    oracle = Oracle(problem, "cpu", nullcontext)
    (source,) = input_sources(problem, oracle.module, "cpu", nullcontext, may_shrink=False)
    declared = [DynamicDimension.read("x:0=mask:0=mask:1")]
    (item,) = dynamic_of(source, declared, oracle)
    # 64 times as long, this mask would have 17 GB.
    assert 1024 < item.farthest <= 16 * 1024 + 1
    for size in (3, 1030):
        x, mask = named_tensors(resizing(source.draw, item.places, size)(0)).values()
        assert (x.shape, mask.shape) == ((size, 4), (size, size))
        assert len(mask.unique()) > 0.9 * min(size * size, 1024 * 1024)


@pytest.mark.parametrize("seed", range(5))
def test_two_dimensions_change_together_too_to_one_size_to_each_others_and_to_any(tmp_path, seed):
    (source,), oracle = opened_from(tmp_path, FREE)
    both = two_dimensions(source, oracle)
    shapes = [
        tuple(other.draw(seed)[0][0].shape) for other in hidden(source, both, random.Random(seed))
    ]
    together = [shape for shape in shapes if shape[0] != 6 and shape[1] != 20]
    assert len(together) > 1
    assert any(rows == columns for rows, columns in together)
    assert (20, 6) in together


def test_one_dimension_alone_changes_with_no_other(opened):
    source, _ = opened
    names = [o.name for o in hidden(source, (found(opened, "0"),), random.Random(0))]
    assert not any(" and " in name for name in names)


@pytest.mark.long
def test_sizes_that_the_original_refuses_are_named_and_do_not_end_the_judge(tmp_path):
    sources, oracle = opened_from(tmp_path, FREE)
    dynamic = {"default": two_dimensions(sources[0], oracle)}
    refused = [name for one in rounds(oracle, sources, dynamic) for name in one.refused]
    assert "default with x:0 = 1" in refused
    assert all("x:0 = 1" in name for name in refused)


NORMED = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(6, 4)]
"""


@pytest.mark.long
def test_a_size_that_the_original_refuses_in_training_alone_is_named_too(tmp_path):
    (source,), oracle = opened_from(tmp_path, NORMED)
    dynamic = {"default": dynamic_of(source, [DynamicDimension.read("x:0")], oracle)}
    plan = STEPS_OF_A_TURN[:2]
    steps = training_rounds(oracle, (source,), dynamic, plan=plan)
    refused = [name for one in steps for name in one.refused]
    assert refused == ["a training step with default with x:0 = 1"]


def test_every_judging_tries_the_farthest_size(opened):
    source, _ = opened
    item = found(opened, "0")
    assert item.farthest > 8 * item.size
    for seed in range(5):
        names = [other.name for other in hidden(source, (item,), random.Random(seed))]
        assert f"default with 0 = {item.farthest}" in names


def test_the_emitted_module_takes_no_size_beyond_those_tried(opened):
    source, _ = opened
    item = found(opened, "0")
    rules = open_sizes((item,), named_tensors(source.full))
    assert {rule["max"] for rule in rules.values()} == {item.farthest}
    larger = named_tensors(resizing(source.draw, item.places, 1000)(0))
    assert {rule["max"] for rule in open_sizes((item,), larger).values()} == {1000}
