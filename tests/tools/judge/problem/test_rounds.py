"""Rounds whose trials are made while a candidate is waited for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.judge.problem.memory_need import MADE_AHEAD_BYTES
from kernelagent.tools.judge.problem.reference.expected import Expected
from kernelagent.tools.judge.problem.trials.rounds import Round, Rounds, Trial
from kernelagent.tools.judge.verify.compare import compare


def trial(tensor: torch.Tensor) -> Trial:
    expected = Expected(tensor, tensor.double(), ((tensor,), {}), {}, {})
    compared = compare.Expected(eager=tensor, oracle64=tensor.double(), natural_rms={})
    return Trial("default", "natural", ((tensor,), {}), expected, compared, lambda _: tensor)


def pieces(
    made: list[str], sizes: tuple[int, ...] = (2, 1), bytes_each: int = 4
) -> Iterator[Trial | Round]:
    """So many trials a round; what is made is written into `made`."""
    for number, count in enumerate(sizes):
        trials = []
        for at in range(count):
            made.append(f"{number}.{at}")
            trials.append(trial(torch.zeros(1).expand(bytes_each // 4)))
            yield trials[-1]
        yield Round({}, tuple(trials), ())


def test_rounds_come_in_their_order_with_all_of_their_trials() -> None:
    assert [len(item.trials) for item in Rounds(pieces([]))] == [2, 1]


def test_what_was_made_in_between_is_not_made_again() -> None:
    made: list[str] = []
    rounds = Rounds(pieces(made))
    assert rounds.step()
    assert made == ["0.0"]
    assert len(next(rounds).trials) == 2
    assert made == ["0.0", "0.1"]


def test_no_more_than_the_next_round_is_made_ahead() -> None:
    made: list[str] = []
    rounds = Rounds(pieces(made))
    while rounds.step():
        pass
    assert made == ["0.0", "0.1"], "the second round waits until the first is taken"
    assert [len(item.trials) for item in rounds] == [2, 1]


@pytest.mark.long
def test_large_calls_are_not_made_ahead() -> None:
    made: list[str] = []
    rounds = Rounds(pieces(made, (3,), bytes_each=MADE_AHEAD_BYTES))
    assert rounds.step()
    assert not rounds.step()
    assert made == ["0.0"]
    assert len(next(rounds).trials) == 3


def test_nothing_is_left_to_make_after_the_last_round() -> None:
    rounds = Rounds(pieces([], (1,)))
    next(rounds)
    assert not rounds.step()
    with pytest.raises(StopIteration):
        next(rounds)


def test_a_failure_is_raised_where_the_round_is_asked_for() -> None:
    def failing() -> Iterator[Trial | Round]:
        yield trial(torch.zeros(1))
        raise ProblemError("the module refuses these inputs")

    rounds = Rounds(failing())
    assert rounds.step()
    assert not rounds.step()
    for _ in range(2):
        with pytest.raises(ProblemError, match="refuses these inputs"):
            next(rounds)
