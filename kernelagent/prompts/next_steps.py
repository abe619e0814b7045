"""What a user does with a module that was written: the same words at a run's end and in its report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernelagent.domain.evaluation import Evaluation


@dataclass(frozen=True)
class Step:
    """Something to run, with the words around it."""

    code: str
    before: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        """For a terminal: the code is marked only where it stands within a sentence."""
        alone = not self.before and not self.after
        return self.code if alone else f"{self.before}`{self.code}`{self.after}"


def next_steps(
    winner: Evaluation,
    path: Path,
    again: str,
    submodule: str | None = None,
    *,
    checked: bool = False,
) -> tuple[Step, ...]:
    """How to use the file at `path`, and how to get its time where it has none.

    `again`: the command that judges the file again on the device that is there. `submodule`: its place in the whole
    model, where the run was about a part. `checked`: the whole was found right with it.
    """
    first = f"from {path.stem} import optimized; "
    if submodule is None:
        steps = [Step(f"{first}model.part = optimized(model.part)")]
    else:
        put = f"model.set_submodule({submodule!r}, optimized(model.get_submodule({submodule!r})))"
        after = "" if checked else ", if the whole model was found right with it"
        steps = [Step(first + put, after=after)]
    if winner.timing is None:
        steps.append(Step(again, "where there is a GPU, ", " times it"))
    return tuple(steps)
