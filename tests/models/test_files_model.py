"""`--model files:DIR`: prompts appear whole, replies are read once they are complete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kernelagent.domain.errors import ModelError, UsageError
from kernelagent.domain.history import History, Message, TurnRequest
from kernelagent.models import ModelQuery, NotAnswered, Reply
from kernelagent.models.files_model import FilesModel

MESSAGES = (Message("system", "You write kernels."), Message("user", "Write one."))
WHOLE = "Because.\n\n```python\nclass ModelNew: ...\n```\n"


@dataclass
class Desk:
    """A folder, a clock that only sleeping moves, and what somebody does at which second."""

    folder: Path
    happens: dict[float, Callable[[], object]] = field(default_factory=dict)
    now: float = 0.0
    stopped: bool = False

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        assert self.now < 1000, "it waits forever"
        for due in [at for at in self.happens if at <= self.now]:
            self.happens.pop(due)()

    def model(self, timeout_s: float | None = None) -> FilesModel:
        return FilesModel(
            f"files:{self.folder}",
            self.folder,
            timeout_s,
            lambda: self.stopped,
            self.clock,
            self.sleep,
        )

    def write(self, text: str, turn: int = 0) -> None:
        (self.folder / f"turn-{turn:03d}.reply.md").write_text(text, encoding="utf-8")

    def stop(self) -> None:
        self.stopped = True


def ask(turn: int = 0, messages=MESSAGES) -> ModelQuery:
    return ModelQuery(turn, TurnRequest("write", "files:x"), messages, History())


def asked(model: FilesModel, turn: int = 0, messages=MESSAGES):
    return model.reply(ask(turn, messages), lambda _: None)


def test_prompt_is_readable_and_says_where_the_reply_goes(tmp_path):
    desk = Desk(tmp_path)
    desk.happens[2.0] = lambda: desk.write(WHOLE)
    assert asked(desk.model()) == Reply(WHOLE)
    prompt = (tmp_path / "turn-000.prompt.md").read_text(encoding="utf-8")
    assert "turn-000.reply.md" in prompt
    assert "## user\n\nWrite one." in prompt
    assert {path.name for path in tmp_path.iterdir()} == {"turn-000.prompt.md", "turn-000.reply.md"}


def test_reply_that_still_grows_is_not_read(tmp_path):
    desk = Desk(tmp_path)
    for second in range(1, 9):
        desk.happens[second * 0.9] = lambda end=second: desk.write(WHOLE[: end * 4])
    desk.happens[9 * 0.9] = lambda: desk.write(WHOLE)
    assert asked(desk.model()) == Reply(WHOLE)


def test_reply_with_an_open_code_block_is_waited_for_longer(tmp_path):
    desk = Desk(tmp_path)
    desk.happens[1.0] = lambda: desk.write(WHOLE[:30])
    desk.happens[20.0] = lambda: desk.write(WHOLE)
    assert asked(desk.model()) == Reply(WHOLE)


def test_reply_that_stays_cut_off_is_read_in_the_end(tmp_path):
    desk = Desk(tmp_path)
    desk.happens[1.0] = lambda: desk.write(WHOLE[:30])
    assert asked(desk.model()) == Reply(WHOLE[:30])
    assert desk.now > 30


def test_empty_reply_is_no_reply(tmp_path):
    desk = Desk(tmp_path)
    desk.happens[1.0] = lambda: desk.write("\n")
    desk.happens[50.0] = lambda: desk.write(WHOLE)
    assert asked(desk.model()) == Reply(WHOLE)


def test_wish_to_stop_ends_the_waiting_and_no_turn_is_made_of_it(tmp_path):
    desk = Desk(tmp_path)
    desk.happens[5.0] = desk.stop
    assert isinstance(asked(desk.model()), NotAnswered)
    assert desk.now < 6


def test_nobody_there_is_an_error_only_where_a_timeout_was_asked_for(tmp_path):
    with pytest.raises(ModelError, match="within 60 s; write it, then go on with"):
        asked(Desk(tmp_path).model(timeout_s=60))


def test_reply_written_while_the_run_was_down_is_taken(tmp_path):
    first = Desk(tmp_path)
    first.happens[1.0] = first.stop
    asked(first.model())
    first.write(WHOLE)
    assert asked(Desk(tmp_path).model()) == Reply(WHOLE)


def test_reply_to_another_prompt_is_put_aside_and_that_is_said(tmp_path):
    desk = Desk(tmp_path)
    desk.write("an old answer")
    desk.happens[2.0] = lambda: desk.write(WHOLE)
    result = asked(desk.model())
    assert result.text == WHOLE
    assert "put aside as turn-000.stale.md" in result.remark
    assert (tmp_path / "turn-000.stale.md").read_text(encoding="utf-8") == "an old answer"


def test_used_replies_do_not_answer_the_next_run(tmp_path):
    desk = Desk(tmp_path)
    desk.happens[1.0] = lambda: desk.write(WHOLE)
    model = desk.model()
    asked(model)
    model.close()
    assert not (tmp_path / "turn-000.reply.md").exists()
    assert (tmp_path / "turn-000.answered.md").read_text(encoding="utf-8") == WHOLE


def test_option_that_does_not_exist_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match="timeout=SECONDS"):
        FilesModel.from_spec(f"{tmp_path},patience=3", lambda: False)
    assert FilesModel.from_spec(f"{tmp_path},timeout=3", lambda: False).timeout_s == 3
