from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.errors import UsageError
from kernelagent.domain.history import History, TurnRequest
from kernelagent.loop.session import Session
from kernelagent.strategies import BUILT_IN, load_strategy
from kernelagent.strategies.lineage import side_by_side
from tests.evaluations import DEVICE, FACTS, Recorded, Scripted, reply_with
from tests.lanes import examples
from tests.strategies.histories import (
    Caller,
    Outcome,
    accepted,
    finished,
    line,
    play,
    rejected,
    timed,
)

MODELS = ("a", "b", "c")
SIDE_BY_SIDE = {"best-of-n", "tree", "bandit", "auto"}
VARIANTS = [
    ("sequential", {}),
    ("window", {"window": "3"}),
    ("window", {"variant": "consecutive"}),
    ("best-of-n", {}),
    ("best-of-n", {"n": "5", "in_flight": "2"}),
    ("chains", {"chains": "3", "turns": "4"}),
    ("tree", {"rethink_after": "1"}),
    ("tree", {"in_flight": "3", "window": "2", "repairs": "2"}),
    ("bandit", {}),
    ("bandit", {"rule": "thompson", "in_flight": "3"}),
    ("auto", {}),
    ("auto", {"in_flight": "3", "patience": "6"}),
]
each = pytest.mark.parametrize(
    ("name", "options"), VARIANTS, ids=["-".join((n, *o.values())) for n, o in VARIANTS]
)


def test_every_built_in_strategy_is_tried_here():
    assert {name for name, _ in VARIANTS} == BUILT_IN.keys()


speeds = st.sampled_from([0.5, 0.9, 1.0, 1.005, 1.2, 1.5, 4.0, 6.0])
outcomes = st.one_of(
    st.none(),
    st.just(rejected()),
    st.builds(timed, speeds, bound=st.sampled_from(["dram", "dot"])),
)
virtual_outcomes = st.one_of(st.none(), st.just(rejected()), st.builds(accepted, speeds))
steps = st.one_of(
    st.just(("ask",)),
    st.tuples(st.just("finish"), st.integers(0, 9), outcomes),
    st.tuples(st.just("finish"), st.integers(0, 9), outcomes),
    st.tuples(st.just("exhaust"), st.sampled_from(MODELS)),
)
scripts = st.lists(steps, max_size=40)


def check(
    name: str, options: dict[str, str], history: History, asked: Sequence[TurnRequest]
) -> None:
    """What holds for every request of every strategy."""
    strategy = load_strategy(name, MODELS, 3, options)
    turns = {turn.index: turn for turn in history.turns}
    for request in asked:
        assert request.model in MODELS
        assert request.model not in history.exhausted
        assert list(request.window) == sorted(set(request.window))
        assert all(not turns[index].pending for index in request.window)
        if request.parent is None:
            assert request.kind == "write"
        else:
            parent = turns[request.parent]
            assert parent.evaluation is not None
            assert request.parent in request.window
            assert (request.kind == "repair") == (not parent.accepted)
        assert all(turns[index].void is None for index in request.window)
        if name != "sequential":
            assert len(request.window) <= getattr(strategy, "window", 0)
            assert request.window[-1:] == (() if request.parent is None else (request.parent,))


def check_in_flight(
    name: str, options: dict[str, str], history: History, asked: Sequence[TurnRequest]
) -> None:
    """How many turns a strategy keeps in flight."""
    strategy = load_strategy(name, MODELS, 3, options)
    if name in SIDE_BY_SIDE:
        assert not asked or len(asked) + len(history.pending) <= strategy.in_flight
    elif name == "chains":
        busy = [turn.request.trajectory for turn in history.pending]
        chains = busy + [request.trajectory for request in asked]
        assert len(set(chains)) == len(chains)
    else:
        assert len(asked) + len(history.pending) <= 1


@each
@given(script=scripts)
@settings(max_examples=examples(60))
def test_every_request_can_be_rendered_and_leaves_pending_turns_alone(
    name: str, options: dict[str, str], script: list[tuple]
) -> None:
    caller = Caller(load_strategy(name, MODELS, 3, options))
    for action, *arguments in script:
        before = caller.history
        if action == "ask":
            asked = caller.ask()
            check(name, options, before, asked)
            check_in_flight(name, options, before, asked)
        elif action == "finish":
            caller.finish(*arguments)
        else:
            caller.exhaust(*arguments)


@each
@given(script=scripts)
@settings(max_examples=examples(20))
def test_the_same_seed_and_history_give_the_same_requests(
    name: str, options: dict[str, str], script: list[tuple]
) -> None:
    caller = Caller(load_strategy(name, MODELS, 3, options))
    for action, *arguments in script:
        if action == "ask":
            again = load_strategy(name, MODELS, 3, options).next_turns(caller.history)
            assert tuple(caller.ask()) == tuple(again)
        else:
            getattr(caller, action)(*arguments)


@each
@given(made=st.lists(virtual_outcomes, max_size=20), waiting=st.booleans())
@settings(max_examples=examples(30))
def test_nobody_is_asked_once_every_model_is_exhausted(
    name: str, options: dict[str, str], made: list[Outcome], waiting: bool
) -> None:
    caller = Caller(load_strategy(name, MODELS, 3, options), line(*made))
    if waiting:
        caller.ask()
    for model in MODELS:
        caller.exhaust(model)
    assert not caller.ask()


