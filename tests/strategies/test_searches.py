from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from kernelagent.domain.history import History, TurnRequest
from kernelagent.strategies.auto import Auto, turns_without_gain
from kernelagent.strategies.bandit import Bandit, bottleneck, payoff, payoffs, upper_bounds
from kernelagent.strategies.lineage import Lineage
from kernelagent.strategies.parents import draw_parent, interval
from kernelagent.strategies.tree import Tree
from tests.strategies.histories import (
    Caller,
    accepted,
    child,
    line,
    pending,
    play,
    rejected,
    timed,
    with_headroom,
)


def only(requests: object) -> TurnRequest:
    (request,) = requests
    return request


def parents_drawn(history: History, penalty: float = 0.1, beam: int = 4) -> Counter[int]:
    lineage, draw = Lineage.of(history), Random(0)
    drawn = (draw_parent(lineage, beam, penalty, draw) for _ in range(400))
    return Counter(turn.index for turn in drawn if turn is not None)


def test_candidates_whose_intervals_overlap_share_the_turns_and_others_get_none() -> None:
    drawn = parents_drawn(line(timed(1.50, 1.3, 1.7), timed(1.45, 1.2, 1.7), timed(1.0)), 0.0)
    assert drawn[0] > drawn[1] > 50
    assert drawn[2] == 0


def test_an_estimate_is_unsure_by_a_fifth() -> None:
    assert interval(line(accepted(2.0)).turn(0)) == pytest.approx((1.6, 2.0, 2.4))


def test_every_child_makes_its_parent_less_likely_and_a_pending_one_counts() -> None:
    start = line(timed(1.5, 1.4, 1.6), rejected(), timed(1.4, 1.3, 1.5))
    more = pending(pending(start, 0), 0)
    assert parents_drawn(start)[0] > parents_drawn(more)[0]


def test_only_the_beam_is_drawn_from() -> None:
    history = line(*[timed(1.0 + i / 100, 0.5, 2.0) for i in range(6)])
    assert set(parents_drawn(history, beam=2)) <= set(range(6))
    assert len(parents_drawn(history, beam=2)) == 2


def test_a_broken_child_is_repaired_once_and_then_left() -> None:
    broken = child(line(timed(1.2)), 0, rejected())
    request = only(Tree(("a",)).next_turns(broken))
    assert (request.kind, request.parent, request.window) == ("repair", 1, (0, 1))
    still = child(broken, 1, rejected(), "repair")
    request = only(Tree(("a",)).next_turns(still))
    assert (request.kind, request.parent, request.window) == ("optimise", 0, (0,))


def test_what_was_broken_before_anything_worked_is_not_gone_back_to() -> None:
    history = line(rejected())
    history = child(history, 0, timed(1.1), "repair", trajectory=1)
    assert only(Tree(("a",)).next_turns(history)).parent == 1


def test_a_parent_whose_children_keep_failing_is_rethought_once_at_a_time() -> None:
    tree = Tree(("a",), repairs=0, rethink_after=2)
    history = child(child(line(timed(2.0)), 0, timed(1.0)), 0, rejected())
    request = only(tree.next_turns(history))
    assert (request.kind, request.parent) == ("rethink", 0)
    after = child(history, 0, timed(1.0), kind="rethink")
    assert only(tree.next_turns(after)).kind == "optimise"


def test_a_child_that_gained_is_no_reason_to_rethink() -> None:
    unsure, better = timed(5.0, 2.0, 9.0), timed(2.2, 2.1, 2.3)
    request = only(Tree(("a",), rethink_after=1).next_turns(child(line(unsure), 0, better)))
    assert (request.parent, request.kind) == (0, "optimise")


def test_the_window_is_the_line_that_led_to_the_parent_cut_to_its_size() -> None:
    history = line(rejected(), timed(1.0), timed(2.0), timed(3.0), timed(4.0), timed(9.0))
    history = child(history, 1, timed(0.5))
    assert only(Tree(("a",), window=3).next_turns(history)).window == (3, 4, 5)


