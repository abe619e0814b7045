"""Where the user's code lies that the judge has imported: what a process needs to import it as well."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

from kernelagent.domain.problem import ProblemSpec


def at_home(problem: ProblemSpec) -> ProblemSpec:
    """The same, named so that a process that works elsewhere finds it."""
    path, bundle = (
        None if p is None else str(Path(p).resolve()) for p in (problem.path, problem.bundle)
    )
    return replace(problem, path=path, bundle=bundle, whole=None)


def places_of(problem: ProblemSpec) -> tuple[Path, ...]:
    """The folders of the problem and of what it has imported, besides those of installed packages."""
    given = [problem.bundle, None if problem.path is None else str(Path(problem.path).parent)]
    places = {Path(place).resolve() for place in given if place}
    installed = tuple(
        f"{os.path.realpath(path)}{os.sep}"
        for path in (*sysconfig.get_paths().values(), *site.getsitepackages())
    )
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and not os.path.realpath(file).startswith(installed):
            places.add(Path(file).resolve().parent)
    return tuple(sorted(place for place in places if place.is_dir()))
