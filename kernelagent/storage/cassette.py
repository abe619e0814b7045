"""Recorded conversations: what a run's log says was asked and answered, as JSON lines that replay.

One line a reply, in the order of the turns: `reply`, and where they are known `prompt` (the messages),
`prompt_sha256`, `turn`, `model`, `verdict` (`accepted`, a rejection's code, or `void`) and the `calls` of tools
that came before the reply.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernelagent.domain.errors import ModelError
from kernelagent.domain.events import Evaluated, ReplyReceived, ToolCalled, TurnStarted, TurnVoid
from kernelagent.domain.history import Message
from kernelagent.domain.replies.tool_calls import ToolCall
from kernelagent.domain.serialization import from_data, from_json, to_data
from kernelagent.storage.run_log import LOG, RunFolder, read_events

SCHEMA = "kernelagent.cassette/1"
VOID = "void"


@dataclass(frozen=True)
class RecordedCall:
    """One call of a tool, what was written with it, and its answer of then."""

    call: ToolCall
    said: str = ""
    answer: str = ""


@dataclass(frozen=True)
class Recorded:
    """One question and its reply; all but the reply may be unknown."""

    text: str
    prompt_sha256: str | None = None
    prompt: tuple[Message, ...] | None = None
    turn: int | None = None
    model: str | None = None
    verdict: str | None = None
    """What the judge said of it when it was recorded: `accepted`, a code, or `void`."""
    calls: tuple[RecordedCall, ...] = ()
    """They are made again when it is replayed, and answered anew."""


def recording(path: str) -> tuple[Recorded, ...]:
    """A run's folder, its `events.jsonl`, or a cassette; raises `ModelError`."""
    file = Path(path) / LOG if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise ModelError(
            f"there is no recording at {path}; give a run's folder, its {LOG}, or a file of "
            f'JSON lines with "reply"'
        )
    replies = of_run(RunFolder(file.parent)) if file.name == LOG else _of_cassette(file)
    if not replies:
        raise ModelError(f"the recording {file} holds no reply")
    return replies


def of_run(folder: RunFolder) -> tuple[Recorded, ...]:
    """Every reply in a run's log, with its prompt where the run's folder still has it."""
    hashes: dict[int, str] = {}
    calls: dict[int, tuple[RecordedCall, ...]] = {}
    result: dict[int, Recorded] = {}
    for logged in read_events(folder.log):
        match logged.event:
            case TurnStarted(turn=turn, prompt_sha256=sha):
                hashes[turn] = sha
            case ToolCalled(turn=turn) as e:
                called = RecordedCall(e.call, e.said, e.answer)
                calls[turn] = (*calls.get(turn, ()), called)
            case ReplyReceived(turn=turn, text=text, model=model):
                prompt, called_first = prompt_of(folder, turn), calls.get(turn, ())
                asked = hashes.get(turn)
                result[turn] = Recorded(text, asked, prompt, turn, model, calls=called_first)
            case TurnVoid(turn=turn) if turn in result:
                result[turn] = replace(result[turn], verdict=VOID)
            case Evaluated(turn=turn, evaluation=evaluation) if turn in result:
                reason = evaluation.reason
                verdict = reason.code if reason is not None else evaluation.verdict
                result[turn] = replace(result[turn], verdict=verdict)
            case _:
                pass
    return tuple(result[turn] for turn in sorted(result))


def prompt_of(folder: RunFolder, turn: int) -> tuple[Message, ...] | None:
    """What was sent on a turn; None when the run's folder has no such prompt."""
    file = folder.path / "prompts" / f"{turn:03d}.json"
    return from_json(file.read_bytes(), tuple[Message, ...]) if file.is_file() else None


def cassette_text(replies: tuple[Recorded, ...]) -> str:
    """The JSON lines of a cassette."""
    return "".join(json.dumps(_row(reply), ensure_ascii=False) + "\n" for reply in replies)


def _row(reply: Recorded) -> dict[str, Any]:
    data = to_data(reply)
    named = {"schema": SCHEMA} | {key: data[key] for key in ("turn", "model", "verdict")}
    asked = {key: data[key] for key in ("prompt_sha256", "prompt")}
    made = {"calls": data["calls"]} if reply.calls else {}
    row = named | asked | made | {"reply": reply.text}
    return {key: value for key, value in row.items() if value is not None}


def _of_cassette(file: Path) -> tuple[Recorded, ...]:
    replies = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            replies.append(from_data(row | {"text": row["reply"]}, Recorded))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(
                f'{file}, line {number} is not a recorded reply (a JSON object with "reply"): {error}'
            ) from error
    return tuple(replies)
