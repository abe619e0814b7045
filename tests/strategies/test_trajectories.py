from __future__ import annotations

import pytest

from kernelagent.domain.history import History, TurnRequest
from kernelagent.strategies.best_of_n import BestOfN
from kernelagent.strategies.chains import Chains
from kernelagent.strategies.sequential import Sequential
from kernelagent.strategies.window import Window, best_consecutive, top_by_reward
from tests.strategies.histories import (
    Caller,
    accepted,
    finished,
    line,
    pending,
    play,
    rejected,
    timed,
)


def only(requests: object) -> TurnRequest:
    (request,) = requests
    return request


def test_vanilla_refinement_shows_everything_but_void_turns() -> None:
    request = only(Sequential(("a",)).next_turns(line(rejected(), None, accepted(1.2), None)))
    assert request.window == (0, 2)
    assert (request.parent, request.kind) == (2, "optimise")


def test_the_window_holds_the_turns_of_highest_reward_in_the_order_they_were_taken() -> None:
    history = line(timed(1.5), timed(1.1), rejected(), timed(2.0), timed(1.2), rejected())
    assert only(Window(("a",), window=3).next_turns(history)).window == (0, 3, 4)


def test_the_last_turn_of_the_window_is_the_one_refined() -> None:
    history = line(timed(1.5), rejected(), timed(1.2), rejected())
    request = only(Window(("a",), window=2).next_turns(history))
    assert (request.window, request.parent, request.kind) == ((0, 2), 2, "optimise")


def test_before_the_first_correct_kernel_the_window_holds_the_latest_turns() -> None:
    request = only(Window(("a",)).next_turns(line(*[rejected()] * 6)))
    assert (request.window, request.parent, request.kind) == ((2, 3, 4, 5), 5, "repair")


def test_a_void_turn_leaves_the_window_at_once_and_the_trajectory_goes_on() -> None:
    request = only(Window(("a",)).next_turns(line(rejected(), None, None)))
    assert (request.window, request.parent, request.kind) == ((0,), 0, "repair")
    assert only(Window(("a",)).next_turns(line(None))).kind == "write"


def test_the_best_turn_stays_in_the_window_although_the_reward_is_clipped() -> None:
    history = line(timed(9.0, covered=0.2), *[timed(3.2 + i / 10) for i in range(6)])
    assert history.turn(0).reward < history.turn(1).reward
    assert only(Window(("a",)).next_turns(history)).window == (0, 4, 5, 6)


def test_estimates_rank_the_window_where_nothing_was_timed() -> None:
    history = line(accepted(1.9), accepted(2.0), accepted(1.0), accepted(1.1))
    assert only(Window(("a",), window=2).next_turns(history)).window == (0, 1)


@pytest.mark.parametrize(
    ("speeds", "width", "first"),
    [
        ((1.0, 2.0, 2.5, 1.0), 2, 1),
        ((2.0, 1.0, 1.0, 2.0), 2, 2),
        ((1.0, 1.0, 1.0), 2, 1),
        ((1.0, 2.0), 4, 0),
    ],
    ids=["the richest run", "the latest of equals", "all equal", "fewer than asked"],
)
def test_the_released_variant_keeps_the_run_of_highest_summed_reward(
    speeds: tuple[float, ...], width: int, first: int
) -> None:
    turns = line(*map(timed, speeds)).turns
    assert best_consecutive(turns, width) == list(turns[first : first + width])


def test_the_two_variants_differ_where_the_best_turns_are_apart() -> None:
    turns = line(timed(2.5), rejected(), timed(2.4), timed(1.0), timed(1.1)).turns
    assert [turn.index for turn in top_by_reward(turns, 2)] == [0, 2]
    assert [turn.index for turn in best_consecutive(turns, 2)] == [2, 3]


def test_samples_see_nothing_of_each_other_and_end_after_n() -> None:
    history = play(BestOfN(("a", "b"), n=6), lambda index, request: accepted(1.0), turns=99)
    assert [turn.request.model for turn in history.turns] == ["a", "b"] * 3
    assert [turn.request.trajectory for turn in history.turns] == list(range(6))
    assert all(turn.request.window == () for turn in history.turns)


def test_samples_go_on_until_the_budget_ends_where_no_n_is_given() -> None:
    history = play(BestOfN(("a",)), lambda index, request: rejected(), turns=57)
    assert len(history.turns) == 57


def test_samples_in_flight_are_counted() -> None:
    caller = Caller(BestOfN(("a",), n=5, in_flight=3))
    assert len(caller.ask()) == 3
    assert not caller.ask()
    caller.finish(1, rejected())
    assert len(caller.ask()) == 1
    for _ in range(4):
        caller.finish(0, None)
    assert len(caller.ask()) == 1


def test_chains_are_asked_side_by_side_and_each_takes_all_its_turns() -> None:
    history = play(Chains(("a",)), lambda index, request: rejected(), turns=99)
    assert len(history.turns) == 4 * 8
    assert [turn.request.trajectory for turn in history.turns] == [0, 1, 2, 3] * 8


def test_a_chain_sees_its_own_turns_only() -> None:
    history = play(Chains(("a",), chains=2), lambda index, request: rejected(), turns=6)
    asked = Chains(("a",), chains=2).next_turns(history)
    assert [request.window for request in asked] == [(0, 2, 4), (1, 3, 5)]
    assert [request.parent for request in asked] == [4, 5]


def test_a_chain_whose_turn_is_pending_waits_and_the_others_go_on() -> None:
    caller = Caller(Chains(("a",), chains=3, turns=2))
    assert len(caller.ask()) == 3
    caller.finish(1, rejected())
    assert [request.trajectory for request in caller.ask()] == [1]
    assert not caller.ask()


def test_a_void_turn_costs_a_chain_one_of_its_turns() -> None:
    history = play(Chains(("a",), chains=2, turns=3), lambda index, request: None, turns=99)
    assert len(history.turns) == 6


def test_chains_are_shared_out_among_the_models_and_an_exhausted_one_is_stood_in_for() -> None:
    strategy = Chains(("a", "b"), chains=4)
    assert [request.model for request in strategy.next_turns(History())] == ["a", "b", "a", "b"]
    left = History().with_exhausted("a")
    assert [request.model for request in strategy.next_turns(left)] == ["b"] * 4


def test_the_shortest_chain_comes_first_after_an_interruption() -> None:
    history = History()
    for index, chain in enumerate([0, 1, 2, 0]):
        request = TurnRequest("write", "a", trajectory=chain)
        history = history.with_turn(finished(index, request, rejected()))
    asked = Chains(("a",), chains=3).next_turns(history)
    assert [request.trajectory for request in asked] == [1, 2, 0]


def test_one_line_waits_for_its_pending_turn() -> None:
    history = pending(line(accepted(1.0)), 0)
    assert not Sequential(("a",)).next_turns(history)
    assert not Window(("a",)).next_turns(history)
