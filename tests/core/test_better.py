"""Noise makes no winner: what is better, and where a verdict stands against the eager module."""

from __future__ import annotations

import pytest

from kernelagent.domain.better import better, standing
from kernelagent.domain.estimated import Estimated
from kernelagent.domain.evaluation import DeviceFacts, Estimate, Evaluation, Reason
from kernelagent.domain.history import Turn, TurnRequest, best_of

DEVICE = DeviceFacts(kind="virtual", name="none", target="sm_90", torch="2", triton="3")


def ranged(ratio: float, factor: float) -> Evaluation:
    """An estimate whose ratio has an interval of its own."""
    speedup = Estimated.within(ratio, 1 / factor, factor)
    estimate = Estimate(100 / ratio, 100.0, "dram", ratio, "(x: float32[8])", speedup=speedup)
    return Evaluation(verdict="accepted", device=DEVICE, estimate=estimate)


def test_the_ratios_own_interval_decides_where_there_is_one() -> None:
    assert standing(ranged(1.1, 1.05)) == "faster"
    assert standing(ranged(1.3, 1.5)) == "not told apart"
    assert standing(ranged(0.9, 1.05)) == "slower"
    assert better(ranged(1.7, 1.05), ranged(1.5, 1.05))
    assert not better(ranged(1.7, 1.5), ranged(1.5, 1.5))


def estimated(ratio: float | None) -> Evaluation:
    estimate = None
    if ratio is not None:
        estimate = Estimate(100 / ratio, 100.0, "dram", ratio, "(x: float32[8])")
    return Evaluation(verdict="accepted", device=DEVICE, estimate=estimate)


REFUSED = Evaluation(verdict="rejected", device=DEVICE, reason=Reason("wrong_output", "no"))


@pytest.mark.parametrize(
    ("ratio", "word"),
    [(2.0, "faster"), (1.1, "not told apart"), (0.9, "not told apart"), (0.5, "slower")],
)
def test_an_estimate_stands_where_its_interval_lies(ratio: float, word: str) -> None:
    assert standing(estimated(ratio)) == word


def test_without_a_number_nothing_is_faster() -> None:
    assert standing(estimated(None)) == "not told apart"


def test_a_difference_within_the_noise_is_none() -> None:
    assert not better(estimated(1.7), estimated(1.5))
    assert not better(estimated(1.5), estimated(1.7))
    assert better(estimated(2.1), estimated(1.5))


def test_accepted_is_better_than_refused_whatever_it_costs() -> None:
    assert better(estimated(0.3), REFUSED)
    assert not better(REFUSED, estimated(0.3))


def test_the_best_so_far_stays_until_one_is_better_beyond_doubt() -> None:
    request = TurnRequest("write", "m")
    ratios = (1.5, 1.6, 1.7, 1.9, 2.0)
    turns = [Turn(at, request, evaluation=estimated(ratio)) for at, ratio in enumerate(ratios)]
    best = best_of(turns)
    assert best is not None
    assert best.index == 3, "1.9 is the first beyond 1.2 times 1.5; 2.0 is not beyond 1.2 times 1.9"
