from __future__ import annotations

import io
import json
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from kernelagent.cli.schemas import schemas
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.events import (
    Evaluated,
    Event,
    ModuleEmitted,
    ProblemDescribed,
    Remarked,
    ReplyReceived,
    RunFinished,
    RunResumed,
    RunStarted,
    Steered,
    TurnStarted,
    TurnVoid,
    WinnerMeasured,
)
from kernelagent.domain.history import TurnRequest
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import to_data, to_json
from kernelagent.report.terminal.browse import (
    QUIET_S,
    RunRow,
    RunsView,
    all_runs,
    contents_of,
    diff_view,
    prunable,
    prune,
    row_of,
    run_view,
    turn_view,
)
from kernelagent.report.terminal.browse_text import (
    print_diff,
    print_run,
    print_turn,
    runs_table,
    size_text,
    turn_tree,
)
from kernelagent.storage.run_log import EventLog, RunFolder, read_events
from kernelagent.storage.run_state import fold
from tests.evaluations import DEVICE, FACTS, accepted, rejected, reply_with


def turn(index: int, parent: int | None, evaluation: Evaluation | None) -> list[Event]:
    request = TurnRequest("write" if parent is None else "optimise", "scripted", parent, (0,))
    reply = ReplyReceived(index, "scripted", reply_with(index), 10, 5, None)
    events: list[Event] = [TurnStarted(index, request, "0" * 64), reply]
    if evaluation is None:
        return [*events, TurnVoid(index, "no code")]
    source = f"class ModelNew:\n    number = {index}\n    same = 1\n"
    done = Evaluated(index, Candidate(source).id, source, evaluation, 0.5, "do better")
    return [*events, done]


HEAD: list[Event] = [
    RunStarted("toy", ProblemSpec(path="toy.py"), {"model": ["scripted"], "strategy": "tree"}, {}),
    ProblemDescribed(FACTS, DEVICE, "landlock"),
]
STORY: list[Event] = [
    *HEAD,
    *turn(0, None, rejected()),
    *turn(1, 0, accepted(1.2)),
    *turn(2, 1, None),
    *turn(3, 1, accepted(1.5)),
    Remarked("warning", "a warning"),
]
END: list[Event] = [
    WinnerMeasured(3, accepted(1.4)),
    ModuleEmitted(3, "toy_optimized.py", "0" * 64),
    RunFinished("better", 0, "the budget of 4 turns is spent", 3),
]


def written(runs: Path, events: list[Event], stem: str = "toy", began: float = 1000.0) -> RunFolder:
    folder = RunFolder.create(runs, stem, now=0.0)
    ticks = iter(range(10_000))
    log = EventLog(folder, clock=lambda: began + next(ticks))
    for event in events:
        log.publish(event)
    log.close()
    return folder


def shown(show: object, view: object, width: int = 120) -> str:
    out = io.StringIO()
    show(Console(file=out, width=width), view)  # type: ignore[operator]
    return out.getvalue()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_a_finished_run_shows_the_number_measured_again(runs: Path) -> None:
    best = row_of(written(runs, [*STORY, *END])).best
    assert best is not None
    assert best.certified
    assert best.turn == 3
    assert best.estimate is not None
    assert best.estimate.ratio == 1.4
    assert "estimate" in best.text
    assert "×" not in best.text


def test_an_unfinished_run_shows_its_best_as_not_confirmed(runs: Path) -> None:
    row = row_of(written(runs, STORY))
    assert (row.outcome, row.turns, row.accepted) == ("killed", 4, 2)
    assert row.best is not None
    assert not row.best.certified
    assert row.best.estimate is not None
    assert row.best.estimate.ratio == 1.5
    out = io.StringIO()
    Console(file=out, width=200).print(runs_table([row]))
    assert "not confirmed" in out.getvalue()
    assert "tree" in out.getvalue()


def test_a_run_that_was_killed_after_it_was_gone_on_with_is_killed(runs: Path) -> None:
    interrupted = RunFinished("interrupted", 130, "stopped by the user")
    assert row_of(written(runs, [*STORY, interrupted])).outcome == "interrupted"
    assert row_of(written(runs, [*STORY, interrupted, *turn(4, 3, None)])).outcome == "killed"


def test_a_run_that_goes_on_one_that_is_paused_and_one_that_was_killed_are_told_apart(
    runs: Path,
) -> None:
    folder = RunFolder.create(runs, "toy", now=0.0)
    log = EventLog(folder)
    for event in STORY:
        log.publish(event)
    row = row_of(folder)
    assert (row.outcome, row.why) == ("running", "working")
    log.publish(Steered("1", "pause"))
    row = row_of(folder)
    assert row.outcome == "paused"
    assert row.why == f"`kernelagent steer {folder.id} resume` goes on with it"
    log.close()
    row = run_view(folder).row
    assert row.outcome == "killed"
    assert "it was killed while it was paused; `kernelagent optimize --resume" in row.why
    log = EventLog(folder)
    log.publish(RunResumed())
    assert row_of(folder).outcome == "running"
    log.publish(RunFinished("none", 1, "nothing was faster"))
    assert row_of(folder).outcome == "none"
    log.close()


