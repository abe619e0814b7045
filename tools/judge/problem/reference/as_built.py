"""What a reference's code reaches before its first forward, and what calls have made of it since.

A library may keep in its own variables what its first use has found, as einops does with the framework of a tensor. Another
process has other values there until it calls the module: the emitted module must not compare them when it is put on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from kernelagent.tools.judge.problem.load import LoadedProblem
from kernelagent.tools.judge.problem.reference.guard_walk import Told, told


class AsBuilt:
    """What the first module that is built reaches in files and classes, kept until it is compared.

    Later modules may be of other sizes: of what is looked at, none depends on them.
    """

    def __init__(self) -> None:
        self._texts: Mapping[str, str] | None = None

    def watching(self, problem: LoadedProblem) -> LoadedProblem:
        """The same problem; the first module it builds is looked at before anything calls it."""

        def build() -> torch.nn.Module:
            module = problem.build()
            if self._texts is None:
                self._texts = {row.what: row.text for row in told(module) if _is_outside(row)}
            return module

        return replace(problem, build=build)

    def made_since(self, module: torch.nn.Module) -> frozenset[str]:
        """What holds something else by now, or was not to be reached then, as `Told.what` has it."""
        texts = self._texts
        if not texts:
            # Nothing was built here, or it could not be looked at: then nothing is known to have changed.
            return frozenset()
        rows = filter(_is_outside, told(module))
        return frozenset(row.what for row in rows if texts.get(row.what) != row.text)

    def changed(self, module: torch.nn.Module) -> tuple[str, ...]:
        """Of these what was there before any call, in words."""
        names = sorted(self.made_since(module) & (self._texts or {}).keys())
        return tuple(f"`{name}`, which a first call changes" for name in names)


def _is_outside(row: Told) -> bool:
    """Whether it stands in a file or a class: what closures hold may follow from the constructor's arguments."""
    of_a_file = isinstance(row.owner, dict) and "__name__" in row.owner
    return not row.place and (of_a_file or isinstance(row.owner, type))
