"""True problems in the lab: one whole optimisation for each strategy, problem and seed.

Each is an ordinary run with its own folder among the runs; its module stays in that folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.events import Logged, Subscriber
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.run import optimize
from kernelagent.storage.run_log import LOG, read_events
from kernelagent.suite.compare.families import parse_strategy

WITH_MEMORY = "+memory"
"""After a strategy's name: the same strategy, told the lessons of earlier runs."""


@dataclass(frozen=True)
class RealRuns:
    """Takes runs of true problems: a `Take` for `study.compare`, all under `config`'s budget.

    Strategy and seed of `config` give way to those compared; its models must answer at will, so a
    recording (`replay:`) makes every strategy see the same replies.
    """

    problems: dict[str, ProblemSpec]
    """By the label the comparison shows."""
    config: RunConfig
    subscribers: tuple[Subscriber, ...] = ()

    @classmethod
    def of(
        cls,
        problems: Sequence[ProblemSpec],
        config: RunConfig,
        subscribers: Sequence[Subscriber] = (),
    ) -> RealRuns:
        return cls({problem.label: problem for problem in problems}, config, tuple(subscribers))

    def pairs(self, names: Sequence[str]) -> list[str]:
        """Each strategy, and again with the memory where the configuration has one."""
        if self.config.memory is None:
            return list(names)
        return [item for name in names for item in (name, name + WITH_MEMORY)]

    def __call__(self, strategy: str, problem: str, seed: int) -> Iterable[Logged]:
        """The events of one run; raises whatever stops a run before it began.

        A strategy's name may end in `WITH_MEMORY`; the memory is read and never learns here, so that
        no run helps another.
        """
        remembers = strategy.endswith(WITH_MEMORY)
        name, options = parse_strategy(strategy.removesuffix(WITH_MEMORY))
        with tempfile.TemporaryDirectory(prefix="kernelagent-compare-") as scratch:
            config = replace(
                self.config,
                strategy=name,
                set={**self.config.set, **options} if options else self.config.set,
                seed=seed,
                memory=self.config.memory if remembers else None,
                learn=False,
                out=str(Path(scratch) / "module.py"),
            )
            done = optimize(self.problems[problem], config, subscribers=self.subscribers)
            return list(read_events(done.run / LOG))
