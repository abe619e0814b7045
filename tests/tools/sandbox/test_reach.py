"""What a confined process can and cannot reach: files, secrets, network, other processes, the kernel."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.sandbox.spawn import ForkServer

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
SITE_PACKAGES = Path(torch.__file__).parents[1]
_NEW_USER_NAMESPACE = 0x1000_0000
_AF_UNIX, _AF_INET, _SOCK_DGRAM = 1, 2, 2
DENIED = {
    "x86_64": {
        "ptrace": (101, 0, 0, 0, 0),
        "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
        "perf_event_open": (298, 0, 0, 0, 0, 0),
        "bpf": (321, 0, 0, 0),
        "keyctl": (250, 0, 0),
        "add_key": (248, 0, 0, 0, 0, 0),
        "mount": (165, 0, 0, 0, 0, 0),
        "pivot_root": (155, 0, 0),
        "setns": (308, 0, 0),
        "unshare": (272, _NEW_USER_NAMESPACE),
        "clone": (56, _NEW_USER_NAMESPACE, 0, 0, 0, 0),
        "userfaultfd": (323, 0),
        "open_by_handle_at": (304, 0, 0, 0),
        "io_uring_setup": (425, 0, 0),
        "memfd_create": (319, 0, 0),
        "shmget": (29, 0, 4096, 0),
        "socket": (41, _AF_INET, _SOCK_DGRAM, 0),
        "local socket": (41, _AF_UNIX, _SOCK_DGRAM, 0),
        "datagram pair": (53, _AF_UNIX, _SOCK_DGRAM, 0, 0),
        "x32 getpid": (0x4000_0000 + 39,),
        "ioperm": (173, 0, 0, 0),
    },
    "aarch64": {
        "ptrace": (117, 0, 0, 0, 0),
        "process_vm_readv": (270, 1, 0, 0, 0, 0, 0),
        "perf_event_open": (241, 0, 0, 0, 0, 0),
        "bpf": (280, 0, 0, 0),
        "keyctl": (219, 0, 0),
        "add_key": (217, 0, 0, 0, 0, 0),
        "mount": (40, 0, 0, 0, 0, 0),
        "pivot_root": (41, 0, 0),
        "setns": (268, 0, 0),
        "unshare": (97, _NEW_USER_NAMESPACE),
        "clone": (220, _NEW_USER_NAMESPACE, 0, 0, 0, 0),
        "userfaultfd": (282, 0),
        "open_by_handle_at": (265, 0, 0, 0),
        "io_uring_setup": (425, 0, 0),
        "memfd_create": (279, 0, 0),
        "shmget": (194, 0, 4096, 0),
        "socket": (198, _AF_INET, _SOCK_DGRAM, 0),
        "local socket": (198, _AF_UNIX, _SOCK_DGRAM, 0),
        "datagram pair": (199, _AF_UNIX, _SOCK_DGRAM, 0, 0),
    },
}
"""System calls, with arguments that are valid enough to tell a refusal from a mistake."""

PTRACE = {"x86_64": 101, "aarch64": 117}[platform.machine()]


@pytest.fixture
def secret(tmp_path):
    """A file the user can read, beside the scratch folder."""
    path = tmp_path / "secret"
    path.write_text("the key", encoding="ascii")
    return path


MOST_STARTS = 60


def test_a_secret_beside_the_scratch_cannot_be_read(ground, secret):
    ground.need("landlock")
    assert ground.ask("read_files", paths=[str(secret)]) == ["EACCES"]


def test_a_symlink_in_the_scratch_does_not_lead_to_the_secret(ground, secret):
    ground.need("landlock")
    (ground.scratch / "link").symlink_to(secret)
    assert ground.ask("read_files", paths=["link"]) == ["EACCES"]


def test_home_temporary_files_and_this_repository_cannot_be_listed(ground):
    ground.need("landlock")
    folders = [str(Path.home()), "/tmp", str(REPOSITORY), str(HERE), "/etc", "/run", "/dev"]
    assert set(ground.ask("list_folders", paths=folders)) == {"EACCES"}


def test_nothing_but_the_scratch_can_be_written(ground, tmp_path):
    ground.need("landlock")
    places = [
        SITE_PACKAGES / "sitecustomize.py",
        SITE_PACKAGES / "torch" / "planted.py",
        REPOSITORY / "tools" / "planted.py",
        Path.home() / "planted",
        tmp_path / "planted",
        Path("/tmp/planted"),
        Path("/dev/shm/planted"),
        Path("/proc/sys/kernel/core_pattern"),
    ]
    outcomes = ground.ask("write_files", paths=[str(place) for place in places])
    assert set(outcomes) == {"EACCES"}
    assert not any(place.exists() for place in places[:-1])


def test_the_scratch_can_be_written_and_read(ground):
    assert ground.ask("write_files", paths=["file"]) == ["done: 1"]
    assert ground.ask("read_files", paths=["file"]) == ["done: b'x'"]


def test_a_path_named_readable_can_be_read_and_not_written(ground, secret):
    ground.need("landlock")
    extra = {"readable": (secret,)}
    assert ground.ask("read_files", limits=extra, paths=[str(secret)]) == ["done: b'the key'"]
    assert ground.ask("write_files", limits=extra, paths=[str(secret)]) == ["EACCES"]


def test_a_device_is_usable_only_when_it_is_named(ground):
    ground.need("landlock")
    nodes = (Path("/dev", name) for name in ("hwrng", "kvm", "net/tun", "ptmx", "fuse"))
    node = next((node for node in nodes if os.access(node, os.R_OK)), None)
    if node is None:
        pytest.skip("NO SPARE DEVICE NODE HERE")
    without = ground.ask("open_files", limits={"devices": ()}, paths=[str(node)])
    named = ground.ask("open_files", limits={"devices": (node,)}, paths=[str(node)])
    assert without == ["EACCES"]
    assert named != ["EACCES"]


def test_a_trusted_process_reads_what_its_user_can(ground, secret):
    child = ground.warm.fork(
        "hostile:read_into_output",
        {"path": str(secret)},
        [],
        Confinement.trusted(ground.scratch),
    )
    ended = child.wait(30)
    assert ended is not None
    assert (ended.code, child.output()) == (0, "the key")


@pytest.mark.long
def test_the_environment_holds_no_key_and_no_home(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    monkeypatch.setenv("TRITON_SECRET", "sk-planted")
    monkeypatch.setenv("NVIDIA_API_KEY", "sk-planted")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    heard, tell = os.pipe()
    with ForkServer.start(preload=["hostile"], environment={"PYTHONPATH": str(HERE)}) as warm:
        child = warm.fork("hostile:show_environment", {}, [tell], Confinement(tmp_path))
        os.close(tell)
        child.wait(30)
    with os.fdopen(heard) as line:
        inside = line.read()
    assert "planted" not in inside
    assert "HOME=" not in inside.replace("TRITON_HOME=", "")
    assert '"HOME"' not in inside
    assert '"OMP_NUM_THREADS": "2"' in inside
    assert f'"TRITON_CACHE_DIR": "{tmp_path}/triton"' in inside


@pytest.mark.namespaces
def test_the_network_is_out_of_reach(ground, tmp_path):
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as local,
    ):
        local.bind(str(tmp_path / "socket"))
        local.listen()
        outcomes = ground.ask(
            "reach_the_network", port=server.getsockname()[1], unix=str(tmp_path / "socket")
        )
    assert {name for name, outcome in outcomes.items() if outcome.startswith("done")} == set()


@pytest.mark.namespaces
def test_the_network_is_reached_when_it_is_allowed(ground):
    with socket.create_server(("127.0.0.1", 0)) as server:
        outcomes = ground.ask(
            "reach_the_network",
            limits={"network": True},
            port=server.getsockname()[1],
            unix="/nowhere",
        )
    assert outcomes["tcp"].startswith("done")


def test_a_socket_pair_works(ground):
    assert ground.ask("use_a_socket_pair") == "hello"


@pytest.mark.namespaces
def test_no_other_process_can_be_signalled(ground):
    if not {"pidns", "signal scope"} & set(ground.warm.sandbox.tiers):
        pytest.skip("NEITHER PIDNS NOR SIGNAL SCOPE HERE")
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    supervisor = ground.start("hang")
    try:
        pids = [os.getpid(), ground.warm.pid, supervisor.pid, bystander.pid]
        outcomes = ground.ask("signal_others", pids=pids)
        assert set(outcomes) <= {"EPERM", "ESRCH"}
        assert bystander.poll() is None
        assert supervisor.wait(0.0) is None
    finally:
        bystander.kill()
        bystander.wait()
        supervisor.kill()


@pytest.mark.long
@pytest.mark.namespaces
def test_killing_everything_visible_harms_only_itself(ground):
    if not {"pidns", "signal scope"} & set(ground.warm.sandbox.tiers):
        pytest.skip("NEITHER PIDNS NOR SIGNAL SCOPE HERE")
    bystander = ground.start("hang")
    ground.run("kill_everything_visible")
    assert bystander.wait(0.2) is None
    bystander.kill()


@pytest.mark.long
@pytest.mark.namespaces
def test_no_other_process_can_be_looked_into(ground):
    ground.need("landlock")
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        for pid in (os.getpid(), ground.warm.pid, bystander.pid):
            outcomes = ground.ask("look_into_others", pid=pid, ptrace=PTRACE)
            assert set(outcomes.values()) <= {"EACCES", "EPERM", "ENOENT", "ESRCH"}, outcomes
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.namespaces
def test_other_processes_are_not_even_listed(ground):
    ground.need("pidns")
    assert ground.ask("show_processes") == ["1", "2"]


def test_rare_system_calls_are_refused(ground):
    ground.need("seccomp")
    calls = DENIED[platform.machine()]
    assert ground.ask("call_the_kernel", limits={"devices": ()}, **calls) == dict.fromkeys(
        calls, "EPERM"
    )


def test_the_process_starts_with_nothing_but_what_it_was_given(ground):
    around = ground.ask("show_surroundings")
    assert around["cwd"] == around["temporary"] == str(ground.scratch)
    # An installation without bytecode must not make an import look like a write of the candidate.
    assert not around["writes_bytecode"]
    assert around["session"]
    assert around["stdin"] == ""
    assert len(around["descriptors"]) == 1
    assert str(REPOSITORY) not in around["path"]


def test_forks_draw_different_random_numbers(ground):
    first, second = ground.ask("show_random_numbers"), ground.ask("show_random_numbers")
    assert all(item != other for item, other in zip(first, second, strict=True))


def test_numpy_and_torch_use_their_threads(ground):
    assert ground.ask("use_threads") is True


@pytest.mark.long
def test_triton_compiles_and_disassembles_inside(ground):
    assert ground.ask("compile_a_kernel") == [True, ["double.cubin"]]


@pytest.mark.long
def test_confinement_costs_less_than_50_ms_over_a_plain_fork(ground):
    def started(sandboxed):
        began = time.perf_counter()
        child = ground.start("return_at_once", limits={"sandboxed": sandboxed})
        spent = time.perf_counter() - began
        child.wait(10)
        return spent

    # The quickest of each, in turns: the rest is what other processes cost these.
    plain, confined = [], []
    for _ in range(MOST_STARTS):
        plain.append(started(False))
        confined.append(started(True))
        if len(plain) >= 8 and min(confined) - min(plain) < 0.05:
            return
    pytest.fail(f"{min(plain):.3f} s plain, {min(confined):.3f} s confined")


def test_a_missing_scratch_is_a_fault_not_an_ending(ground):
    from kernelagent.domain.errors import EnvironmentFault

    shutil.rmtree(ground.scratch)
    with pytest.raises(EnvironmentFault, match="could not be started"):
        ground.start("return_at_once")