def test_a_first_child_stays_in_its_trajectory_and_a_second_begins_one() -> None:
    history = line(timed(2.0))
    assert only(Tree(("a",)).next_turns(history)).trajectory == 0
    history = child(history, 0, timed(0.5))
    assert only(Tree(("a",)).next_turns(history)).trajectory == 1


def test_until_something_is_correct_the_tree_is_one_line() -> None:
    request = only(Tree(("a",), in_flight=3).next_turns(line(rejected(), None, rejected())))
    assert (request.parent, request.window, request.kind) == (2, (0, 2), "repair")


def test_a_tree_fills_what_may_be_in_flight() -> None:
    caller = Caller(Tree(("a", "b"), in_flight=3), line(timed(1.5), timed(1.4)))
    assert len(caller.ask()) == 3
    assert not caller.ask()
    caller.finish(0, rejected())
    assert only(caller.ask()).kind == "repair"


def test_another_seed_searches_differently() -> None:
    history = line(*[timed(1.0 + i / 100, 0.8, 1.3) for i in range(4)])
    parents = {only(Tree(("a",), seed).next_turns(history)).parent for seed in range(20)}
    assert len(parents) > 1


@pytest.mark.parametrize("rule", ["ucb", "thompson"])
def test_the_bandit_learns_which_request_pays(rule: str) -> None:
    """Every rethink gains, no optimisation does."""
    history = line(timed(1.0))
    for _ in range(60):
        request = only(Bandit(("a",), rule=rule, beam=1).next_turns(history))
        parent = history.turn(request.parent)
        outcome = timed(parent.score * 1.6 if request.kind == "rethink" else 0.5)
        history = child(history, request.parent, outcome, request.kind)
    kinds = Counter(turn.request.kind for turn in history.turns[1:])
    assert kinds["rethink"] > 2 * kinds["optimise"]


@pytest.mark.parametrize("rule", ["ucb", "thompson"])
def test_the_bandit_learns_which_model_writes_correct_kernels(rule: str) -> None:
    strategy = Bandit(("bad", "good"), rule=rule)
    history = play(
        strategy,
        lambda index, request: timed(1.0 + index / 10) if request.model == "good" else rejected(),
        turns=50,
    )
    asked = Counter(turn.request.model for turn in history.turns)
    assert asked["good"] > 2 * asked["bad"]


def test_an_arm_never_pulled_comes_first_and_the_bound_is_that_of_ucb1() -> None:
    bounds = upper_bounds([[1.0, 0.0, 1.0, 0.0], [], [0.5, 0.0]], 1.0)
    assert bounds[1] == float("inf")
    assert bounds[0] == pytest.approx(0.5 + 0.9465092)
    assert bounds[2] == pytest.approx(0.25 + 1.3385660)


def test_what_a_turn_pays_is_its_gain_over_its_parent_from_0_to_1() -> None:
    slow, fast, broken, faster = line(timed(1.0), timed(1.3), rejected(), timed(6.0)).turns
    assert payoff(fast, slow) == pytest.approx(0.3)
    assert payoff(slow, fast) == 0.0
    assert payoff(broken, slow) == 0.0
    assert payoff(fast, broken) == payoff(fast, None) == payoff(faster, slow) == 1.0


def test_speed_pays_beyond_the_rewards_clip_and_where_nothing_was_timed() -> None:
    four, five = line(timed(4.0), timed(4.5)).turns
    assert payoff(five, four) == pytest.approx(0.475)
    slow, fast = line(accepted(1.0), accepted(1.5)).turns
    assert payoff(fast, slow) == pytest.approx(0.5)


def test_the_bottleneck_is_that_of_the_costliest_kernel_else_of_the_estimate() -> None:
    assert bottleneck(line(timed(1.0, bound="dot")).turn(0)) == "dot"
    assert bottleneck(line(accepted(1.0)).turn(0)) == "dram"
    assert bottleneck(line(rejected()).turn(0)) == "not accepted"
    assert bottleneck(None) == "nothing yet"


