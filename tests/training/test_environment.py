from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import Evaluation, Stage
from kernelagent.domain.events import StageFinished
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.session import Session
from kernelagent.models import ModelQuery, Reply
from kernelagent.strategies import load_strategy
from kernelagent.training.environment import Judges, KernelEnv, KernelEnvs
from tests.evaluations import DEVICE, FACTS, accepted, rejected, reply_with

PROBLEM = ProblemSpec(path="toy.py")
VERDICTS = [rejected(), accepted(1.1), accepted(1.6), rejected("data_race"), accepted(0.9)]
REPLIES = [reply_with(0), "no code", reply_with(1), reply_with(1), reply_with(2), reply_with(3)]


@dataclass
class ByNumber:
    """A judge with one verdict per candidate number; keeps what it was asked, and its end."""

    asked: list[int] = field(default_factory=list)
    closed: bool = False
    facts = FACTS
    device = DEVICE

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        assert not self.closed
        number = int(candidate.source.split("number = ")[1])
        self.asked.append(number)
        return VERDICTS[number]

    def close(self) -> None:
        self.closed = True


def judges(judge: ByNumber) -> Judges:
    return Judges(lambda _: judge)


@dataclass
class Scripted:
    """A model that gives the replies in order."""

    name: str = "policy"

    def reply(self, ask: ModelQuery, on_text: Callable[[str], None]) -> Reply:
        return Reply(REPLIES[ask.turn])

    def close(self) -> None: ...


def in_the_loop(strategy: str) -> tuple[Session, list[object]]:
    events: list[object] = []
    session = Session(
        facts=FACTS,
        device=DEVICE,
        strategy=load_strategy(strategy, ["policy"]),
        models={"policy": Scripted()},
        evaluator=ByNumber(),
        budget=Budget(turns=len(REPLIES)),
        publish=events.append,
        clock=lambda: 0.0,
        keep_prompt=lambda _turn, _messages: None,
        keep_candidate=lambda _turn, _candidate: None,
    )
    session.run()
    return session, events


@pytest.mark.parametrize("strategy", ["sequential", "window"])
def test_an_episode_is_the_very_same_turns_and_events_as_the_loops(strategy):
    session, wanted = in_the_loop(strategy)
    events: list[object] = []
    env = KernelEnv(
        turns=len(REPLIES), strategy=strategy, judges=judges(ByNumber()), publish=events.append
    )
    env.reset(PROBLEM)
    steps = [env.step(reply) for reply in REPLIES]
    assert env.history == session.history
    plain = [event for event in events if not isinstance(event, StageFinished)]
    assert plain == [event for event in wanted if not isinstance(event, StageFinished)]
    assert [step.done for step in steps] == [False] * 5 + [True]
    assert [step.feedback for step in steps] == [turn.feedback for turn in session.history.turns]


def test_a_step_says_what_a_trainer_needs():
    env = KernelEnv(turns=3, judges=judges(ByNumber()))
    assert env.reset(PROBLEM)[0].role == "system"
    feedback, reward, done, info = env.step(reply_with(1))
    assert (reward, done, info.verdict, info.coverage) == (
        pytest.approx(1.9),
        False,
        "accepted",
        0.9,
    )
    assert info.speedup is None, "an estimate is no speedup"
    assert info.keep_probability == 1.0
    assert feedback in env.prompt[-1].content
    void = env.step("no code").info
    assert (void.verdict, void.learn, void.code) == ("void", False, "no_candidate")
    again = env.step(reply_with(1)).info
    assert (again.verdict, again.learn, again.code) == ("void", False, "repeated")


def test_a_finished_episode_takes_no_reply():
    env = KernelEnv(turns=1, judges=judges(ByNumber()))
    with pytest.raises(UsageError, match="reset"):
        env.step(reply_with(0))
    env.reset(PROBLEM)
    assert env.step(reply_with(0)).done
    with pytest.raises(UsageError, match="no reply is awaited"):
        env.step(reply_with(1))


def test_each_distinct_program_is_judged_once_over_all_environments():
    judge = ByNumber()
    envs = KernelEnvs(4, turns=2, judges=judges(judge), jobs=4)
    envs.reset([PROBLEM] * 4)
    first = envs.step([reply_with(n) for n in (0, 1, 1, 0)])
    assert [step.reward for step in first] == pytest.approx([0.0, 1.9, 1.9, 0.0])
    second = envs.step([reply_with(2), None, reply_with(2), reply_with(4)])
    assert second[1] is None
    assert Counter(judge.asked) == Counter([0, 1, 2, 4])
    envs.close()
    assert judge.closed


def test_a_batch_of_another_size_is_refused():
    envs = KernelEnvs(2, turns=2, judges=judges(ByNumber()))
    envs.reset([PROBLEM] * 2)
    with pytest.raises(UsageError, match="1 replies for 2"):
        envs.step([reply_with(1)])


def test_a_fault_of_the_machine_is_not_remembered_nor_learnt_from():
    fault = Evaluation("error", DEVICE, reason=rejected("unverifiable").reason)
    judge = ByNumber()
    verdicts = [fault, accepted(1.1)]
    judge.evaluate = lambda candidate, on_stage: verdicts.pop(0)
    env = KernelEnv(turns=1, judges=judges(judge))
    env.reset(PROBLEM)
    assert not env.step(reply_with(0)).info.learn
    env.reset(PROBLEM)
    assert env.step(reply_with(0)).info.verdict == "accepted"


def test_only_so_many_judges_are_open_and_facts_outlive_them():
    opened: list[ByNumber] = []

    def open_judge(_: ProblemSpec) -> ByNumber:
        opened.append(ByNumber())
        return opened[-1]

    shared = Judges(open_judge, most_open=2)
    problems = [ProblemSpec(path=f"{n}.py") for n in range(3)]
    for problem in problems:
        shared.evaluate(problem, Candidate("number = 1"))
    assert [judge.closed for judge in opened] == [True, False, False]
    shared.describe(problems[2])
    assert len(opened) == 3


def test_it_can_be_awaited():
    async def episode() -> list[float]:
        envs = [KernelEnv(turns=1, judges=judges(ByNumber())) for _ in range(3)]
        await asyncio.gather(*(env.reset_async(PROBLEM) for env in envs))
        replies = [reply_with(n) for n in (0, 1, 2)]
        steps = await asyncio.gather(
            *(env.step_async(r) for env, r in zip(envs, replies, strict=True))
        )
        return [step.reward for step in steps]

    assert asyncio.run(episode()) == pytest.approx([0.0, 1.9, 1.9])


@pytest.mark.long
def test_a_real_judge_judges_an_emitted_reply():
    import json

    root = Path(__file__).parents[2]
    cassette = root / "tests" / "cassettes" / "softmax_scale_mask.jsonl"
    replies = [json.loads(line)["reply"] for line in cassette.read_text().splitlines() if line]
    with KernelEnv(RunConfig(device="virtual"), turns=2) as env:
        env.reset(str(root / "examples" / "softmax_scale_mask.py"))
        failed, better = env.step(replies[0]), env.step(replies[3])
    assert (failed.reward, failed.info.code) == (0.0, "compile_error")
    assert better.info.verdict == "accepted"
    assert better.reward == pytest.approx(1.0 + better.info.coverage)
