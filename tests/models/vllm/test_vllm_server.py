"""A server process of our own: it is waited for, says why it failed, and never stays behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from kernelagent.domain.configuration.model_options import VllmOptions
from kernelagent.domain.errors import ModelError, UsageError
from kernelagent.models.vllm import server as vllm_server
from kernelagent.models.vllm.options import command_for, environment_for, require_vllm
from kernelagent.models.vllm.server import VllmServer
from tests.models.vllm.served import KEY, asked_of, checkpoint, environment, pids_of, runs, wait_for

ROOT = Path(__file__).resolve().parents[3]


def server(folder: Path, *, sleeps: bool = False, **options) -> VllmServer:
    return VllmServer(
        str(folder),
        KEY,
        folder / "server.log",
        VllmOptions(**options),
        sleeps=sleeps,
        environment=environment(OPENAI_API_KEY="planted"),
    )


@pytest.fixture
def started(tmp_path):
    item = server(checkpoint(tmp_path / "tiny"), sleeps=True)
    item.start(lambda _: None)
    yield item
    item.close()


def test_server_is_ready_once_it_answers_and_its_key_opens_it(started):
    request = urllib.request.Request(
        f"{started.url}/models", headers={"Authorization": f"Bearer {KEY}"}
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        assert json.load(response)["data"][0]["id"] == "tiny"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{started.url}/models", timeout=30)


@pytest.mark.long
def test_start_waits_until_the_server_says_it_is_healthy(tmp_path):
    item = server(checkpoint(tmp_path / "tiny", starts_after_s=1.0))
    try:
        assert item.start(lambda _: None) >= 1.0
    finally:
        item.close()


def test_key_stands_neither_on_the_command_line_nor_with_the_users_other_keys(started, tmp_path):
    pid = pids_of(tmp_path / "tiny")["server"]
    assert KEY.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    own = Path(f"/proc/{pid}/environ").read_bytes()
    assert f"VLLM_API_KEY={KEY}".encode() in own
    assert b"planted" not in own


def test_closing_ends_the_server_its_workers_and_what_left_its_session(started, tmp_path):
    pids = pids_of(tmp_path / "tiny")
    assert all(runs(pid) for pid in pids.values())
    started.close()
    assert {name: runs(pid) for name, pid in pids.items()} == dict.fromkeys(pids, False)


def test_closing_twice_or_before_a_start_is_no_error(tmp_path):
    item = server(checkpoint(tmp_path / "tiny"))
    item.close()
    item.start(lambda _: None)
    item.close()
    item.close()


CONDUCTOR = """
import sys, time
from pathlib import Path
from kernelagent.domain.configuration.model_options import VllmOptions
from kernelagent.models.vllm.server import VllmServer