def test_what_paid_for_one_bottleneck_says_nothing_about_another() -> None:
    history = line(timed(1.0, bound="dram"))
    history = child(history, 0, timed(9.0, bound="dot"), "rethink")
    request = only(Bandit(("a",), beam=1).next_turns(history))
    assert (request.parent, request.kind) == (1, "optimise"), "arms of `dot` are all untried"


def test_the_bandit_may_begin_anew_while_nothing_is_correct() -> None:
    history = play(Bandit(("a",)), lambda index, request: rejected(), turns=20)
    kinds = Counter(turn.request.kind for turn in history.turns)
    assert kinds["write"] > 1
    assert kinds["repair"] > 1


def test_auto_searches_in_chains_until_something_is_correct() -> None:
    history = play(Auto(("a",)), lambda index, request: rejected(), turns=99)
    assert [turn.request.trajectory for turn in history.turns] == [0, 1, 2, 3] * 8


def test_auto_grows_a_tree_from_the_first_correct_kernel() -> None:
    history = play(Auto(("a",)), lambda i, r: timed(1.2) if i == 5 else rejected(), turns=7)
    last = history.turns[-1].request
    assert (last.parent, last.kind) == (5, "optimise")


def test_auto_grants_patience_turns_after_the_last_gain_and_then_stops() -> None:
    speeds = [1.0, 1.0, 1.2, 1.2, 1.205, 1.2, 1.2, 9.0]
    history = play(Auto(("a",), patience=4), lambda index, request: timed(speeds[index]), turns=99)
    assert len(history.turns) == 3 + 4


def test_gains_too_small_to_count_add_up() -> None:
    turns = line(timed(1.0), timed(1.006), timed(1.012), rejected(), None).turns
    assert turns_without_gain(turns) == 2


def test_turns_in_flight_are_granted_already() -> None:
    caller = Caller(Auto(("a",), in_flight=9, patience=4), line(timed(1.0)))
    assert len(caller.ask()) == 4
    assert not caller.ask()
    caller.finish(0, timed(1.0))
    assert not caller.ask()
    caller.finish(2, timed(2.0))
    assert caller.ask()


@pytest.mark.parametrize(("left", "goes_on"), [(0.04, False), (0.06, True)])
def test_auto_stops_where_little_headroom_is_left(left: float, goes_on: bool) -> None:
    history = line(with_headroom(timed(3.0), left))
    assert bool(Auto(("a",)).next_turns(history)) == goes_on
    assert Auto(("a",), headroom=0.0).next_turns(history)


def test_a_bandit_that_has_seen_other_histories_asks_what_a_new_one_asks() -> None:
    outcomes = [rejected(), timed(1.2), timed(1.1), rejected(), timed(1.5), timed(1.4), timed(1.9)]
    used = Bandit(("a", "b"), seed=5)
    for history in (line(*outcomes[:3]), line(*outcomes), line(*outcomes[2:]), line(*outcomes[:5])):
        assert used.next_turns(history) == Bandit(("a", "b"), seed=5).next_turns(history)
        lineage = Lineage.of(history)
        assert used._remembered.of(history) == (lineage, payoffs(history, lineage))  # noqa: SLF001 - a memo must hold what is worked out anew


def test_a_bandit_that_was_asked_at_every_turn_knows_what_one_asked_once_knows() -> None:
    caller, dice = Caller(Bandit(("a", "b"), seed=5, in_flight=3)), Random(2)
    outcomes = [rejected(), None, timed(1.1), timed(1.6)]
    for _ in range(40):
        caller.ask()
        waiting = [turn.index for turn in caller.history.turns if turn.pending]
        caller.finish(dice.randrange(len(waiting)), dice.choice(outcomes))
        lineage = Lineage.of(caller.history)
        known = payoffs(caller.history, lineage)
        assert caller.strategy._remembered.of(caller.history) == (lineage, known)  # noqa: SLF001 - as above
    assert len(caller.history.turns) > 40
