"""Calls round as a GPU may, and whole numbers may differ where that decides."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.one_trial import trial_on
from kernelagent.tools.judge.verify.compare.compare import compare
from kernelagent.tools.judge.verify.rounding import (
    EXACT,
    LastBits,
    Rounding,
    Roundings,
    without_an_answer,
)

CODES = """\
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return (x * 16).round().to(torch.int8), x.argmax(-1)

def get_inputs():
    return [torch.randn(40, 50)]
def get_init_inputs():
    return []
"""
TIE = 2.5 / 16


@pytest.fixture
def trial(tmp_path):
    """Of two thousand numbers ten lie between two whole ones."""
    file = tmp_path / "problem.py"
    file.write_text(CODES)
    oracle = Oracle(load_problem(ProblemSpec(path=str(file))), "cpu", nullcontext)
    draw = torch.Generator().manual_seed(5)
    x = torch.randn(40, 50, generator=draw).round() + 0.01
    x[:10, 7] = TIE
    return trial_on(oracle, "default", "natural", ((x,), {}), {}, draw)


def passed(last_bits, *outputs):
    return compare(
        outputs, last_bits.compared.compared, input_set="default", probe="natural"
    ).passed


def test_a_code_between_two_may_be_either_and_no_other_may(trial):
    codes, places = trial.expected.output
    up = codes.clone()
    up[:10, 7] = 3
    assert passed(LastBits(trial, special=False), up, places)
    far = up.clone()
    far[0, 7] = 12
    assert not passed(LastBits(trial, special=False), far, places)
    elsewhere = up.clone()
    elsewhere[20, 3] += 1
    assert not passed(LastBits(trial, special=False), elsewhere, places)


def test_every_output_is_held_to_that(trial):
    codes, places = trial.expected.output
    up, others = codes.clone(), places.clone()
    up[:10, 7] = 3
    others[0] = (others[0] + 1) % 50
    assert not passed(LastBits(trial, special=False), up, others)


def test_where_many_meet_a_bound_on_special_inputs_it_is_told(trial):
    x = trial.arguments[0][0].clone()
    x[:] = TIE
    oracle_of = trial
    codes = torch.full((40, 50), 2, dtype=torch.int8)
    up = torch.full((40, 50), 3, dtype=torch.int8)
    near = lambda name, got, wrong: wrong  # noqa: E731 - the whole rule
    output = (codes, torch.zeros(40, dtype=torch.int64))
    compared = replace(oracle_of.compared, eager=output, oracle64=output)
    made = replace(trial, compared=compared, near_ties=near)
    natural, special = LastBits(made, special=False), LastBits(made, special=True)
    assert not passed(natural, up, output[1])
    assert passed(special, up, output[1])
    told = special.told(Rounding("threads"))
    assert told.code == "last_place_decides"
    assert "100.0% of output[0]" in told.message


def test_natural_inputs_are_called_in_both_ways_in_turn_and_others_as_on_a_gpu(trial):
    roundings = Roundings()
    natural = [roundings.next(trial) == EXACT for _ in range(6)]
    assert natural in ([True, False] * 3, [False, True] * 3)
    special = replace(trial, probe="edges")
    drawn = [roundings.next(special) for _ in range(40)]
    assert all(item.errs and item.order is not None for item in drawn)
    assert {"threads", "neighbours"} < {item.order for item in drawn}


def test_what_is_not_finite_in_eight_bits_is_seen_as_in_others(trial):
    codes = torch.randn(40, 50).to(torch.float8_e4m3fn)
    expected = replace(trial.expected, output=codes, output64=codes.double())
    broken = codes.float()
    broken[:20] = torch.nan
    assert without_an_answer(codes, expected) is None
    assert "NaN or infinite" in str(without_an_answer(broken.to(codes.dtype), expected))
