from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import DeviceFacts, Evaluation, Interval, Timing
from kernelagent.domain.events import (
    BestChanged,
    Evaluated,
    Event,
    ModuleEmitted,
    ProblemDescribed,
    ReplyReceived,
    RunStarted,
    TurnStarted,
    TurnVoid,
)
from kernelagent.domain.history import TurnRequest
from kernelagent.domain.problem import ProblemSpec
from kernelagent.storage.git_history import GitLog, harmless, hypothesis
from kernelagent.storage.run_log import EventLog, RunFolder, read_events
from tests.evaluations import DEVICE, FACTS, accepted, rejected, reply_with


def turn(index: int, parent: int | None, evaluation: Evaluation | None) -> list[Event]:
    request = TurnRequest("write" if parent is None else "optimise", "scripted", parent)
    events: list[Event] = [
        TurnStarted(index, request, "0" * 64),
        ReplyReceived(index, "scripted", reply_with(index)),
    ]
    if evaluation is None:
        return [*events, TurnVoid(index, "no code")]
    source = f"class ModelNew:\n    number = {index}\n"
    done = Evaluated(index, Candidate(source).id, source, evaluation, 0.5, "fine")
    return [*events, done]


STORY: list[Event] = [
    RunStarted("toy-run", ProblemSpec(path="toy.py"), {}, {}),
    ProblemDescribed(FACTS, DEVICE, "none"),
    *turn(0, None, rejected()),
    *turn(1, 0, accepted(1.2)),
    BestChanged(1, 1.2),
    *turn(2, 1, None),
    *turn(3, 2, accepted(1.5)),
    BestChanged(3, 1.5),
    *turn(4, 1, accepted(1.4)),
    *turn(5, None, accepted(1.5)),
    ModuleEmitted(3, "out.py", "0" * 64),
]


def folder_in(place: Path) -> RunFolder:
    return RunFolder.create(place / ".kernelagent" / "runs", "toy", now=0.0)


def told(folder: RunFolder, events: list[Event]) -> GitLog:
    """A repository kept while the events happen."""
    ticks = iter(range(1_700_000_000, 1_800_000_000))
    log = EventLog(folder, clock=lambda: float(next(ticks)))
    git = GitLog(folder)
    log.subscribe(git)
    for event in events:
        log.publish(event)
    log.close()
    return git


def git(folder: RunFolder, *words: str, env: dict[str, str] | None = None) -> str:
    command = ["git", "-C", str(folder.path), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **(env or {})}
    )
    assert done.stderr == ""
    return done.stdout


def refs(folder: RunFolder) -> str:
    return git(folder, "for-each-ref", "--format=%(refname) %(objectname)")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return folder_in(tmp_path)


def test_the_graph_tells_the_story(folder: RunFolder) -> None:
    told(folder, STORY)
    shown = git(folder, "log", "--graph", "--all", "--oneline", "--decorate")
    lines = [line for line in shown.splitlines() if "turn " in line]
    assert [line.partition("turn ")[2][0] for line in lines] == ["5", "4", "3", "1", "0"]
    assert "|/" in shown, "turns 3 and 4 both stem from turn 1"
    assert "rejected (wrong_output): the last 3 columns are wrong" in shown
    assert "tag: best" in lines[2]
    assert "tag: emitted" in lines[2]
    assert "tag: turn-4" in lines[1]


def test_a_commit_stems_from_what_it_refined_past_void_turns(folder: RunFolder) -> None:
    told(folder, STORY)
    of = {n: git(folder, "rev-parse", f"turn-{n}").strip() for n in (0, 1, 3, 4, 5)}
    parents = {n: git(folder, "log", "-1", "--format=%P", f"turn-{n}").strip() for n in of}
    assert parents == {0: "", 1: of[0], 3: of[1], 4: of[1], 5: ""}
    assert "turn-2" not in refs(folder)


def test_an_estimate_is_never_called_a_speedup(folder: RunFolder) -> None:
    told(folder, STORY)
    subject, _, body = git(folder, "log", "-1", "--format=%B", "turn-1").partition("\n")
    assert "not timed; estimate 8.3 µs, eager 10.0 µs" in subject
    assert "×" not in subject + body
    assert "speedup" not in subject + body


def test_a_measured_speedup_stands_with_its_interval(folder: RunFolder) -> None:
    timing = Timing(10.0, 15.0, Interval(1.5, 1.45, 1.55))
    cuda = DeviceFacts("cuda", "H200", "sm_90", "2.13.0", "3.9.0")
    told(folder, turn(0, None, Evaluation("accepted", cuda, timing=timing)))
    assert "1.50× eager [1.45, 1.55] on H200" in git(folder, "log", "-1", "--format=%s")


def test_the_message_holds_hypothesis_and_reason(folder: RunFolder) -> None:
    told(folder, STORY)
    message = git(folder, "log", "-1", "--format=%B", "turn-0")
    assert "Hypothesis 0." in message
    assert "wrong_output: the last 3 columns are wrong" in message
    assert "Model: scripted" in message


