"""What the calls of a judging have shown of the reference itself, and what is left to look for further inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.wrong_steps.followed import WrongStep
from kernelagent.tools.judge.problem.wrong_steps.loop_reach import FEWEST_ROUNDS, LoopReach
from kernelagent.tools.judge.problem.wrong_steps.unnoticed import UnnoticedSteps


@dataclass(frozen=True)
class News:
    """What a call would show that none has shown."""

    steps: Collection[WrongStep] = ()
    reached: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Shown:
    """Steps of the reference that could be wrong unseen, and how far its loops reach."""

    unnoticed: UnnoticedSteps
    reach: LoopReach
    failures: list[Exception] = field(default_factory=list)
    """Of which the first ends all looking."""

    @classmethod
    def of(cls, file: str | None, *, most_seconds: float) -> Shown:
        """`file`: of the forward; `most_seconds`: of processor time, for each of the two."""
        return cls(UnnoticedSteps(file, most_seconds), LoopReach(file, most_seconds))

    def note(self, oracle: Oracle, arguments: Arguments) -> None:
        """One more call was judged."""
        if self.failures:
            return
        with self._of_users_code():
            self.unnoticed.note(oracle, arguments)
            if self.unnoticed.most_rounds >= FEWEST_ROUNDS and not self.unnoticed.is_slow:
                self.reach.note(oracle, arguments)

    @property
    def is_all(self) -> bool:
        """Whether nothing is left to look for, or one forward takes too long for a search."""
        if self.failures or self.unnoticed.is_slow:
            return True
        return not self.unnoticed.left and self.reach.is_known

    def news_of(self, oracle: Oracle, arguments: Arguments) -> News | None:
        """What these inputs would show; None: nothing new."""
        steps: Collection[WrongStep] = ()
        reached: Mapping[int, int] = {}
        with self._of_users_code():
            steps = self.unnoticed.shown_by(oracle, arguments)
            reached = {} if self.reach.is_known else self.reach.of_call(oracle, arguments)
        further = reached if self.reach.is_further(reached) else {}
        return News(steps, further) if steps or further else None

    @contextmanager
    def _of_users_code(self) -> Iterator[None]:
        try:
            yield
        except REFUSALS:
            # The reference has no answer to these.
            return
        except Exception as error:  # noqa: BLE001 - the user's own forward, with steps done wrong; what is asked here only tells
            self.failures.append(error)

    def take(self, news: News) -> None:
        """A call is made that shows this."""
        self.unnoticed.leave_out(news.steps)
        self.reach.take(news.reached)

    def disclosures(self) -> list[Disclosure]:
        """What no call has shown; nothing where the reference could not be followed."""
        if self.failures:
            return []
        told = {
            "steps_not_shown": self.unnoticed.sentence(),
            "reach_not_tried": self.reach.sentence(),
        }
        return [Disclosure(code, text) for code, text in told.items() if text is not None]
