"""What a user names, a problem or a candidate's file, as records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelagent.domain.candidate import Candidate, NoCandidate, parse_reply
from kernelagent.domain.errors import UsageError
from kernelagent.domain.problem import ProblemSpec


def problem_spec(problem: str, names: Mapping[str, Any]) -> ProblemSpec:
    """A file, `FILE.py:Name`, a saved module's folder or `pkg.mod[:Name]`; raises `UsageError` when it is none."""
    if Path(problem, "bundle.json").is_file():
        return ProblemSpec(bundle=problem)
    file, name = file_and_class(problem)
    if name is not None:
        problem, names = file, {**names, "module": name}
    if problem.endswith(".py") and not Path(problem).is_file():
        raise UsageError(f"there is no file {problem}")
    if Path(problem).is_dir() and not Path(problem, "__init__.py").is_file():
        raise UsageError(
            f"{problem} is a folder; name a Python file in it, or pkg.mod:Name for a module of a package"
        )
    if Path(problem).is_file():
        return ProblemSpec(path=problem, **names)
    module, colon, name = problem.partition(":")
    if not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"there is no file {problem!r}, and it is no pkg.mod:Name either")
    if colon:
        names = {**names, "module": name}
    return ProblemSpec(import_name=module, **names)


def file_and_class(place: str) -> tuple[str, str | None]:
    """`FILE.py:Name` in its parts; the place as it is, and None, where it is none."""
    file, _, name = place.rpartition(":")
    if file.endswith(".py") and name.isidentifier() and not Path(place).is_file():
        return file, name
    return place, None


def candidate_in(path: Path) -> Candidate | NoCandidate:
    """A candidate file: Python, or a reply in Markdown with a code block."""
    text = path.read_text(encoding="utf-8")
    return parse_reply(text) if path.suffix in {".md", ".txt"} else Candidate(text)
