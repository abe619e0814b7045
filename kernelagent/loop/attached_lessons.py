"""A run's memory: the library as it stood when the run began, and what the run adds at its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.history import History, Recalled, TurnRequest
from kernelagent.domain.problem import ProblemFacts
from kernelagent.storage.lessons.distil import distil
from kernelagent.storage.lessons.library import Learnt, Library
from kernelagent.storage.lessons.recall import Memory
from kernelagent.storage.run_log import read_events
from kernelagent.storage.run_state import RunState, fold
from kernelagent.tools.judge.harness import harness_sha256


@dataclass(frozen=True)
class Attached:
    """What a run asks for each turn and gives back at the end."""

    library: Library
    memory: Memory
    learns: bool = True

    @classmethod
    def to(cls, folder: str, *, learns: bool = True) -> Attached:
        """The memory in a folder, created if `learns` is true; raises `UsageError`."""
        library = Library.at(Path(folder), make=learns)
        return cls(library, Memory(library.lessons(), harness_sha256()[:12]), learns)

    def recall(
        self, facts: ProblemFacts, device: DeviceFacts, history: History, request: TurnRequest
    ) -> tuple[Recalled, ...]:
        return self.memory.recall(facts, device, history, request)

    def learn(self, log: Path) -> str | None:
        """Takes in what the log teaches so far; a sentence about it, or None where nothing is learnt."""
        if not self.learns:
            return None
        learnt = learn(self.library, fold(read_events(log)))
        return f"memory {self.library.path}: {learnt.words}"


def learn(library: Library, state: RunState) -> Learnt:
    """A run's lessons into a library; raises `UsageError` on a run without a problem."""
    if not state.run:
        raise UsageError("a log without a beginning: there is nothing to learn")
    return library.learn(distil(state))
