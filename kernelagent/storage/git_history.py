"""The run as a git repository: a commit for each evaluated candidate, its parent what it refines.

A fold over the events, like every view: the same events give the same commits, hash for hash. The
repository has no working tree, and nothing of the user's git (name, hooks, signing) takes part.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.events import (
    Evaluated,
    Event,
    Logged,
    ModuleEmitted,
    ReplyReceived,
    TurnStarted,
)
from kernelagent.domain.serialization import to_data
from kernelagent.prompts.wording import summary
from kernelagent.storage.run_log import RunFolder, read_events

if TYPE_CHECKING:
    from git import Repo

_AUTHOR = b"kernelagent <kernelagent@localhost>"
_CONFIG = """[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
[kernelagent]
\trun = true
"""
_BRANCH = "refs/heads/latest"
_TAGS = "refs/tags/"
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass
class GitLog:
    """A subscriber that keeps `<run>/.git`; made for a resumed run, it first catches up.

    `fault`: None, or one sentence why no history is kept (any more). It never raises for that.
    """

    folder: RunFolder
    fault: str | None = field(default=None, init=False)
    _repo: Repo | None = field(default=None, init=False, repr=False)
    _parents: dict[int, int | None] = field(default_factory=dict, init=False)
    _messages: dict[int, tuple[str, str]] = field(default_factory=dict, init=False)
    """Model and hypothesis of each turn that was answered."""
    _commits: dict[int, bytes] = field(default_factory=dict, init=False)
    _best: tuple[float, int] | None = field(default=None, init=False)
    _seen: int = field(default=-1, init=False)
    """Sequence number of the last event taken in."""

    def __post_init__(self) -> None:
        self._open()
        if self.folder.log.exists():
            self._take_all(read_events(self.folder.log))

    def __call__(self, logged: Logged) -> None:
        self._take_all((logged,))

    def rebuild(self, events: Iterable[Logged]) -> None:
        """The repository made again from all events of the run; the old one is thrown away."""
        if self._is_ours():
            shutil.rmtree(self._git)
        self._parents, self._messages, self._commits = {}, {}, {}
        self._best, self._seen, self.fault = None, -1, None
        self._open()
        self._take_all(events)

    @property
    def _git(self) -> Path:
        return self.folder.path / ".git"

    def _is_ours(self) -> bool:
        config = self._git / "config"
        return config.is_file() and "[kernelagent]" in config.read_text(encoding="utf-8")

    def _open(self) -> None:
        try:
            self._repo = self._opened()
        except ImportError as error:
            missing = "GitPython" if error.name == "git" else "the program git"
            self._give_up(f"{missing} was not found")
        except OSError as error:
            self._give_up(str(error))

    def _opened(self) -> Repo | None:
        from git import Repo

        if self._git.exists() and not self._is_ours():
            self._give_up(f"{self.folder.path} has a git repository that is not the run's")
            return None
        for part in ("objects", "refs/heads", "refs/tags"):
            (self._git / part).mkdir(parents=True, exist_ok=True)
        (self._git / "HEAD").write_text(f"ref: {_BRANCH}\n", encoding="utf-8")
        (self._git / "config").write_text(_CONFIG, encoding="utf-8")
        # A kill while a tag was moved leaves its lock; this process is the only writer now.
        for lock in (self._git / "refs").rglob("*.lock"):
            lock.unlink()
        return Repo(self._git)

    def _give_up(self, why: str) -> None:
        self._repo = None
        self.fault = f"the run's git history is not kept: {why}"

    def _take_all(self, events: Iterable[Logged]) -> None:
        if self._repo is None:
            return
        try:
            for logged in events:
                if logged.sequence > self._seen:
                    self._take(self._repo, logged.event, int(logged.time_s))
                    self._seen = logged.sequence
        except OSError as error:
            self._give_up(str(error))

    def _take(self, repo: Repo, event: Event, time_s: int) -> None:
        match event:
            case TurnStarted() as e:
                self._parents[e.turn] = e.request.parent
            case ReplyReceived() as e:
                self._messages[e.turn] = (e.model, hypothesis(e.text))
            case Evaluated() as e:
                self._commits[e.turn] = self._commit(repo, e, time_s)
                self._point(repo, _BRANCH, e.turn)
                self._point(repo, f"{_TAGS}turn-{e.turn}", e.turn)
                self._rank(repo, e)
            case ModuleEmitted() as e if e.turn in self._commits:
                self._point(repo, f"{_TAGS}emitted", e.turn)
            case _:
                pass

    def _rank(self, repo: Repo, e: Evaluated) -> None:
        # Not from BestChanged: a kill just before it would leave the tag behind for good.
        rank = (e.evaluation.score, -e.turn)
        if e.evaluation.accepted and (self._best is None or rank > self._best):
            self._best = rank
            self._point(repo, f"{_TAGS}best", e.turn)

    def _commit(self, repo: Repo, e: Evaluated, time_s: int) -> bytes:
        files = {"candidate.py": e.source, "evaluation.json": short_record(e)}
        # An entry of a git tree: mode, name, NUL, the 20 bytes of the blob; sorted by name.
        tree = b"".join(
            b"100644 " + name.encode() + b"\0" + _store(repo, b"blob", text.encode())
            for name, text in sorted(files.items())
        )
        parent = self._parent_of(e.turn)
        model, message = self._messages.get(e.turn, ("", ""))
        lines = [
            b"tree " + _store(repo, b"tree", tree).hex().encode(),
            *([b"parent " + parent.hex().encode()] if parent is not None else []),
            b"author %s %d +0000" % (_AUTHOR, time_s),
            b"committer %s %d +0000" % (_AUTHOR, time_s),
            b"",
            message_for(e, model, message).encode(),
        ]
        return _store(repo, b"commit", b"\n".join(lines))

    def _parent_of(self, turn: int) -> bytes | None:
        """The commit of the nearest turn it stems from: void turns have none."""
        before = self._parents.get(turn)
        while before is not None and before not in self._commits:
            before = self._parents.get(before)
        return None if before is None else self._commits[before]

    def _point(self, repo: Repo, name: str, turn: int) -> None:
        from git import Commit, Reference

        Reference(repo, name).set_reference(Commit(repo, self._commits[turn]))


def hypothesis(reply: str) -> str:
    """What the model says it tries: the first paragraph of a reply before its code, or nothing."""
    text = _THINKING.sub("", reply)
    fence = _FENCE.search(text)
    before = text[: fence.start()] if fence is not None else ""
    return harmless(before).strip().partition("\n\n")[0].strip()


def message_for(e: Evaluated, model: str, words: str) -> str:
    """A commit's message: turn, verdict and number; hypothesis; why it was refused; whose it is."""
    parts = [f"turn {e.turn}: {harmless(summary(e.evaluation))}", words]
    if e.evaluation.reason is not None:
        parts.append(f"{e.evaluation.reason.code}: {harmless(e.evaluation.reason.message)}")
    parts.append(f"Candidate: {e.candidate}" + (f"\nModel: {model}" if model else ""))
    return "\n\n".join(part for part in parts if part) + "\n"


def short_record(e: Evaluated) -> str:
    """`evaluation.json` of a commit: the verdict with its number, not every comparison."""
    item: Evaluation = e.evaluation
    record = {
        "turn": e.turn,
        "candidate": e.candidate,
        "verdict": item.verdict,
        "reason": to_data(item.reason),
        "timing": to_data(item.timing),
        "estimate": to_data(item.estimate),
        "faster": item.faster,
        "baseline": item.baseline,
        "policy": item.policy,
        "device": to_data(item.device),
        "kernels": [kernel.name for kernel in item.kernels],
        "disclosures": to_data(item.disclosures),
        "reward": e.reward,
    }
    return json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def harmless(text: str) -> str:
    """Text of a model for a terminal: control characters but line ends and tabs are left out."""
    return _CONTROL.sub("", text)


def _store(repo: Repo, kind: bytes, data: bytes) -> bytes:
    """Writes one object unless it is there; returns its 20 byte name."""
    # The database GitPython stands on: `repo.odb.store` starts a process for every object.
    from gitdb import IStream, LooseObjectDB  # type: ignore[import-untyped]

    objects = LooseObjectDB(str(Path(repo.git_dir) / "objects"))
    name: bytes = objects.store(IStream(kind, len(data), BytesIO(data))).binsha
    return name
