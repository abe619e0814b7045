from __future__ import annotations

import pytest

from kernelagent.domain.configuration.model_options import COMPILER
from kernelagent.domain.history import History, Turn, TurnRequest
from kernelagent.strategies import BUILT_IN, load_strategy
from tests.strategies.histories import Outcome, accepted, finished, rejected

MODELS = (COMPILER, "openai/gpt-5")
OPENED = tuple(name for name in BUILT_IN if name != "bandit")


def of_the_policy(*outcomes: Outcome) -> History:
    history = History()
    for index, outcome in enumerate(outcomes):
        request = TurnRequest("write" if index == 0 else "optimise", COMPILER, None)
        history = history.with_turn(finished(index, request, outcome))
    return history


@pytest.mark.parametrize("name", OPENED)
def test_the_policy_is_asked_first_wherever_it_stands_among_the_models(name: str) -> None:
    for models in (MODELS, MODELS[::-1]):
        (request,) = load_strategy(name, models).next_turns(History())
        assert (request.model, request.kind) == (COMPILER, "write")


@pytest.mark.parametrize("name", OPENED)
def test_after_its_first_accepted_kernel_the_others_go_on_alone(name: str) -> None:
    asked = load_strategy(name, MODELS).next_turns(of_the_policy(rejected(), accepted(1.5)))
    assert {request.model for request in asked} == {"openai/gpt-5"}


@pytest.mark.parametrize("name", ["sequential", "window", "tree", "auto"])
def test_the_next_model_is_asked_to_improve_what_the_policy_found(name: str) -> None:
    (request,) = load_strategy(name, MODELS).next_turns(of_the_policy(rejected(), accepted(1.5)))
    assert (request.kind, request.parent) == ("optimise", 1)
    assert 1 in request.window


@pytest.mark.parametrize("name", OPENED)
def test_the_policy_gives_way_when_nothing_of_its_is_accepted_or_nothing_is_left(name: str) -> None:
    strategy = load_strategy(name, MODELS)
    (third,) = strategy.next_turns(of_the_policy(rejected(), rejected()))
    assert third.model == COMPILER
    assert (
        strategy.next_turns(of_the_policy(rejected(), rejected(), rejected()))[0].model != COMPILER
    )
    exhausted = of_the_policy(rejected()).with_exhausted(COMPILER)
    assert strategy.next_turns(exhausted)[0].model != COMPILER


def test_it_waits_for_the_policys_answer() -> None:
    strategy = load_strategy("chains", MODELS)
    waiting = History().with_turn(Turn(0, strategy.next_turns(History())[0]))
    assert strategy.next_turns(waiting) == ()


def test_alone_and_under_a_bandit_the_policy_is_a_model_as_any() -> None:
    assert load_strategy("tree", (COMPILER,)) == load_strategy("tree", [COMPILER])
    assert type(load_strategy("tree", (COMPILER,))).__name__ == "Tree"
    assert load_strategy("bandit", MODELS).models == MODELS  # type: ignore[attr-defined]


def test_options_are_those_of_the_strategy_that_goes_on() -> None:
    assert load_strategy("chains", MODELS, options={"chains": "2"}).then.chains == 2  # type: ignore[attr-defined]
