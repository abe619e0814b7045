"""Recordings as the model: by order, by prompt, and where a prompt is another than the recorded one."""

from __future__ import annotations

import pytest

from kernelagent.domain.errors import ModelError, UsageError
from kernelagent.domain.history import History, Message, Turn, TurnRequest
from kernelagent.models import Exhausted, ModelQuery, Reply
from kernelagent.models.replay import ReplayModel
from kernelagent.prompts import prompt_hash
from kernelagent.storage.cassette import Recorded, cassette_text, recording

FIRST = (Message("system", "You write."), Message("user", "Write\none."))
SECOND = (*FIRST, Message("assistant", "a"), Message("user", "Wrong at 3.\nRepair it."))


def taped(*rows: tuple[tuple[Message, ...], str]) -> tuple[Recorded, ...]:
    return tuple(
        Recorded(text, prompt_hash(prompt), prompt, turn, "m", "accepted")
        for turn, (prompt, text) in enumerate(rows)
    )


def model(tmp_path, replies: tuple[Recorded, ...], option: str = "") -> ReplayModel:
    file = tmp_path / "tape.jsonl"
    file.write_text(cassette_text(replies), encoding="utf-8")
    return ReplayModel.from_path(f"{file}{option}")


def asked(who: ReplayModel, messages, *given: str):
    request = TurnRequest("write", who.name)
    turns = tuple(Turn(i, request, text, void="x") for i, text in enumerate(given))
    return who.reply(ModelQuery(len(given), request, messages, History(turns)), lambda _: None)


def test_cassette_says_everything_the_recording_knew(tmp_path):
    replies = taped((FIRST, "a"), (SECOND, "b"))
    file = tmp_path / "tape.jsonl"
    file.write_text(cassette_text(replies), encoding="utf-8")
    assert recording(str(file)) == replies


def test_replies_come_in_order_until_there_is_none(tmp_path):
    tape = model(tmp_path, taped((FIRST, "a"), (SECOND, "b")))
    assert asked(tape, FIRST) == Reply("a")
    assert asked(tape, SECOND, "a") == Reply("b")
    assert isinstance(asked(tape, SECOND, "a", "b"), Exhausted)


def test_place_where_a_prompt_differs_is_named(tmp_path):
    tape = model(tmp_path, taped((FIRST, "a"), (SECOND, "b")))
    now = (*SECOND[:3], Message("user", "Wrong at 4.\nRepair it."))
    assert asked(tape, now, "a").remark == (
        "the prompt of turn 1 differs from the recording: message 4 (user), line 1: 'Wrong at 4.', "
        "in the recording 'Wrong at 3.'"
    )
    assert "message 3 (assistant) of the recording is not there" in asked(tape, FIRST, "a").remark
    longer = (*FIRST, Message("assistant", "a"))
    assert "message 3 (assistant) is new" in asked(tape, longer).remark


def test_by_hash_each_reply_answers_its_own_prompt_whatever_the_order(tmp_path):
    tape = model(tmp_path, taped((FIRST, "a"), (SECOND, "b"), (FIRST, "c")), ",match=hash")
    assert asked(tape, SECOND) == Reply("b")
    assert asked(tape, FIRST, "b") == Reply("a")
    assert asked(tape, FIRST, "b", "a") == Reply("c")
    assert isinstance(asked(tape, FIRST, "b", "a", "c"), Exhausted)


def test_by_hash_a_new_prompt_is_an_error_that_shows_the_nearest(tmp_path):
    tape = model(tmp_path, taped((FIRST, "a"), (SECOND, "b")), ",match=hash")
    now = (*SECOND[:3], Message("user", "Wrong at 4.\nRepair it."))
    with pytest.raises(ModelError, match=r"line 1: 'Wrong at 4.', in the recording 'Wrong at 3.'"):
        asked(tape, now, "a")


def test_other_ways_to_match_are_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match=r"match=order\|hash"):
        model(tmp_path, taped((FIRST, "a")), ",match=taste")


def test_line_that_is_no_reply_is_named(tmp_path):
    file = tmp_path / "tape.jsonl"
    file.write_text('{"reply": "a"}\n{"answer": "b"}\n', encoding="utf-8")
    with pytest.raises(ModelError, match="line 2"):
        recording(str(file))
