"""The library: a folder of TOML files, one lesson each, that a person can read, edit and delete.

    DIR/library.toml              schema version
    DIR/written.txt               what was ever written: lesson, run, turn, for or against
    DIR/<device>/<pattern>/<id>.toml

New evidence is put at the end of a lesson's file and nothing above it is touched, so edits and comments
stay. What stands in `written.txt` is never written again: a file or a piece of evidence that somebody
has deleted stays deleted until its line there goes, too.
"""

from __future__ import annotations

import fcntl
import json
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

import msgspec

from kernelagent.domain.errors import EnvironmentFault, UsageError
from kernelagent.domain.serialization import from_data, to_data
from kernelagent.storage.lessons.distil import Distilled, together
from kernelagent.storage.lessons.lesson import KINDS, SCHEMA, Evidence, Lesson
from kernelagent.storage.output_file import write_atomically

VERSION = 1
_HEAD = "library.toml"
_WRITTEN = "written.txt"
_LOCK = "lock"


@dataclass(frozen=True)
class Learnt:
    """What learning a run changed."""

    run: str
    new: tuple[str, ...] = ()
    """Lessons that were not there."""
    more: tuple[str, ...] = ()
    """Lessons that got further evidence."""
    against: tuple[str, ...] = ()
    """Lessons that got evidence against them, and no longer stand."""
    redacted: int = 0

    @property
    def words(self) -> str:
        fallen = f", {len(self.against)} not told any more" if self.against else ""
        return f"lessons: {len(self.new)} new, {len(self.more)} with further evidence{fallen}"


@dataclass(frozen=True)
class LessonsView:
    """`memory list --json`."""

    memory: str
    lessons: tuple[Lesson, ...]
    schema: str = "kernelagent.lessons/1"


@dataclass(frozen=True)
class LearntView:
    """`memory learn --json`."""

    memory: str
    runs: tuple[Learnt, ...]
    schema: str = "kernelagent.learnt/1"


