"""What the machine can enforce is found out, reported, and required when asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelagent.domain.errors import EnvironmentFault
from kernelagent.tools.sandbox import environment
from kernelagent.tools.sandbox.confinement import (
    Confinement,
    SandboxReport,
    probe,
    require,
)
from kernelagent.tools.sandbox.mechanisms import Mechanisms
from kernelagent.tools.sandbox.namespaces import Namespaces
from kernelagent.tools.sandbox.spawn import ForkServer

HERE = Path(__file__).parent
NAMESPACES = ("pidns", "netns", "ipcns")
COMPLETE = ("landlock", "signal scope", "pidns", "netns", "seccomp", "rlimits")


@pytest.mark.long
def test_the_probe_agrees_with_what_a_warm_parent_uses(warm):
    if "switched off" in warm.sandbox.missing.values():
        pytest.skip("NOT COMPARABLE: this fork server forgoes tiers")
    assert probe() == warm.sandbox


def test_what_is_missing_says_why():
    report = probe()
    known = {"landlock", "signal scope", "pidns", "netns", "ipcns", "seccomp"}
    assert set(report.missing) == known - set(report.tiers)
    assert all(len(sentence) > 30 for sentence in report.missing.values())


def test_a_summary_is_one_word_per_tier():
    assert SandboxReport(("landlock", "signal scope")).summary == "landlock+signal-scope"
    assert SandboxReport(()).summary == "none"


def test_a_complete_sandbox_satisfies_require():
    require(SandboxReport(COMPLETE))


@pytest.mark.parametrize(
    ("lost", "door"),
    [
        ({"landlock"}, "files"),
        ({"seccomp"}, "rarer calls"),
        ({"netns", "seccomp"}, "network"),
        ({"pidns", "signal scope"}, "other processes"),
    ],
)
def test_require_names_what_could_be_reached(lost, door):
    tiers = tuple(tier for tier in COMPLETE if tier not in lost)
    with pytest.raises(EnvironmentFault, match=door):
        require(SandboxReport(tiers, {tier: f"{tier} is not here" for tier in lost}))


def test_one_of_two_equal_tiers_is_enough():
    require(SandboxReport(tuple(tier for tier in COMPLETE if tier not in {"netns", "pidns"})))


def test_tiers_switched_off_are_reported_as_missing():
    full = Mechanisms(7, Namespaces(pid=True, net=True), seccomp=True)
    less = full.without(["pidns", "seccomp"])
    assert less.tiers == ("landlock", "signal scope", "netns", "rlimits", "watch")
    assert less.missing == {"pidns": "switched off", "seccomp": "switched off"}


def test_a_confinement_survives_its_way_to_another_process(tmp_path):
    asked = Confinement(tmp_path, readable=(Path("/a"),), devices=(Path("/dev/b"),), processes=3)
    assert Confinement.from_data(asked.to_data()) == asked


def test_only_harmless_variables_are_passed_on():
    given = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_API_KEY": "x",
        "TRITON_INTERPRET": "1",
        "TRITON_CACHE_DIR": "/home/me/.triton",
        "TRITON_HOME": "/home/me",
        "HOME": "/home/me",
        "USER": "me",
        "AWS_SESSION_TOKEN": "x",
        "SSH_AUTH_SOCK": "/run/agent",
        "PYTHONPATH": "/home/me",
    }
    kept = {"PATH", "LC_ALL", "NVIDIA_VISIBLE_DEVICES", "TRITON_INTERPRET"}
    assert environment.allowed(given).keys() == kept


@pytest.mark.long
def test_an_import_that_fails_is_a_fault_with_its_traceback():
    with pytest.raises(EnvironmentFault, match="No module named 'no_such_module'"):
        ForkServer.start(preload=["no_such_module"])


@pytest.mark.long
def test_a_module_that_leaves_a_thread_running_cannot_be_preloaded():
    with pytest.raises(EnvironmentFault, match="2 threads run"):
        ForkServer.start(preload=["busy_module"], environment={"PYTHONPATH": str(HERE)})


def _children() -> set[str]:
    reported = Path("/proc/self/task").glob("*/children")
    return {pid for item in reported for pid in item.read_text(encoding="ascii").split()}


def test_what_goes_wrong_meanwhile_leaves_no_warm_parent_behind():
    before = _children()
    begun: list[set[str]] = []

    def fail() -> None:
        begun.append(_children() - before)
        raise RuntimeError("of the caller's own")

    with pytest.raises(RuntimeError, match="of the caller's own"):
        ForkServer.start(preload=["hostile"], meanwhile=fail)
    assert len(begun[0]) == 1
    assert _children() <= before


_JUDGE = f"""
import sys, time
sys.path.insert(0, {str(HERE.parents[1])!r})
from pathlib import Path
from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.sandbox.spawn import ForkServer
warm = ForkServer.start(preload=["hostile"], environment={{"PYTHONPATH": {str(HERE)!r}}},
                        forgo=sys.argv[2].split())
warm.fork("hostile:leave_a_daemon", {{}}, [], Confinement(Path(sys.argv[1])))
child = warm.fork("hostile:hang_in_every_handler", {{}}, [], Confinement(Path(sys.argv[1])))
print(warm.pid, child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.long
@pytest.mark.parametrize("forgo", ["", "pidns netns ipcns"], ids=["all", "no-namespaces"])
def test_a_judge_that_is_killed_leaves_no_process(tmp_path, forgo):
    with subprocess.Popen(
        [sys.executable, "-c", _JUDGE, str(tmp_path), forgo], stdout=subprocess.PIPE, text=True
    ) as judge:
        assert judge.stdout is not None
        pids = [int(pid) for pid in judge.stdout.readline().split()]
        judge.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(_is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in pids if _is_alive(pid)] == []


@pytest.mark.long
@pytest.mark.parametrize("forgo", [(), NAMESPACES], ids=["all", "no-namespaces"])
def test_a_warm_parent_that_is_killed_takes_its_trees_along(tmp_path, forgo):
    with ForkServer.start(
        preload=["hostile"], environment={"PYTHONPATH": str(HERE)}, forgo=forgo
    ) as warm:
        heard, tell = os.pipe()
        child = warm.fork("hostile:hang_with_a_daemon", {}, [tell], Confinement(tmp_path))
        os.close(tell)
        assert os.read(heard, 1) == b"x"
        os.kill(warm.pid, signal.SIGKILL)
        ended = child.wait(10)
        assert ended is not None
        assert ended.signal == "SIGKILL"
        # The end of the file: nobody holds the other end any more.
        assert os.read(heard, 1) == b""
        os.close(heard)
        with pytest.raises(EnvironmentFault, match="the fork server is gone"):
            warm.fork("hostile:return_at_once", {}, [], Confinement(tmp_path))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
