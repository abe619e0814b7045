"""A strategy and a model from outside the tree, found by their entry points.

kernelagent optimize my_model.py --strategy relay --set turns_each=3
kernelagent optimize my_model.py --model "program:my-llm --fast" --yes
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelagent.domain.errors import ModelError, UsageError
from kernelagent.domain.history import History, TurnRequest
from kernelagent.models import ModelQuery, ModelSettings, Reply


@dataclass(frozen=True)
class Relay:
    """Hands the best candidate so far from model to model, each for a few turns."""

    models: tuple[str, ...]
    seed: int = 0
    turns_each: int = 2

    def next_turns(self, history: History) -> Sequence[TurnRequest]:
        """One request at a time; nothing while a turn is pending, or when no model has anything left."""
        able = [model for model in self.models if model not in history.exhausted]
        if history.pending or not able:
            return ()
        model = able[history.next_index // self.turns_each % len(able)]
        best = history.best
        if best is None:
            return (TurnRequest("write", model),)
        return (TurnRequest("optimise", model, parent=best.index, window=(best.index,)),)


@dataclass(frozen=True)
class ProgramModel:
    """A program of yours: the prompt on its stdin, the reply on its stdout."""

    name: str
    command: tuple[str, ...]

    def reply(self, query: ModelQuery, on_text: Callable[[str], None]) -> Reply:
        """The program's output; raises `ModelError` where it ends with another status than 0."""
        prompt = "\n\n".join(message.content for message in query.messages)
        done = subprocess.run(self.command, input=prompt, capture_output=True, text=True)
        if done.returncode != 0:
            end = done.stderr.strip()[-300:]
            raise ModelError(f"{self.command[0]} ended with status {done.returncode}: {end}")
        on_text(done.stdout)
        return Reply(done.stdout)

    def close(self) -> None:
        """Nothing is kept open."""


def make_program_model(command: str, _: ModelSettings) -> ProgramModel:
    """`program:COMMAND`."""
    words = tuple(shlex.split(command))
    if not words:
        raise UsageError("say which program: --model 'program:COMMAND'")
    return ProgramModel(f"program:{command}", words)