folder = Path(sys.argv[1])
server = VllmServer(str(folder), "k", folder / "server.log", VllmOptions())
server.start(lambda _: None)
(folder / "ready").write_text("")
time.sleep(600)
"""


@pytest.mark.long
def test_server_dies_when_the_conductor_is_killed_with_sigkill(tmp_path):
    folder = checkpoint(tmp_path / "tiny")
    serving = environment()["PYTHONPATH"]
    controller = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CONDUCTOR), str(folder)],
        env={**os.environ, "PYTHONPATH": f"{serving}:{ROOT}"},
    )
    try:
        assert wait_for(lambda: (folder / "ready").exists())
        pids = pids_of(folder)
    finally:
        controller.send_signal(signal.SIGKILL)
        controller.wait()
    assert wait_for(lambda: not any(runs(pid) for pid in pids.values()))


def test_server_dies_when_its_guardian_is_killed_with_sigkill(started, tmp_path):
    pid = pids_of(tmp_path / "tiny")["server"]
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    os.kill(int(stat[1]), signal.SIGKILL)
    assert wait_for(lambda: not runs(pid))
    assert wait_for(lambda: not started.alive)
    for left in pids_of(tmp_path / "tiny").values():
        if runs(left):
            os.kill(left, signal.SIGKILL)


def test_failed_start_shows_the_last_lines_of_the_log_without_the_key(tmp_path):
    item = server(checkpoint(tmp_path / "tiny", fails="no such checkpoint: config.json is missing"))
    with pytest.raises(ModelError, match=r"config\.json is missing") as raised:
        item.start(lambda _: None)
    assert "exit status 1" in str(raised.value)
    assert "server.log" in str(raised.value)
    assert "loading with key ***" in str(raised.value)
    assert KEY not in str(raised.value)
    assert not item.alive


@pytest.mark.long
def test_start_that_takes_too_long_is_ended_and_says_which_limit_it_was(tmp_path):
    folder = checkpoint(tmp_path / "tiny", starts_after_s=600)
    item = server(folder, start_minutes=0.05)
    with pytest.raises(ModelError, match="start_minutes"):
        item.start(lambda _: None)
    assert not (folder / "pids.json").exists() or not any(map(runs, pids_of(folder).values()))


@pytest.mark.long
def test_slow_start_tells_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(vllm_server, "_TELL_S", 0.2)
    item = server(checkpoint(tmp_path / "tiny", starts_after_s=2.0))
    reported = []
    try:
        item.start(reported.append)
    finally:
        item.close()
    assert reported
    assert all(0 < waiting.seconds < 60 for waiting in reported)


@pytest.mark.long
def test_port_that_somebody_took_meanwhile_is_replaced_by_another(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = [taken.getsockname()[1]]
        free = vllm_server.free_port
        monkeypatch.setattr(vllm_server, "free_port", lambda: ports.pop() if ports else free())
        item = server(checkpoint(tmp_path / "tiny"))
        try:
            item.start(lambda _: None)
            assert f":{taken.getsockname()[1]}/" not in item.url
        finally:
            item.close()


def test_sleep_and_wake_are_spoken_as_vllm_has_them(started, tmp_path):
    started.sleep()
    started.wake()
    assert asked_of(tmp_path / "tiny") == ["sleep", "wake_up"]


def test_server_without_sleep_mode_refuses_to_sleep_with_its_status(tmp_path):
    item = server(checkpoint(tmp_path / "tiny"))
    try:
        item.start(lambda _: None)
        with pytest.raises(ModelError, match=r"refused /sleep.* status 404"):
            item.sleep()
    finally:
        item.close()


def test_missing_vllm_is_said_with_the_line_that_installs_it(tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', encoding="utf-8")
    bare.chmod(0o755)
    with pytest.raises(ModelError, match=r"-m pip install vllm.*KERNELAGENT_VLLM_PYTHON"):
        require_vllm(VllmOptions(python=str(bare)), {"PATH": os.environ["PATH"]})


def test_interpreter_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"nowhere/python.*KERNELAGENT_VLLM_PYTHON"):
        require_vllm(VllmOptions(python=str(tmp_path / "nowhere" / "python")), {})


def test_environment_chooses_interpreter_and_adds_arguments():
    chosen = VllmOptions(python="/a", args=("--dtype", "half")).with_environment(
        {"KERNELAGENT_VLLM_PYTHON": "/b", "KERNELAGENT_VLLM_ARGS": "--chat-template 'x y'"}
    )
    assert chosen.interpreter == "/b"
    assert chosen.args == ("--dtype", "half", "--chat-template", "x y")
    assert VllmOptions().with_environment({}).interpreter == sys.executable


def test_arguments_of_the_user_come_last_so_that_they_win():
    options = VllmOptions(args=("--gpu-memory-utilization", "0.5"), gpu_memory_utilization=0.7)
    words = command_for("/models/mine", "mine", 4242, options, sleeps=True)
    assert words[:3] == [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    assert words[-2:] == ["--gpu-memory-utilization", "0.5"]
    assert "--enable-sleep-mode" in words
    assert "0.700" in words


def test_checkpoint_on_disk_is_served_offline_and_a_name_is_not(tmp_path):
    assert environment_for(str(tmp_path), "k", {}, sleeps=False)["HF_HUB_OFFLINE"] == "1"
    named = environment_for("org/name", "k", {"HF_TOKEN": "t"}, sleeps=True)
    assert "HF_HUB_OFFLINE" not in named
    assert named["HF_TOKEN"] == "t"
    assert named["VLLM_SERVER_DEV_MODE"] == "1"


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5])
def test_share_of_the_gpu_outside_its_range_is_refused(share):
    with pytest.raises(UsageError, match="gpu_memory_utilization"):
        VllmOptions(gpu_memory_utilization=share)