def test_runs_are_listed_oldest_first_and_the_unreadable_say_so(runs: Path) -> None:
    late = written(runs, STORY, "late", began=9e9)
    early = written(runs, STORY, "early", began=1.0)
    broken = written(runs, STORY, "broken")
    data = broken.log.read_bytes()
    broken.log.write_bytes(data[:50] + b"\xff\n" + data)
    strange = RunFolder.create(runs, "strange", now=0.0)
    strange.log.write_bytes(late.log.read_bytes().splitlines(keepends=True)[4])
    rows = all_runs(runs)
    readable = [Path(row.folder).name for row in rows if row.outcome != "unreadable"]
    assert readable == [early.id, late.id]
    bad = {row.run: row.why for row in rows if row.outcome == "unreadable"}
    assert "line 1" in bad[broken.id]
    assert "without having begun" in bad[strange.id]
    assert prunable(rows, now=1e12) == ()


def test_a_folder_without_runs_is_an_empty_table(tmp_path: Path) -> None:
    assert all_runs(tmp_path / "nothing") == ()


def test_reading_leaves_a_log_that_is_being_written_as_it_is(runs: Path) -> None:
    folder = written(runs, STORY)
    torn = folder.log.read_bytes()[:-20]
    folder.log.write_bytes(torn)
    reported = contents_of(folder.log)
    view = run_view(folder)
    all_runs(runs)
    turn_view(folder, 1)
    diff_view(folder, 0, 1)
    assert folder.log.read_bytes() == torn
    assert reported.torn
    assert view.torn
    assert view.remarks == ()
    assert "not whole" in shown(print_run, view)
    # The writer of the run cuts it off; both read the same.
    assert reported.events == tuple(read_events(folder.log))


def test_the_state_read_is_the_fold_of_the_log(runs: Path) -> None:
    folder = written(runs, [*STORY, *END])
    assert contents_of(folder.log).state == fold(read_events(folder.log))


def test_a_run_is_shown_with_its_tree_spend_and_best(runs: Path) -> None:
    text = shown(print_run, run_view(written(runs, [*STORY, *END])), 200)
    assert "problem   toy.py" in text
    assert "outcome   better: the budget of 4 turns is spent" in text
    assert "4 turns, 60 tokens" in text
    assert "60 tokens without a known price" in text
    assert "sandbox: landlock" in text
    assert "note: a warning" in text
    assert "0 ✗ write, scripted: rejected (wrong_output): the last 3 columns are wrong" in text
    assert "2 ∅ optimise from 1, scripted: no code" in text
    last = next(line for line in text.splitlines() if "3 ✓" in line)
    assert last.endswith("[best] [emitted]")


def test_a_narrow_terminal_wraps_the_tree_and_loses_nothing(runs: Path) -> None:
    view = run_view(written(runs, [*STORY, *END]))
    words = shown(print_run, view, 40).replace("│", " ").split()
    assert "columns" in words
    assert words.count("[emitted]") == 1


def test_a_chain_stays_in_one_column_and_a_branch_is_indented(runs: Path) -> None:
    chain = [*HEAD, *turn(0, None, rejected())]
    for index in range(1, 30):
        chain += turn(index, index - 1, accepted(1.1))
    chain += [*turn(30, 29, rejected()), *turn(31, 29, rejected())]
    out = io.StringIO()
    Console(file=out, width=400).print(turn_tree(run_view(written(runs, chain)).turns))
    lines = out.getvalue().splitlines()[1:]
    assert [len(line) - len(line.lstrip("│ ├└─")) for line in lines] == [4] * 30 + [8, 8]
    assert [line.lstrip("│ ├└─").split()[0] for line in lines] == [str(n) for n in range(32)]


def test_a_turn_is_shown_with_evidence_feedback_and_code(runs: Path) -> None:
    folder = written(runs, [*STORY, *END])
    text = shown(print_turn, turn_view(folder, 3))
    assert "hypothesis: Hypothesis 3." in text
    assert "number: not timed; estimate 6.7 µs" in text
    assert "price unknown" in text
    assert "norm" in text
    assert "90%" in text
    assert "do better" in text
    assert text.rstrip().endswith("class ModelNew:\n    number = 3\n    same = 1")
    refused = shown(print_turn, turn_view(folder, 0))
    assert "wrong_output: the last 3 columns are wrong" in refused
    assert "number:" not in refused


def test_a_void_and_a_pending_turn_are_shown_for_what_they_are(runs: Path) -> None:
    folder = written(runs, [*STORY, *turn(4, 3, accepted(1.0))[:1]])
    assert turn_view(folder, 2).row.verdict == "void"
    waiting = turn_view(folder, 4)
    assert (waiting.row.verdict, waiting.code) == ("pending", None)
    assert "the model is being asked" in shown(print_turn, waiting)


