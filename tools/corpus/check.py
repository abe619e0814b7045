"""Runs fixtures through the judge as a user's own candidates would be, and says which went as they must."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from kernelagent.candidate import Candidate
from kernelagent.evaluation import Evaluation
from kernelagent.problem import ProblemSpec
from kernelagent.tools.corpus.fixture import Fixture, problem_path
from kernelagent.tools.judge_client import JudgeProcess
from kernelagent.tools.settings import JudgeSettings


@dataclass(frozen=True)
class Checked:
    """One fixture, judged."""

    fixture: Fixture
    code: str | None
    """What it was refused with; None: accepted."""
    message: str
    disclosures: tuple[str, ...]
    seconds: float

    @property
    def as_expected(self) -> bool:
        wanted = self.fixture.discloses
        return self.code == self.fixture.code and (wanted is None or wanted in self.disclosures)


Open = Callable[[JudgeSettings], JudgeProcess]


def check(
    fixtures: Iterable[Fixture], *, device: str = "auto", sandbox: str = "auto"
) -> Iterator[Checked]:
    """Judge each fixture, one judge for all that share a problem and its settings."""
    for settings, group in groupby(
        sorted(fixtures, key=_order), key=lambda f: _settings(f, device)
    ):
        with JudgeProcess(settings) as judge:
            for fixture in group:
                began = time.monotonic()
                found = judge.evaluate(Candidate(fixture.source), lambda _: None)
                yield _checked(fixture, found, time.monotonic() - began)


def _order(fixture: Fixture) -> tuple[str, str, tuple[str, ...]]:
    return fixture.problem, fixture.policy, fixture.dynamic


def _settings(fixture: Fixture, device: str) -> JudgeSettings:
    return JudgeSettings(
        ProblemSpec(path=str(problem_path(fixture.problem))),
        device=device,
        policy=fixture.policy,
        dynamic=fixture.dynamic,
    )


def _checked(fixture: Fixture, found: Evaluation, seconds: float) -> Checked:
    reason = found.reason
    return Checked(
        fixture,
        code=reason.code if reason else None,
        message=reason.message if reason else "accepted",
        disclosures=tuple(d.code for d in found.disclosures),
        seconds=seconds,
    )
