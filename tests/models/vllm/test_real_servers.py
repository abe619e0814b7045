"""Whole runs with a real vLLM and a real llama.cpp; only where the environment names them."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from kernelagent.domain.events import ReplyReceived, RunFinished, ServerProgress
from kernelagent.storage.run_log import read_events
from tests.models.vllm.served import wait_for

ROOT = Path(__file__).resolve().parents[3]
TINY = os.environ.get("KERNELAGENT_TEST_VLLM")
LLAMA = os.environ.get("KERNELAGENT_TEST_LLAMA")
START_S = 600


def optimize(folder: Path, *more: str) -> list:
    """Two turns; the run's events. A random model's turns are void, so no module is found."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "kernelagent", "optimize"),
            str(ROOT / "examples" / "softmax_scale_mask.py"),
            *("--turns", "2", "--device", "virtual", "--yes", "--runs", str(folder / "runs")),
            *more,
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    (log,) = (folder / "runs").glob("*/events.jsonl")
    return [logged.event for logged in read_events(log)]


def processes_with(text: str) -> list[str]:
    result = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if text in line and entry.name != str(os.getpid()):
            result.append(line)
    return result


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.skipif(TINY is None, reason="KERNELAGENT_TEST_VLLM names no checkpoint")
def test_run_with_a_real_vllm_ends_in_good_order_and_leaves_nothing(tmp_path):
    events = optimize(tmp_path, "--model", f"vllm:{TINY}")
    phases = [item.phase for item in events if isinstance(item, ServerProgress)]
    assert (phases[0], phases[-2:]) == ("starting", ["ready", "stopped"])
    replies = [item for item in events if isinstance(item, ReplyReceived)]
    assert len(replies) == 2
    assert all(item.tokens_in > 0 and item.tokens_out > 0 and item.dollars == 0 for item in replies)
    assert isinstance(events[-1], RunFinished)
    assert processes_with("vllm.entrypoints.openai.api_server") == []


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.skipif(LLAMA is None, reason="KERNELAGENT_TEST_LLAMA names no server's command")
def test_run_with_llama_cpp_over_an_api_base_ends_in_good_order(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with socket.socket() as item:
        item.bind(("127.0.0.1", 0))
        port = item.getsockname()[1]
    command = [*shlex.split(LLAMA), "--host", "127.0.0.1", "--port", str(port)]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)

    def up() -> bool:
        try:
            url = f"http://127.0.0.1:{port}/v1/models"
            return bool(urllib.request.urlopen(url, timeout=5).read())
        except OSError:
            return False

    try:
        assert wait_for(up, START_S)
        base = f"http://127.0.0.1:{port}/v1"
        given = ("--model", "openai/smollm2", "--api-base", base, "--budget-tokens", "12000")
        events = optimize(tmp_path, *given)
    finally:
        server.kill()
        server.wait()
    assert any(isinstance(item, ReplyReceived) and item.tokens_out > 0 for item in events)
    assert isinstance(events[-1], RunFinished)
