"""`kernelagent memory`: what it does once its flags are read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kernelagent.cli.terminal.json_output import print_json
from kernelagent.domain.configuration.config import RunConfig, resolve
from kernelagent.domain.errors import ExitStatus, UsageError
from kernelagent.loop.attached_lessons import learn
from kernelagent.storage.lessons.lesson import Lesson
from kernelagent.storage.lessons.library import LearntView, LessonsView, Library
from kernelagent.storage.run_log import RunFolder, read_events
from kernelagent.storage.run_state import fold

MEMORY = ".kernelagent/memory"


def memory(
    act: str, names: Sequence[str], folder: str | None, runs: str | None, *, as_json: bool
) -> ExitStatus:
    """One act on a library; raises `UsageError` on what is none."""
    config = resolve({"memory": folder, "runs": runs})
    path = Path(config.memory or MEMORY)
    match act:
        case "list":
            _none(act, names)
            _list(Library.at(path), as_json=as_json)
        case "show":
            for name in _some(act, names):
                _show(Library.at(path), name, as_json=as_json)
        case "learn":
            _learn(Library.at(path, make=True), _some(act, names), config, as_json=as_json)
        case "forget":
            library = Library.at(path)
            for name in _some(act, names):
                _say(f"forgotten: {library.forget(name)}")
        case _:
            raise UsageError(f"no act {act!r}: use list, show, learn or forget")
    return ExitStatus.OK


def _list(library: Library, *, as_json: bool) -> None:
    lessons = library.lessons()
    if as_json:
        print_json(LessonsView(str(library.path), lessons))
        return
    for lesson in lessons:
        place = f"{lesson.device}, {lesson.pattern}"
        what = " ".join(part for part in (lesson.code, lesson.bound, lesson.words) if part)
        _say(f"{lesson.id}: {_standing(lesson)}; {place}: {what}")
    _say(f"{len(lessons)} lessons in {library.path}, {sum(x.stands for x in lessons)} recalled")


def _standing(lesson: Lesson) -> str:
    counted = f"{lesson.pros} for, {lesson.cons} against"
    if lesson.off:
        return f"{counted}, switched off"
    return counted if lesson.stands else f"{counted}, not recalled any more"


def _show(library: Library, name: str, *, as_json: bool) -> None:
    lesson, path = library.lesson(name)
    if as_json:
        print_json(lesson)
    else:
        _say(f"# {path}: {_standing(lesson)}")
        _say(path.read_text(encoding="utf-8").rstrip("\n"))


def _learn(library: Library, names: Sequence[str], config: RunConfig, *, as_json: bool) -> None:
    done = []
    for run in names:
        folder = RunFolder.open(run, Path(config.runs))
        learnt = learn(library, fold(read_events(folder.log)))
        done.append(learnt)
        if not as_json:
            _say(f"{folder.id}: {learnt.words}")
    if as_json:
        print_json(LearntView(str(library.path), tuple(done)))


def _some(act: str, names: Sequence[str]) -> Sequence[str]:
    if not names:
        what = "which runs" if act == "learn" else "which lesson"
        raise UsageError(f"say {what}: kernelagent memory {act} NAME")
    return names


def _none(act: str, names: Sequence[str]) -> None:
    if names:
        raise UsageError(f"kernelagent memory {act} takes no names: {' '.join(names)}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
