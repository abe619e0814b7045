"""`kernelagent import`: kernels of anybody, judged against a reference and given a certificate."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import kernelagent
from kernelagent.domain.candidate import ENTRY_POINT, Candidate
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import Evaluation, Stage
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.replies.parsing import parse
from kernelagent.dropin.emit import SECTION_BEGINS, Certificate, emit_module
from kernelagent.dropin.review import Finding, review
from kernelagent.dropin.runtime_package import Runtime
from kernelagent.loop.emitted.one_file import in_one_file
from kernelagent.loop.queries.exclusive_gpu import alone_on
from kernelagent.loop.run_setup import asked_of, judge_settings
from kernelagent.report.reproduce import recheck_command
from kernelagent.storage.output_file import MARKER
from kernelagent.tools.judge_client import JudgeProcess


@dataclass(frozen=True)
class Imported:
    """The verdict, and the file with its certificate where it was accepted."""

    evaluation: Evaluation
    findings: tuple[Finding, ...]
    """What in the text needs a reader's eyes."""
    text: str | None = None


def source_in(place: Path, name: str | None) -> str:
    """The candidate in a Python file or a folder of `kernels`, as one text with `class ModelNew`.

    What the class's file imports from its own package is put in front of it. `name`: the class, where it is
    called otherwise. Raises `UsageError` naming what is in the way.
    """
    wanted = name or ENTRY_POINT
    files = [place] if place.is_file() else _files(place)
    holding = [path for path in files if wanted in _classes(path)]
    if not holding:
        raise UsageError(
            f"no class {wanted} in {place}; name the class that is constructed like the reference "
            f"with --class"
        )
    source = in_one_file(holding[0], place if place.is_dir() else place.parent)
    source = _without_our_words(source, parse(source))
    if wanted != ENTRY_POINT:
        source = f"{source.rstrip()}\n\n\nclass {ENTRY_POINT}({wanted}):\n    pass\n"
    return source


def judged(
    source: str,
    problem: ProblemSpec,
    config: RunConfig,
    out: Path,
    on_stage: Callable[[Stage], None] = lambda _: None,
) -> Imported:
    """Judge the source as a run judges its winner, and write its certificate into a file's text."""
    candidate, findings = Candidate(source), review(source)
    with JudgeProcess(judge_settings(problem, config)) as judge:
        facts = judge.facts
        with alone_on(judge.device, config.device):
            evaluation = judge.evaluate_final(candidate, on_stage)

        def text(runtime: Runtime) -> str:
            date = time.strftime("%Y-%m-%d", time.gmtime())
            certificate = Certificate(
                run=f"import of {date}",
                date=date,
                policy=evaluation.policy,
                baseline=evaluation.baseline,
                reproduce=recheck_command(problem, config, out),
                kernelagent=kernelagent.__version__,
                asked=asked_of(problem, config),
            )
            return emit_module(candidate, facts, evaluation, certificate, runtime)

        if evaluation.accepted:
            # It is the file that a user runs.
            file = Candidate(text("inline"))
            evaluation = judge.try_emitted(file, evaluation, config.judging_seconds)
    if not evaluation.accepted:
        return Imported(evaluation, findings)
    return Imported(evaluation, findings, text(config.runtime))


def _files(folder: Path) -> list[Path]:
    """The Python files of a folder of `kernels`: of one build where there are some, else of its source."""
    if not folder.is_dir():
        raise UsageError(f"there is no file or folder {folder}")
    builds = sorted(path for path in folder.glob("build/*") if (path / "metadata.json").is_file())
    return sorted((builds[0] if builds else folder).rglob("*.py"))


def _classes(path: Path) -> set[str]:
    try:
        tree = parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError, OSError) as error:
        raise UsageError(f"{path} is no Python file that can be read: {error}") from error
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def _without_our_words(source: str, tree: ast.Module) -> str:
    """The candidate of an emitted file: what stands between its certificate and its drop-in."""
    first = tree.body[0] if tree.body else None
    spoken = ast.get_docstring(tree)
    if spoken is None or MARKER not in spoken or SECTION_BEGINS not in source:
        return source
    lines = source.splitlines(keepends=True)[(first.end_lineno or 0) if first else 0 :]
    return "".join(lines).partition(SECTION_BEGINS)[0].strip("\n") + "\n"
