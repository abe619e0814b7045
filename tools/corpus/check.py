"""Runs fixtures through the judge as a user's own candidates would be, and says which went as they must."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from queue import SimpleQueue

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings, SandboxChoice
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import Mode, ProblemSpec
from kernelagent.tools.corpus.fixture import Fixture, problem_path
from kernelagent.tools.judge_client import JudgeProcess


@dataclass(frozen=True)
class Checked:
    """One fixture, judged."""

    fixture: Fixture
    device: str
    """The kind it was judged on."""
    code: str | None
    """What it was refused with; None: accepted."""
    message: str
    disclosures: tuple[str, ...]
    seconds: float
    estimate_us: float | None = None
    """None where there is no estimate."""

    @property
    def as_expected(self) -> bool:
        wanted = self.fixture.discloses
        disclosed = wanted is None or self.code is not None or wanted in self.disclosures
        expected = self.code in self.fixture.codes(self.device)
        disclosed = disclosed and self.fixture.withholds not in self.disclosures
        return expected and disclosed and self._estimated_as_expected

    @property
    def _estimated_as_expected(self) -> bool:
        if self.device != "virtual":
            return True
        if self.estimate_us is None:
            return not self.fixture.estimated
        return self.estimate_us >= (self.fixture.least_us or 0.0)


@dataclass(frozen=True)
class _Group:
    """Fixtures that one judge can take: one problem, one set of settings."""

    settings: JudgeSettings
    fixtures: tuple[Fixture, ...]


def check(
    fixtures: Iterable[Fixture],
    *,
    device: str = "auto",
    sandbox: SandboxChoice = "auto",
    jobs: int = 1,
    times: int = 1,
    enough_s: float = math.inf,
) -> Iterator[Checked]:
    """Judge each fixture `times` times, in the order they get done; `jobs`: judges side by side.

    `enough_s`: after so many seconds none is begun any more, and those left over are not yielded. Raises what a judge could not do. On a GPU one job at a time: they would disturb each other.
    """
    groups = _groups(dict.fromkeys(fixtures), device, sandbox)
    done: SimpleQueue[Checked | None] = SimpleQueue()
    end = time.monotonic() + enough_s
    waiting = iter(groups)
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        work = [pool.submit(_judge, waiting, times, end, done) for _ in range(jobs)]
        for future in work:
            future.add_done_callback(lambda _: done.put(None))
        left = len(work)
        while left:
            checked = done.get()
            if checked is None:
                left -= 1
            else:
                yield checked
        for future in work:
            future.result()


def _groups(fixtures: Iterable[Fixture], device: str, sandbox: SandboxChoice) -> Sequence[_Group]:
    def shared(fixture: Fixture) -> _Key:
        return fixture.problem, fixture.policy, fixture.mode, fixture.dynamic

    groups = [
        _Group(_settings(key, device, sandbox), tuple(members))
        for key, members in groupby(sorted(fixtures, key=shared), key=shared)
    ]
    # The longest first: begun last, it would keep one judge busy while the others have nothing.
    return sorted(groups, key=lambda group: -len(group.fixtures))


_Key = tuple[str, str, Mode, tuple[str, ...]]


def _settings(key: _Key, device: str, sandbox: SandboxChoice) -> JudgeSettings:
    problem, policy, mode, dynamic = key
    return JudgeSettings(
        ProblemSpec(path=str(problem_path(problem))),
        device=device,
        policy=policy,
        mode=mode,
        dynamic=dynamic,
        sandbox=sandbox,
    )


def _judge(
    groups: Iterator[_Group], times: int, end: float, done: SimpleQueue[Checked | None]
) -> None:
    """Take groups until none is left or it is late; on `virtual` one judge's process reads problem after problem."""
    with ExitStack() as opened:
        judge: JudgeProcess | None = None
        # The iterator is one over a list, which several threads may share.
        for group in groups:
            if time.monotonic() > end:
                return
            if judge is None or group.settings.device != "virtual":
                opened.close()
                judge = opened.enter_context(JudgeProcess(group.settings))
            else:
                judge.read(group.settings)
            kind = group.settings.device.partition(":")[0]
            for fixture in group.fixtures * times:
                began = time.monotonic()
                if began > end:
                    return
                result = judge.verdict(Candidate(fixture.source), lambda _: None)
                done.put(_checked(fixture, kind, result, time.monotonic() - began))


def _checked(fixture: Fixture, kind: str, evaluation: Evaluation, seconds: float) -> Checked:
    reason = evaluation.reason
    return Checked(
        fixture,
        kind,
        code=reason.code if reason else None,
        message=reason.message if reason else "accepted",
        disclosures=tuple(d.code for d in evaluation.disclosures),
        seconds=seconds,
        estimate_us=None if evaluation.estimate is None else evaluation.estimate.candidate_us,
    )
