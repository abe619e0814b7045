"""Checks before a turn: the real judge compiles and counts, the log has each call, and there is a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kernelagent.domain.config import RunConfig
from kernelagent.domain.events import ToolCalled, TurnStarted
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.run import optimize
from kernelagent.models import ModelQuery, Reply
from kernelagent.prompts.wording import line_for
from kernelagent.storage.cassette import recording
from kernelagent.storage.run_log import read_events
from tests.judges import JudgesHere

ROOT = Path(__file__).resolve().parents[2]


def codes() -> list[str]:
    replies = recording(str(ROOT / "tests" / "cassettes" / "softmax_scale_mask.jsonl"))
    return [reply.text.partition("```python\n")[2].rpartition("```")[0] for reply in replies]


@dataclass
class Careful:
    """Has every source checked before it answers with words alone."""

    sources: list[str]
    name: str = "careful"
    answers: list[str] = field(default_factory=list)

    def reply(self, ask: ModelQuery, on_text: Callable[[str], None]) -> Reply:
        assert ask.check is not None
        self.answers += [ask.check(source) for source in self.sources]
        return Reply("I hand in nothing.")

    def close(self) -> None:
        """Nothing to release."""


def test_writer_looks_before_it_spends_a_turn(tmp_path: Path, judges: JudgesHere) -> None:
    codes_of_turns = codes()
    broken, right = codes_of_turns[0], codes_of_turns[-1]
    model = Careful([broken, right, "def (", right])
    optimize(
        ProblemSpec(path=str(ROOT / "examples" / "softmax_scale_mask.py")),
        RunConfig(
            device="virtual",
            model=(model.name,),
            turns=1,
            tool_calls=3,
            runs=str(tmp_path / "runs"),
            out=str(tmp_path / "out.py"),
        ),
        ready={model.name: model},
        judges=judges,
    )

    failed, fine, unparsable, refused = model.answers
    assert failed.startswith("Stopped (compile_error)")
    assert "2 of 3 checks are left before turn 0" in failed
    assert "nothing was verified" in fine
    assert "Kernel `masked_softmax`: 1 launch; " in fine
    for fact in ("registers a thread", "bytes of shared memory", "occupancy", "waves", "bound by"):
        assert fact in fine
    assert "Estimate (not measured)" in fine
    assert unparsable.startswith("Stopped (syntax_error): line 1")
    assert refused == "all 3 checks before turn 0 are used; hand in a candidate"

    (log,) = (tmp_path / "runs").glob("*/events.jsonl")
    events = list(read_events(log))
    calls = [logged for logged in events if isinstance(logged.event, ToolCalled)]
    assert [logged.event.answer for logged in calls] == model.answers
    assert [logged.event.source for logged in calls] == model.sources
    assert sum(isinstance(logged.event, TurnStarted) for logged in events) == 1
    (_, checked, _, last) = (line_for(logged) for logged in calls)
    assert checked is not None
    assert checked.startswith("turn 0: check 2: 1 kernel, estimate ")
    assert last is not None
    assert "check 4 refused" in last