@dataclass(frozen=True)
class Library:
    """A folder of lessons; reading never changes it."""

    path: Path

    @classmethod
    def at(cls, path: Path, *, make: bool = False) -> Library:
        """The library in a folder; raises `UsageError` where there is none, or not of this version."""
        if (path / _HEAD).is_file():
            result = _toml(path / _HEAD).get("version")
            if result != VERSION:
                raise UsageError(
                    f"the memory in {path} is of version {result!r}, this program reads {VERSION}: "
                    f"choose another folder, or the kernelagent that wrote it"
                )
            return cls(path)
        if not make:
            raise UsageError(f"there is no memory in {path}: `kernelagent memory learn` makes one")
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"{path} is not empty and holds no memory: give a folder of its own")
        path.mkdir(parents=True, exist_ok=True)
        _write(path / _HEAD, f'schema = "kernelagent.memory/1"\nversion = {VERSION}\n')
        return cls(path)

    def lessons(self) -> tuple[Lesson, ...]:
        """All of them, in the order of their ids; raises `UsageError` naming a file that is spoilt."""
        result = [self._read(path) for path in self.path.glob("*/*/*.toml")]
        return tuple(sorted(result, key=lambda lesson: (lesson.id, lesson.device)))

    def lesson(self, wanted: str) -> tuple[Lesson, Path]:
        """The one of that id, or whose id begins so; raises `UsageError` for none or several."""
        paths = sorted(self.path.glob("*/*/*.toml"))
        exact = [path for path in paths if path.stem == wanted]
        result = exact or [path for path in paths if path.stem.startswith(wanted)]
        if len(result) != 1:
            message = ", ".join(path.stem for path in result[:5]) or "none"
            raise UsageError(f"{wanted!r} names {len(result)} lessons of {self.path}: {message}")
        return self._read(result[0]), result[0]

    def learn(self, distilled: Distilled) -> Learnt:
        """Take a run's lessons in; taking the same run in again changes nothing."""
        with self._alone():
            there = {lesson.id: lesson for lesson in self.lessons()}
            written = self._written()
            gone = {line.split()[0] for line in written if line} - set(there)
            new: list[str] = []
            more: list[str] = []
            fallen: list[str] = []
            for lesson in together((*distilled.lessons, *_refuted(there, distilled))).values():
                if lesson.id in gone:
                    continue
                known = there.get(lesson.id)
                fresh = _fresh(lesson, known, written)
                if not fresh:
                    continue
                self._add(lesson, known, fresh)
                (more if known is not None else new).append(lesson.id)
                if known is not None and known.stands and not known.with_evidence(fresh).stands:
                    fallen.append(lesson.id)
            return Learnt(distilled.run, tuple(new), tuple(more), tuple(fallen), distilled.redacted)

    def forget(self, wanted: str) -> Path:
        """Delete a lesson for good; raises as `lesson`."""
        with self._alone():
            _, path = self.lesson(wanted)
            path.unlink()
            return path

    def _add(self, lesson: Lesson, known: Lesson | None, fresh: tuple[Evidence, ...]) -> None:
        if known is None:
            path = self.path / lesson.device / lesson.pattern / f"{lesson.id}.toml"
            path.parent.mkdir(parents=True, exist_ok=True)
            text = _head(lesson)
        else:
            path = self.lesson(lesson.id)[1]
            text = path.read_text(encoding="utf-8").rstrip("\n") + "\n"
        _write(path, text + "".join(map(_block, fresh)))
        # Written after the lesson's file: if the process is killed in between, the file still has the evidence.
        with (self.path / _WRITTEN).open("a", encoding="utf-8") as file:
            file.writelines(f"{_line(lesson.id, item)}\n" for item in fresh)
            file.flush()
            os.fsync(file.fileno())

    def _read(self, path: Path) -> Lesson:
        data = _toml(path)
        if (schema := data.pop("schema", None)) != SCHEMA:
            raise UsageError(f"{path}: schema {schema!r} is not {SCHEMA!r}")
        known = {item.name for item in fields(Lesson)}
        try:
            # Ignore keys that the user added to the file.
            return from_data({k: v for k, v in data.items() if k in known}, Lesson)
        except (msgspec.ValidationError, ValueError) as error:
            raise UsageError(f"{path} is no lesson: {error}; mend or delete it") from error

    def _written(self) -> frozenset[str]:
        try:
            return frozenset((self.path / _WRITTEN).read_text(encoding="utf-8").splitlines())
        except FileNotFoundError:
            return frozenset()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Runs that end together learn one after the other."""
        with (self.path / _LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _refuted(there: dict[str, Lesson], distilled: Distilled) -> Iterator[Lesson]:
    """Rules learnt from a program that this run saw accepted on the same device."""
    devices = {lesson.device for lesson in distilled.lessons}
    for lesson in there.values():
        if lesson.kind != "avoid" or lesson.device not in devices:
            continue
        for item in lesson.evidence:
            if item.supports and (seen := distilled.accepted.get(item.program)) is not None:
                yield replace(lesson, evidence=(seen,))


def _fresh(lesson: Lesson, known: Lesson | None, written: frozenset[str]) -> tuple[Evidence, ...]:
    there = {item.key for item in known.evidence} if known is not None else set()
    return tuple(
        item
        for item in lesson.evidence
        if item.key not in there and _line(lesson.id, item) not in written
    )


def _line(lesson: str, evidence: Evidence) -> str:
    return f"{lesson} {evidence.run} {evidence.turn} {'for' if evidence.supports else 'against'}"


def _head(lesson: Lesson) -> str:
    """The part of a file that is a person's to edit."""
    reported = to_data(replace(lesson, evidence=()))
    values = {key: value for key, value in reported.items() if value or key in ("words", "off")}
    lines = [
        f"# {lesson.kind}: {KINDS[lesson.kind]}.",
        "# Edit `words`, set `off = true`, or delete the file: that stays so.",
        f"schema = {_text(SCHEMA)}",
    ]
    return "\n".join([*lines, *(f"{k} = {_text(v)}" for k, v in values.items())]) + "\n"


def _block(evidence: Evidence) -> str:
    values = {key: value for key, value in to_data(evidence).items() if value not in (None, "")}
    lines = (f"{key} = {_text(value)}" for key, value in values.items())
    return "\n".join(["\n[[evidence]]", *lines]) + "\n"


def _text(value: object) -> str:
    """A value as TOML writes it; its strings are JSON's but for one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}; mend or delete it") from error


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text, force=True)
    except UsageError as error:
        raise EnvironmentFault(f"the memory cannot be written: {error}") from error
