"""Which problems a suite has: KernelBench's folders, other folders, files, `pkg.mod:Name`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelagent.domain.errors import UsageError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.replies.parsing import parse
from kernelagent.loop.arguments import file_and_class

_LEVEL = re.compile(r"^l(?:evel)?[ _-]?(\d+)$", re.IGNORECASE)
_NUMBER = re.compile(r"(\d+)")


@dataclass(frozen=True)
class SuiteProblem:
    """One problem of a suite."""

    key: str
    """Its name within the suite, also that of its folder, for example `level1-19_ReLU`."""
    spec: ProblemSpec
    split: str | None = None
    """`L1` for a file below a folder `level1`; None where no folder says so."""


@dataclass(frozen=True)
class FoundProblems:
    """The problems, in the order they are run, and the files in the folders that are none."""

    problems: tuple[SuiteProblem, ...]
    left_out: tuple[str, ...] = ()


def find_problems(places: Sequence[str], splits: Sequence[str] = ()) -> FoundProblems:
    """Every problem at `places`; with `splits` (`L1`, `level2`) only those of these levels.

    In a folder a problem is a Python file that defines a class `Model` and `get_inputs`, as
    KernelBench has them. Raises `UsageError` when a place is nothing, or nothing is found.
    """
    problems: list[SuiteProblem] = []
    left_out: list[str] = []
    for place in places:
        if Path(place).is_dir():
            inside = _in_folder(Path(place))
            problems += inside.problems
            left_out += inside.left_out
        else:
            problems.append(_single(place))
    wanted = {_level(split) for split in splits}
    if wanted:
        problems = [problem for problem in problems if problem.split in wanted]
    if not problems:
        where = f" in {', '.join(sorted(wanted))}" if wanted else ""
        raise UsageError(
            f"no problem was found{where} at {', '.join(places)}; a problem is a Python file with "
            f"`class Model` and `get_inputs()`, in folders level1, level2, … where --split is used"
        )
    return FoundProblems(tuple(_unique(problems)), tuple(left_out))


def _single(place: str) -> SuiteProblem:
    file, wanted = file_and_class(place)
    path = Path(file)
    if path.is_file():
        stem = path.stem if wanted is None else f"{path.stem}-{wanted}"
        return SuiteProblem(stem, ProblemSpec(path=file, module=wanted), _split_of(path.parts))
    module, colon, name = place.partition(":")
    if file.endswith(".py") or not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"there is no file or folder {place!r}, and it is no pkg.mod:Name either")
    spec = ProblemSpec(import_name=module, module=name if colon else None)
    return SuiteProblem(place.replace(":", "-"), spec)


def _in_folder(folder: Path) -> FoundProblems:
    files = sorted((f for f in folder.rglob("*.py") if f.is_file()), key=_natural)
    inside = {file: file.relative_to(folder) for file in files}
    shown = {f: r for f, r in inside.items() if not any(p.startswith((".", "_")) for p in r.parts)}
    problems = [
        SuiteProblem(
            "-".join(relative.with_suffix("").parts),
            ProblemSpec(path=str(file)),
            _split_of((folder.name, *relative.parts)),
        )
        for file, relative in shown.items()
        if _is_problem(file)
    ]
    taken = {problem.spec.path for problem in problems}
    return FoundProblems(tuple(problems), tuple(str(f) for f in shown if str(f) not in taken))


def _is_problem(file: Path) -> bool:
    try:
        body = parse(file.read_text(encoding="utf-8")).body
    except (SyntaxError, ValueError):
        return False
    named = {
        (type(node), node.name) for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    return {(ast.ClassDef, "Model"), (ast.FunctionDef, "get_inputs")} <= named


def _split_of(parts: Iterable[str]) -> str | None:
    levels = [match[1] for part in parts if (match := _LEVEL.match(part))]
    return f"L{levels[-1]}" if levels else None


def _level(split: str) -> str:
    match = _LEVEL.match(split.strip())
    if match is None:
        raise UsageError(f"--split {split}: write levels as L1,L2")
    return f"L{match[1]}"


def _natural(path: Path) -> list[tuple[int, str]]:
    """`2_x` before `10_x`, as KernelBench numbers its problems."""
    words = _NUMBER.split(str(path))
    return [(int(word), "") if word.isdigit() else (0, word) for word in words]


def _unique(problems: Iterable[SuiteProblem]) -> Iterable[SuiteProblem]:
    seen: dict[str, int] = {}
    for problem in problems:
        key = re.sub(r"[^\w.-]", "_", problem.key)[:100]
        seen[key] = seen.get(key, 0) + 1
        yield replace(problem, key=key if seen[key] == 1 else f"{key}-{seen[key]}")