def test_what_a_model_wrote_cannot_steer_the_terminal(runs: Path) -> None:
    source = "class ModelNew:\n    x = '[red]\x1b[2J'\n"
    done = Evaluated(0, Candidate(source).id, source, rejected(), 0.0, "see \x1b]0;title\x07 [b]")
    folder = written(runs, [*HEAD, *turn(0, None, rejected())[:2], done])
    text = shown(print_turn, turn_view(folder, 0))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "x = '[red][2J'" in text


def test_the_diff_of_two_turns_has_both_verdicts(runs: Path) -> None:
    folder = written(runs, [*STORY, *END])
    text = shown(print_diff, diff_view(folder, 1, 3))
    assert "--- turn 1\n+++ turn 3\n" in text
    assert "-    number = 1\n+    number = 3\n     same = 1" in text
    assert "estimate 8.3 µs" in text
    assert "estimate 6.7 µs" in text
    assert "the same text" in shown(print_diff, diff_view(folder, 1, 1))


@pytest.mark.parametrize(("turns", "said"), [((1, 9), "no turn 9"), ((1, 2), "no code")])
def test_a_diff_without_two_candidates_says_why(
    runs: Path, turns: tuple[int, int], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        diff_view(written(runs, STORY), *turns)


@pytest.mark.long
def test_every_view_is_json_of_the_shipped_schema(runs: Path) -> None:
    folder = written(runs, [*STORY, *END])
    views = {
        "runs": RunsView(all_runs(runs)),
        "show": run_view(folder),
        "show_turn": turn_view(folder, 3),
        "diff": diff_view(folder, 0, 1),
    }
    for name, view in views.items():
        result = json.loads(to_json(to_data(view)))
        jsonschema.validate(result, schemas()[f"{name}.json"])
        assert result["schema"] == f"kernelagent.{name}/1"
    data = json.loads(to_json(to_data(all_runs(runs)[0])))
    assert data["best"]["timing"] is None
    assert data["best"]["estimate"]["label"] == "estimate"


FAILED = RunFinished("failed", 3, "no device")


def test_only_runs_with_nothing_to_keep_are_pruned(runs: Path) -> None:
    written(runs, [*STORY, FAILED], "won")
    written(runs, [*HEAD, RunFinished("none", 1, "nothing")], "none")
    lost = written(runs, [*HEAD, FAILED], "lost")
    killed = written(runs, HEAD, "killed", began=1000.0)
    going = written(runs, HEAD, "going", began=1000.0 + QUIET_S)
    listed = prunable(all_runs(runs), now=2000.0 + QUIET_S)
    assert {Path(row.folder).name for row in listed} == {lost.id, killed.id}
    asked: list[int] = []

    def refuse(rows: object) -> bool:
        asked.append(len(rows))  # type: ignore[arg-type]
        return False

    assert prune(listed, refuse) == ()
    assert asked == [2]
    assert lost.path.exists()
    assert len(prune(listed, refuse, yes=True)) == 2
    assert asked == [2]
    assert not lost.path.exists()
    assert going.path.exists()
    assert len(all_runs(runs)) == 3


def test_nobody_is_asked_when_there_is_nothing_to_prune() -> None:
    def confirm(_: object) -> bool:
        raise AssertionError

    assert prune((), confirm) == ()


def test_a_run_that_went_on_meanwhile_is_not_deleted(runs: Path) -> None:
    folder = written(runs, [*HEAD, FAILED])
    listed = prunable(all_runs(runs))

    def resumed(rows: tuple[RunRow, ...]) -> bool:
        log = EventLog(folder)
        log.publish(Remarked("info", "resumed"))
        log.close()
        return len(rows) == 1

    assert prune(listed, resumed) == ()
    assert folder.log.exists()


@pytest.mark.parametrize(
    ("size", "said"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5120.0 GiB")]
)
def test_sizes_are_said_in_a_fitting_unit(size: int, said: str) -> None:
    assert size_text(size) == said


def test_the_best_turn_is_the_one_that_was_emitted_wherever_it_is_named(runs: Path) -> None:
    end = [
        WinnerMeasured(1, accepted(1.6)),
        ModuleEmitted(1, "toy_optimized.py", "0" * 64),
        RunFinished("better", 0, "the budget of 4 turns is spent", 1),
    ]
    view = run_view(written(runs, [*STORY, *end]))
    assert view.row.best is not None
    assert view.row.best.turn == 1
    assert [turn.turn for turn in view.turns if turn.best] == [1]
    assert [turn.turn for turn in view.turns if turn.emitted] == [1]


def test_a_run_is_listed_with_the_class_that_was_asked_for(runs: Path) -> None:
    model = ProblemSpec(path="own.py", module="Net")
    part = ProblemSpec(bundle="b", module="head", submodule="head", whole=model)
    named = [
        run_view(written(runs, [RunStarted("x", problem, {}, {})], stem)).row.problem
        for stem, problem in (("a", model), ("b", part))
    ]
    assert named == ["own.py: class Net", "head of own.py: class Net"]