def test_a_commit_holds_the_candidate_and_its_verdict(folder: RunFolder) -> None:
    told(folder, STORY)
    assert git(folder, "show", "best:candidate.py") == "class ModelNew:\n    number = 3\n"
    assert '"label": "estimate"' in git(folder, "show", "best:evaluation.json")
    assert "+    number = 3" in git(folder, "diff", "turn-1", "turn-3")
    assert git(folder, "fsck", "--strict", "--no-dangling", "--no-progress") == ""


def test_the_same_events_give_the_same_hashes(tmp_path: Path) -> None:
    item, other = folder_in(tmp_path / "a"), folder_in(tmp_path / "b")
    told(item, STORY)
    told(other, STORY)
    assert refs(item) == refs(other)


def test_built_from_scratch_it_is_the_same_repository(folder: RunFolder) -> None:
    kept = told(folder, STORY)
    wanted = refs(folder)
    (folder.path / ".git" / "refs" / "tags" / "best").write_text("0" * 40)
    kept.rebuild(read_events(folder.log))
    assert refs(folder) == wanted


@pytest.mark.parametrize("cut", range(0, len(STORY), 2))
def test_a_resumed_run_goes_on_with_its_repository(tmp_path: Path, cut: int) -> None:
    whole, resumed = folder_in(tmp_path / "a"), folder_in(tmp_path / "b")
    told(whole, STORY)
    lines = whole.log.read_bytes().splitlines(keepends=True)
    log = EventLog(resumed)
    git_log = GitLog(resumed)
    for logged in list(read_events(whole.log))[: cut // 2]:
        git_log(logged)
    log.close()
    # Killed: the log is ahead of the repository, and a tag was being moved.
    resumed.log.write_bytes(b"".join(lines[:cut]))
    (resumed.path / ".git" / "refs" / "tags" / "best.lock").touch()
    again = GitLog(resumed)
    for logged in read_events(whole.log):
        again(logged)
    assert again.fault is None
    assert refs(resumed) == refs(whole)
    assert git(resumed, "rev-list", "--all") == git(whole, "rev-list", "--all")


def test_nothing_of_the_users_git_takes_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = folder_in(tmp_path / "a")
    told(plain, STORY)
    home = tmp_path / "home"
    (home / "hooks").mkdir(parents=True)
    hook = home / "hooks" / "reference-transaction"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n[core]\n\thooksPath = {hook.parent}\n"
        "[i18n]\n\tcommitEncoding = latin-1\n[user]\n\tuseConfigOnly = true\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
    own = folder_in(tmp_path / "b")
    assert told(own, STORY).fault is None
    monkeypatch.delenv("GIT_DIR")
    assert refs(own) == refs(plain)
    assert git(own, "log", "-1", "--format=%an %cn %at", "turn-0").startswith(
        "kernelagent kernelagent 17000000"
    )
    assert not (tmp_path / "elsewhere").exists()


def test_a_run_inside_a_repository_leaves_that_one_alone(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    told(folder_in(tmp_path), STORY)
    command = ["git", "-C", str(tmp_path), "for-each-ref"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b""


def test_somebodys_own_repository_in_the_folder_is_not_touched(folder: RunFolder) -> None:
    subprocess.run(["git", "init", "-q", str(folder.path)], check=True)
    kept = told(folder, STORY)
    assert "not the run's" in (kept.fault or "")
    kept.rebuild(read_events(folder.log))
    assert refs(folder) == ""
    assert (folder.path / ".git" / "description").exists()


@pytest.mark.long
def test_without_git_the_run_goes_on_and_says_so(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.storage.test_git_history import STORY, folder_in, told\n"
        "from kernelagent.storage.run_log import read_events\n"
        "folder = folder_in(Path(sys.argv[1])); kept = told(folder, STORY)\n"
        "assert len(list(read_events(folder.log))) == len(STORY)\n"
        "print(kept.fault)\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    root = str(Path(__file__).parents[2])
    env = {"PATH": str(tmp_path), "PYTHONPATH": root, "HOME": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the run's git history is not kept: the program git was not found\n"


def test_a_folder_that_cannot_be_written_is_said_and_not_raised(folder: RunFolder) -> None:
    kept = GitLog(folder)
    objects = folder.path / ".git" / "objects"
    objects.rmdir()
    objects.write_text("in the way")
    log = EventLog(folder)
    log.subscribe(kept)
    for event in STORY:
        log.publish(event)
    log.close()
    assert "git history is not kept" in (kept.fault or "")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("One pass.\nTwo lines.\n\nMore.\n```python\nx\n```", "One pass.\nTwo lines."),
        ("<think>long\n\n```\nno\n```</think>\n\nShort.\n\n```py\nx\n```", "Short."),
        ("```python\nx\n```\nafterwards", ""),
        ("class ModelNew: ...", ""),
        ("Clear\x1b[2J the screen\n```\nx\n```", "Clear[2J the screen"),
    ],
    ids=["paragraph", "thinking", "code first", "no fence", "escape"],
)
def test_the_hypothesis_is_the_first_paragraph_before_the_code(reply: str, said: str) -> None:
    assert hypothesis(reply) == said


def test_line_ends_and_tabs_are_harmless() -> None:
    assert harmless("a\tb\nc\x9b\x07") == "a\tb\nc"
