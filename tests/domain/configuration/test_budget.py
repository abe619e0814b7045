"""Budgets hold: no ask is made whose worst case does not fit."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from hypothesis import given
from hypothesis import strategies as st

from kernelagent.domain.configuration.budget import (
    RUN_LIMITS,
    Budget,
    Cost,
    Spent,
    spent_text,
    why_spent,
    why_too_dear,
)
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.evaluation import Stage
from kernelagent.domain.events import WinnerMeasured
from kernelagent.loop.session import Session
from kernelagent.models import Reply
from kernelagent.strategies.sequential import Sequential
from tests.evaluations import DEVICE, FACTS, Recorded, accepted, reply_with


@dataclass
class Spender:
    """Answers at costs given beforehand, and says at most how much."""

    costs: list[tuple[int, float]]
    slack: float
    name: str = "spender"
    asked: list[int] = field(default_factory=list)

    def worst_case(self, messages, tokens_left):
        tokens, dollars = self.costs[len(self.asked)]
        return Cost(int(tokens * self.slack) + 1, dollars * self.slack)

    def reply(self, ask, on_text):
        tokens, dollars = self.costs[len(self.asked)]
        self.asked.append(ask.turn)
        return Reply(reply_with(ask.turn), tokens_in=tokens, dollars=dollars)

    def close(self):
        """Nothing to release."""


def run(model, budget):
    session = Session(
        facts=FACTS,
        device=DEVICE,
        strategy=Sequential((model.name,)),
        models={model.name: model},
        evaluator=Recorded([accepted(1.0 + i / 10) for i in range(len(model.costs))]),
        budget=budget,
        publish=lambda _: None,
        clock=lambda: 0.0,
        keep_prompt=lambda *_: None,
        keep_candidate=lambda *_: None,
    )
    return session, session.run()


COSTS = st.lists(st.tuples(st.integers(1, 5000), st.floats(0.001, 2.0)), min_size=8, max_size=8)


@given(COSTS, st.integers(1, 20000), st.floats(0.01, 5.0), st.floats(1.0, 3.0))
def test_with_random_costs_no_budget_is_ever_overrun(costs, tokens, dollars, slack):
    model = Spender(costs, slack)
    session, why = run(model, Budget(turns=7, tokens=tokens, dollars=dollars))
    assert session.spent.tokens <= tokens
    assert session.spent.dollars <= dollars
    assert session.spent.turns <= 7
    assert "budget" in why


def test_the_sentence_says_what_is_asked_and_what_is_left():
    _, why = run(Spender([(600, 0.0)] * 4, 1.0), Budget(turns=None, tokens=1000))
    assert why == (
        "the next ask may cost up to 601 tokens, and 400 of the budget of 1000 tokens are left"
    )


def test_every_limit_of_the_budget_is_an_option_and_ends_a_run():
    assert {limit.name for limit in RUN_LIMITS.values()} == {f.name for f in fields(Budget)}
    spent = Spent(turns=120, tokens=120, dollars=120.0, device_seconds=120.0)
    for option, limit in RUN_LIMITS.items():
        budget = RunConfig(**{option: 2}).budget
        assert why_spent(budget, Spent(), 0.0) is None
        assert why_spent(budget, spent, 120.0) == f"the budget of 2 {limit.unit} is spent"


def test_what_nobody_knows_is_not_held_against_a_model():
    assert why_too_dear(Budget(tokens=10, dollars=1.0), Spent(), Cost(None, None)) is None


def test_judging_the_best_again_is_said_and_counts_towards_no_limit():
    again = WinnerMeasured(0, replace(accepted(1.4), stages=(Stage("verify", "passed", 7.0),)))
    spent = Spent(turns=1).after(again)
    assert (spent.device_seconds, spent.again_seconds) == (0.0, 7.0)
    assert spent_text(spent, 12.0).endswith(
        "12 s in all, 0.0 s of judging, 7.0 s of judging the best again"
    )
    assert "again" not in spent_text(Spent(turns=1), 12.0)
