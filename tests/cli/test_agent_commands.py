"""`prompt` and `record`, and a whole run whose replies are written into a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelagent.cli.commands import agents as commands_agents
from kernelagent.domain.errors import UsageError
from kernelagent.domain.events import ReplyReceived, TurnStarted, TurnVoid
from kernelagent.domain.history import Message, TurnRequest
from kernelagent.prompts import prompt_hash, prompts_version
from kernelagent.storage.cassette import of_run, recording
from kernelagent.storage.run_log import EventLog, RunFolder

ROOT = Path(__file__).resolve().parents[2]
PROBLEM = ROOT / "examples" / "layer_norm_gelu.py"
CASSETTE = ROOT / "tests" / "cassettes" / "layer_norm_gelu.jsonl"
MESSAGES = (Message("system", "You write."), Message("user", "Write one."))
PATIENCE_S = 400.0


@pytest.fixture
def run(tmp_path) -> RunFolder:
    """A run of one turn whose reply held no code."""
    folder = RunFolder.create(tmp_path / "runs", "toy", now=0.0)
    folder.keep_prompt(0, MESSAGES)
    log = EventLog(folder, lambda: 0.0)
    asked = prompt_hash(MESSAGES)
    log.publish(TurnStarted(0, TurnRequest("write", "m"), asked, prompts_version()))
    log.publish(ReplyReceived(0, "m", "I would rather not."))
    log.publish(TurnVoid(0, "no code in it"))
    log.close()
    return folder


def command(*words: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kernelagent", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_recorded_run_is_a_cassette_with_prompt_and_verdict(run, tmp_path, capsys):
    file = tmp_path / "tape.jsonl"
    commands_agents.record(str(run.path), file, None, force=False)
    assert "1 replies written" in capsys.readouterr().out
    (reply,) = recording(str(file))
    assert reply == of_run(run)[0]
    assert (reply.prompt, reply.verdict) == (MESSAGES, "void")
    with pytest.raises(UsageError, match="--force"):
        commands_agents.record(str(run.path), file, None, force=False)


def test_prompt_of_a_turn_is_printed_as_it_was_sent(run, capsys):
    commands_agents.prompt_sent(str(run.path), 0, None, as_json=True)
    sent = [Message(**row) for row in json.loads(capsys.readouterr().out)]
    assert prompt_hash(sent) == prompt_hash(MESSAGES)
    commands_agents.prompt_sent(str(run.path), 0, None, as_json=False)
    assert "## user\n\nWrite one." in capsys.readouterr().out
    with pytest.raises(UsageError, match="no prompt of turn 3"):
        commands_agents.prompt_sent(str(run.path), 3, None, as_json=False)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_whole_run_through_files_is_sent_what_prompt_says(tmp_path):
    replies = [reply.text for reply in recording(str(CASSETTE))]
    replies = [replies[0], replies[-1]]
    going = command(
        *("optimize", str(PROBLEM), "--model", "files:desk", "--turns", "2"),
        *("--device", "virtual"),
        folder=tmp_path,
    )
    end = time.monotonic() + PATIENCE_S
    for turn, text in enumerate(replies):
        prompt = tmp_path / "desk" / f"turn-{turn:03d}.prompt.md"
        while not prompt.exists():
            assert going.poll() is None, going.communicate()
            assert time.monotonic() < end
            time.sleep(0.1)
        fresh = tmp_path / "desk" / "fresh"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(prompt.with_name(f"turn-{turn:03d}.reply.md"))
    out, err = going.communicate(timeout=PATIENCE_S)
    assert going.returncode == 0, err
    assert "verified, not timed: layer_norm_gelu_optimized.py" in out

    (run,) = (tmp_path / ".kernelagent" / "runs").iterdir()
    assert [reply.verdict for reply in of_run(RunFolder(run))] == ["compile_error", "accepted"]
    reported = command(
        *("prompt", str(PROBLEM), "--model", "files:desk", "--device", "virtual", "--json"),
        folder=tmp_path,
    )
    printed, _ = reported.communicate(timeout=PATIENCE_S)
    first = [Message(**row) for row in json.loads(printed)]
    assert prompt_hash(first) == of_run(RunFolder(run))[0].prompt_sha256
