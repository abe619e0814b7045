"""Prompts as files, replies read from files: for a person with an editor, and for any agent without MCP.

For turn 3 the model writes `turn-003.prompt.md` and waits for `turn-003.reply.md` beside it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelagent.domain.errors import ModelError, UsageError
from kernelagent.domain.history import Message
from kernelagent.models import (
    Calling,
    Exhausted,
    Model,
    ModelQuery,
    ModelSettings,
    NotAnswered,
    Reply,
    in_words,
)
from kernelagent.prompts import prompt_hash
from kernelagent.prompts.conversation import as_markdown

POLL_S = 0.2
SETTLED_S = 1.0
"""A reply that has not changed for this long is complete."""
UNCLOSED_S = 30.0
"""The same, while a code block in it is still open: its author may be thinking."""
_IN_FLIGHT = 16


@dataclass(frozen=True)
class _Seen:
    """A reply file as it stood when it was looked at."""

    size: int
    changed_ns: int


@dataclass
class FilesModel:
    """Waits for a file; `name` is the whole `files:DIR` as the user gave it."""

    name: str
    folder: Path
    timeout_s: float | None = None
    """None: waits for as long as the run may take."""
    stop_asked: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _read: list[Path] = field(default_factory=list)

    @classmethod
    def from_spec(cls, spec: str, stop_asked: Callable[[], bool]) -> FilesModel:
        """`DIR` or `DIR,timeout=SECONDS`; raises `UsageError`, or `ModelError` without the folder."""
        given, comma, option = spec.partition(",")
        timeout = _timeout(spec, option) if comma else None
        folder = Path(given)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ModelError(f"prompts cannot be written to {given}: {error}") from error
        return cls(f"files:{spec}", folder, timeout, stop_asked)

    @property
    def calling(self) -> Calling:
        return "blocks"

    @property
    def most_in_flight(self) -> int:
        return _IN_FLIGHT

    def reply(
        self, ask: ModelQuery, on_text: Callable[[str], None]
    ) -> Reply | Exhausted | NotAnswered:
        """Show the prompt, wait for the reply; raises `ModelError` after `timeout_s`."""
        reply = self.folder / f"{_stem(ask)}.reply.md"
        remark = self._show(ask, reply)
        text = self._wait(reply)
        if text is None:
            return NotAnswered(f"{reply} was not written before the run was stopped")
        on_text(text)
        return Reply(text, remark=remark)

    def close(self) -> None:
        """Replies that were used are put out of the way of the next run."""
        for path in self._read:
            path.replace(path.with_name(path.name.replace(".reply.", ".answered.")))
        self._read.clear()

    def _show(self, ask: ModelQuery, reply: Path) -> str | None:
        """Write the prompt; a reply that stands there already is kept if it answers this very prompt."""
        prompt = self.folder / f"{_stem(ask)}.prompt.md"
        text = _page(in_words(ask), reply.name)
        remark = None
        if _exists(reply) and not _same(prompt, text):
            aside = reply.with_name(reply.name.replace(".reply.", ".stale."))
            reply.replace(aside)
            remark = f"{reply} was there before its prompt; it was put aside as {aside.name}"
        _write_whole(prompt, text)
        return remark

    def _wait(self, reply: Path) -> str | None:
        began = self.clock()
        seen: _Seen | None = None
        since = began
        while True:
            if self.stop_asked():
                return None
            now, there = self.clock(), _look(reply)
            if there != seen:
                seen, since = there, now
            elif there is not None and there.size and now - since >= SETTLED_S:
                text = reply.read_text(encoding="utf-8", errors="replace")
                patience = UNCLOSED_S if _open_fence(text) else SETTLED_S
                if text.strip() and now - since >= patience and _look(reply) == there:
                    self._read.append(reply)
                    return text
            if self.timeout_s is not None and now - began >= self.timeout_s:
                raise ModelError(
                    f"nobody wrote {reply} within {self.timeout_s:g} s; write it, then go on with "
                    f"`kernelagent optimize --resume RUN`"
                )
            self.sleep(POLL_S)


def _timeout(spec: str, option: str) -> float:
    key, _, value = option.partition("=")
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if key != "timeout" or not seconds > 0:
        raise UsageError(f"files:{spec}: write files:DIR or files:DIR,timeout=SECONDS")
    return seconds


def _stem(ask: ModelQuery) -> str:
    """After calls of tools the answers come in a prompt of their own."""
    calls = f".call-{len(ask.rounds)}" if ask.rounds else ""
    return f"turn-{ask.turn:03d}{calls}"


def _page(messages: Sequence[Message], reply: str) -> str:
    note = (
        f"<!-- prompt {prompt_hash(messages)[:16]}. Write the reply to {reply} in this folder: a few "
        f"words, then one python block. It is read once it has not changed for {SETTLED_S:g} s. -->"
    )
    return f"{note}\n\n{as_markdown(messages)}"


def _exists(path: Path) -> bool:
    return _look(path) is not None


def _same(path: Path, text: str) -> bool:
    return _exists(path) and path.read_text(encoding="utf-8", errors="replace") == text


def _look(path: Path) -> _Seen | None:
    try:
        result = path.stat()
    except FileNotFoundError:
        return None
    return _Seen(result.st_size, result.st_mtime_ns)


def _open_fence(text: str) -> bool:
    return sum(line.lstrip().startswith("```") for line in text.splitlines()) % 2 == 1


def _write_whole(path: Path, text: str) -> None:
    """Nobody who watches the folder ever sees half a prompt."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def make(folder: str, settings: ModelSettings) -> Model:
    """`files:DIR`."""
    return FilesModel.from_spec(folder, settings.stop_asked)
