"""A recorded conversation as the model: its replies in order, each prompt compared with the recording."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernelagent.errors import ModelError
from kernelagent.events import ReplyReceived, TurnStarted
from kernelagent.models import Ask, Exhausted, Reply
from kernelagent.prompts import prompt_hash
from kernelagent.runlog import LOG, read_events


@dataclass(frozen=True)
class Recorded:
    """One reply of a recording."""

    text: str
    prompt_sha256: str | None = None


@dataclass(frozen=True)
class ReplayModel:
    """Answers turn after turn with the recorded replies; candidates are evaluated anew."""

    name: str
    replies: tuple[Recorded, ...]

    @classmethod
    def from_path(cls, path: str) -> ReplayModel:
        """A run's folder, its `events.jsonl`, or a cassette; raises `ModelError`."""
        file = Path(path) / LOG if Path(path).is_dir() else Path(path)
        if not file.is_file():
            raise ModelError(
                f"there is no recording at {path}; give a run's folder, its {LOG}, or a file of "
                f'JSON lines with "reply"'
            )
        replies = _from_log(file) if file.name == LOG else _from_cassette(file)
        if not replies:
            raise ModelError(f"the recording {file} holds no reply")
        return cls(f"replay:{path}", tuple(replies))

    def reply(self, ask: Ask, on_text: Callable[[str], None]) -> Reply | Exhausted:
        used = sum(turn.request.model == self.name for turn in ask.history.turns)
        if used >= len(self.replies):
            return Exhausted(f"the recording ends after {len(self.replies)} replies")
        recorded = self.replies[used]
        differs = recorded.prompt_sha256 not in (None, prompt_hash(ask.messages))
        remark = f"the prompt of turn {ask.turn} differs from the recording" if differs else None
        on_text(recorded.text)
        return Reply(recorded.text, remark=remark)

    def close(self) -> None:
        """Nothing to release."""


def _from_log(file: Path) -> list[Recorded]:
    prompts: dict[int, str] = {}
    replies: dict[int, Recorded] = {}
    for logged in read_events(file):
        match logged.event:
            case TurnStarted(turn=turn, prompt_sha256=sha):
                prompts[turn] = sha
            case ReplyReceived(turn=turn, text=text):
                replies[turn] = Recorded(text, prompts.get(turn))
            case _:
                pass
    return [replies[turn] for turn in sorted(replies)]


def _from_cassette(file: Path) -> list[Recorded]:
    replies = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            replies.append(Recorded(row["reply"], row.get("prompt_sha256")))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(
                f'{file}, line {number} is not a recorded reply (a JSON object with "reply"): {error}'
            ) from error
    return replies