@each
def test_an_exhausted_model_leaves_its_turns_to_the_others(
    name: str, options: dict[str, str]
) -> None:
    history = History().with_exhausted("a")
    asked = load_strategy(name, MODELS, 3, options).next_turns(history)
    assert {request.model for request in asked} <= {"b", "c"}
    assert asked


@pytest.mark.parametrize(
    ("name", "options"),
    # A search with several turns in flight knows less when it asks than one with a single turn.
    [(name, o) for name, o in VARIANTS if "in_flight" not in o or name == "best-of-n"],
)
def test_a_run_one_request_at_a_time_takes_the_same_turns_as_whole_batches(
    name: str, options: dict[str, str]
) -> None:
    seen = [rejected(), None, accepted(0.8), accepted(1.3), rejected(), accepted(1.1)]

    def outcome_of(index: int, request: TurnRequest) -> Outcome:
        return seen[index % len(seen)]

    whole = play(load_strategy(name, MODELS, 3, options), outcome_of, 24)
    single = play(load_strategy(name, MODELS, 3, options), outcome_of, 24, one_at_a_time=True)
    shared = min(len(whole.turns), len(single.turns))
    assert shared >= 5
    assert whole.turns[:shared] == single.turns[:shared]
    assert len(whole.turns) == len(single.turns)


@each
def test_a_thousand_turns_are_decided_on_at_once(name: str, options: dict[str, str]) -> None:
    history = thousand_turns()
    roomy = options | {"chains": {"turns": "2000"}, "auto": {"patience": "2000"}}.get(name, {})
    roomy |= {"n": "2000"} if "n" in options else {}
    strategy = load_strategy(name, MODELS, 3, roomy)
    spent = []
    for _ in range(21):
        # Of its own: what else the machine does is no fault of a strategy's.
        began = time.process_time()
        asked = strategy.next_turns(history)
        spent.append(time.process_time() - began)
    median = statistics.median(spent)
    print(f"{name} {options}: {median * 1e3:.2f} ms for {len(asked)} requests")  # noqa: T201
    assert asked
    assert median < 0.05


def thousand_turns() -> History:
    dice = random.Random(0)
    turns, evaluated = [], []
    for index in range(1000):
        parent = dice.choice(evaluated[-50:]) if evaluated else None
        kind = "write" if parent is None else dice.choice(["optimise", "rethink", "repair"])
        request = TurnRequest(kind, dice.choice(MODELS), parent, (), index % 3)
        outcome = dice.choice([None, rejected(), timed(dice.uniform(0.5, 3.0))])
        turns.append(finished(index, request, outcome))
        if outcome is not None:
            evaluated.append(index)
    return History(tuple(turns))


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_name_loads_and_begins_by_writing(name: str) -> None:
    asked = load_strategy(name, ["a"]).next_turns(History())
    assert asked
    assert all(
        request == TurnRequest("write", "a", None, (), request.trajectory, 1.0) for request in asked
    )


def test_an_unknown_strategy_is_refused_with_the_list_of_those_installed() -> None:
    with pytest.raises(
        UsageError, match=r"no strategy 'beams'; installed: auto, bandit, best-of-n"
    ):
        load_strategy("beams", ["a"])


def test_an_unknown_option_is_refused_with_the_list_of_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"'chains' has no option 'depth'; it has: chains, turns"):
        load_strategy("chains", ["a"], options={"depth": "3"})


@pytest.mark.parametrize(
    ("name", "option", "text", "words"),
    [
        ("window", "window", "four", "wants a value of type int"),
        ("best-of-n", "n", "many", "wants a value of type int"),
        ("tree", "penalty", "little", "wants a value of type float"),
        ("window", "window", "0", "--set window wants at least 1"),
        ("window", "variant", "best", "--set variant wants one of top, consecutive, not 'best'"),
        ("best-of-n", "n", "0", "--set n wants at least 1"),
        ("chains", "turns", "0", "--set turns wants at least 1"),
        ("tree", "penalty", "nan", "--set penalty wants a share"),
        ("bandit", "rule", "greedy", "--set rule wants one of ucb, thompson"),
        ("auto", "in_flight", "0", "--set in_flight wants at least 1"),
        ("auto", "chains", "-1", "--set chains wants at least 1"),
        ("auto", "headroom", "5", "--set headroom wants a share from 0 to 1, not 5"),
    ],
)
def test_an_option_out_of_range_is_refused_before_the_run(
    name: str, option: str, text: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        load_strategy(name, ["a"], options={option: text})


@each
def test_a_session_runs_on_it_until_its_turns_are_spent(name: str, options: dict[str, str]) -> None:
    verdicts = [rejected(), accepted(0.8), accepted(1.1), rejected(), accepted(1.5), accepted(1.6)]
    models = {model: Scripted([reply_with(i) for i in range(6)], model) for model in MODELS}
    session = Session(
        facts=FACTS,
        device=DEVICE,
        strategy=load_strategy(name, MODELS, 3, options),
        models=models,
        evaluator=Recorded(verdicts),
        budget=Budget(turns=None),
        publish=lambda event: None,
        clock=lambda: 0.0,
        keep_prompt=lambda turn, messages: None,
        keep_candidate=lambda turn, candidate: None,
    )
    assert session.run()
    assert len(session.history.turns) == int(options.get("n", 6))


def test_requests_side_by_side_know_of_each_other() -> None:
    asked = side_by_side(line(rejected()), 3, lambda h: TurnRequest("write", str(len(h.turns))))
    assert [request.model for request in asked] == ["1", "2", "3"]
