"""The canary: what it finds on machines that refuse this and that, and through a real confined process."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from kernelagent.domain.errors import EnvironmentFault
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.tools.cuda.obstacles import closed_nodes, obstacle_in
from kernelagent.tools.judge.canary import (
    SOURCE,
    ConfinedCanary,
    Try,
    examine,
    require_kernel,
)
from kernelagent.tools.judge.fork_server import open_fork_server
from kernelagent.tools.judge.machine_check import rows_of
from kernelagent.tools.judge.problem.context import make_ready
from kernelagent.tools.judge.problem.devices import JudgeDevice, gpu_facts, open_device
from kernelagent.tools.sandbox.spawn import ForkServer
from kernelagent.tools.virtual.cost.ceilings import ceilings_for

TIERS = ("landlock", "signal scope", "pidns", "netns", "ipcns", "seccomp", "rlimits", "watch")
REFUSED = (
    "CUDA error: OS call failed or operation not supported on this OS\n"
    "the candidate's process exited with status 1"
)
NO_COMPILER = (
    "the forward raised RuntimeError: Failed to find C compiler. Please specify via CC "
    "environment variable or set triton.knobs.build.impl."
)
NO_HEADERS = (
    "the forward raised CalledProcessError: Command '['/usr/bin/gcc', '/tmp/x/cuda_utils.c', '-O3']' "
    "returned non-zero exit status 1.\n"
    "/tmp/x/cuda_utils.c:9:10: fatal error: Python.h: No such file or directory"
)
EXCLUSIVE = (
    "the candidate's process exited with status 1 while importing the file\n"
    "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
)


@dataclass
class Machine:
    """A device on which a kernel runs as soon as none of `in_the_way` is there."""

    in_the_way: tuple[str, ...] = ()
    always: str | None = None
    """What fails with any sandbox and without."""
    says: str = REFUSED
    unconfined: bool = True
    name: str = "NVIDIA H200"
    tiers: tuple[str, ...] = TIERS
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def run_kernel(self, without: Collection[str], *, sandboxed: bool) -> Try:
        self.asked.append(tuple(without) if sandboxed else ("sandbox",))
        refused = sandboxed and not set(self.in_the_way) <= set(without)
        return Try(tuple(without), self.always or (self.says if refused else None), 0.5, sandboxed)


def test_where_a_kernel_runs_nothing_else_is_tried() -> None:
    machine = Machine()
    assert require_kernel(examine(machine), required=True) == ()
    assert machine.asked == [()]


@pytest.mark.parametrize("tier", ["landlock", "seccomp", "pidns", "netns", "ipcns", "signal scope"])
def test_the_tier_in_the_way_is_found_and_left_out(tier: str) -> None:
    result = examine(Machine((tier,)))
    assert require_kernel(result, required=False) == (tier,)
    with pytest.raises(EnvironmentFault, match="--sandbox=require") as refused:
        require_kernel(result, required=True)
    assert f"It runs without {tier}" in str(refused.value)
    assert "error 304" in str(refused.value)


def test_of_several_tiers_in_the_way_no_more_are_left_out_than_must_be() -> None:
    result = examine(Machine(("seccomp", "netns")))
    assert set(require_kernel(result, required=False)) == {"seccomp", "netns"}


def test_a_limit_that_is_no_tier_ends_with_the_flag_that_helps() -> None:
    with pytest.raises(EnvironmentFault, match="--sandbox=off") as refused:
        require_kernel(examine(Machine(("rlimits",))), required=False)
    assert refused.value.exit_status == 3


@pytest.mark.parametrize(
    ("says", "what", "remedy"),
    [
        (NO_COMPILER, "there is none", "Install gcc"),
        (NO_HEADERS, "no Python.h", "python3-dev"),
        (EXCLUSIVE, "compute mode is exclusive", "nvidia-smi -c DEFAULT"),
        ("RuntimeError: No CUDA GPUs are available", "sees no GPU", "CUDA_VISIBLE_DEVICES"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", "memory is full", "nvidia-smi"),
    ],
)
def test_what_no_sandbox_is_to_blame_for_is_one_sentence_with_its_remedy(
    says: str, what: str, remedy: str
) -> None:
    machine = Machine(always=says)
    with pytest.raises(EnvironmentFault) as refused:
        require_kernel(examine(machine), required=False)
    text = str(refused.value)
    assert text.startswith("no kernel runs on NVIDIA H200, whoever wrote it: ")
    assert what in text
    assert remedy in text
    assert "candidate's process" not in text
    assert "\n" not in text
    # Nothing that the sandbox can change is tried.
    assert machine.asked == [(), ("sandbox",)]


def test_closed_device_nodes_are_named_and_open_or_needless_ones_are_not() -> None:
    nodes = [Path("/dev", name) for name in ("nvidia-caps", "nvidia-modeset", "nvidia0")]
    closed = closed_nodes(nodes, lambda node: "Permission denied")
    assert closed is not None
    assert "/dev/nvidia0 is closed to this user (Permission denied)" in closed.what
    assert closed_nodes(nodes[:2], lambda node: "Permission denied") is None
    assert closed_nodes(nodes, lambda node: None) is None


def test_a_node_is_tried_by_opening_it(tmp_path: Path) -> None:
    node = tmp_path / "nvidia0"
    node.touch()
    assert closed_nodes([node]) is None
    node.unlink()
    closed = closed_nodes([node])
    assert closed is not None
    assert "No such file" in closed.what


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_closed_is_not_called_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "kernelagent.tools.judge.problem.devices.gpu_nodes", lambda: (Path("/dev/nvidia7"),)
    )
    with pytest.raises(EnvironmentFault, match="/dev/nvidia7 is closed to this user"):
        gpu_facts(0)


def test_a_file_that_is_refused_is_named() -> None:
    message = "PermissionError: [Errno 13] Permission denied: '/opt/cuda/lib/libx.so'"
    assert "/opt/cuda/lib/libx.so" in obstacle_in(message).what


def test_the_doctor_tells_of_each_tier() -> None:
    machine = Machine(("landlock",))
    rows = {row.code: row for row in rows_of(machine, examine(machine))}
    assert rows["canary"].status == "optional"
    assert "only without landlock" in rows["canary"].found
    assert rows["driver.landlock"].found == "in the way: left out"
    assert rows["driver.seccomp"].status == "ok"
    well = Machine()
    rows = {row.code: row for row in rows_of(well, examine(well))}
    assert {row.status for row in rows.values()} == {"ok"}
    assert set(rows) == {"canary", *(f"driver.{t}" for t in TIERS if t not in ("rlimits", "watch"))}
    broken = Machine(always=NO_COMPILER)
    rows = {row.code: row for row in rows_of(broken, examine(broken))}
    assert rows["canary"].status == "missing"
    assert "Install gcc" in rows["canary"].advice


# Through a candidate's own process, on the device that is there.

IN_THE_WAY = SOURCE.replace(
    "class ModelNew",
    "import ctypes\n\nif ctypes.pythonapi.open(b'{path}', 0) < 0:\n"
    "    raise RuntimeError('CUDA error: OS call failed or operation not supported on this OS')\n\n\n"
    "class ModelNew",
)


@pytest.fixture
def warm(fork_server: ForkServer) -> Iterator[ForkServer]:
    yield fork_server
    # Set by what makes ready for a GPU; all others share this fork server.
    fork_server.triton_helper = None


@pytest.mark.long
def test_the_kernel_runs_in_a_candidates_process(warm: ForkServer, tmp_path: Path) -> None:
    canary = ConfinedCanary(warm, open_device("virtual", "sm_90"), tmp_path)
    matrix = examine(canary)
    assert matrix.full.failure is None
    assert matrix.without == ()


@pytest.mark.long
def test_a_kernel_with_a_wrong_result_is_a_failure(warm: ForkServer, tmp_path: Path) -> None:
    wrong = SOURCE.replace("+ 1.0", "+ 2.0")
    canary = ConfinedCanary(warm, open_device("virtual", "sm_90"), tmp_path, source=wrong)
    assert (
        canary.run_kernel((), sandboxed=True).failure == "the kernel ran, and its result is wrong"
    )


@pytest.mark.long
def test_a_driver_that_wants_a_closed_file_makes_a_run_go_on_without_landlock(
    warm: ForkServer, tmp_path: Path
) -> None:
    if "landlock" not in warm.sandbox.tiers:
        pytest.skip("NO LANDLOCK HERE")
    wanted = tmp_path / "wanted"
    wanted.touch()
    source = IN_THE_WAY.replace("{path}", str(wanted))
    device = open_device("virtual", "sm_90")
    matrix = examine(ConfinedCanary(warm, device, tmp_path, source=source))
    assert matrix.without == ("landlock",)
    with open_fork_server(device.kind) as another:
        another.go_on_without(matrix.without, matrix.refused())
        assert "landlock" not in another.sandbox.summary
        assert another.sandbox.missing["landlock"] == matrix.refused()
        again = tmp_path / "again"
        again.mkdir()
        assert examine(ConfinedCanary(another, device, again, source=source)).full.ran


def test_without_a_gpu_nothing_need_be_made_ready(warm: ForkServer, tmp_path: Path) -> None:
    assert make_ready(open_device("virtual", "sm_90"), warm, "auto", tmp_path) == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_runs_no_kernel_ends_the_run_before_any_verdict(
    warm: ForkServer, tmp_path: Path
) -> None:
    facts = DeviceFacts("cuda", "NVIDIA H200", "sm_90", "2.11.0", "3.6.0")
    device = JudgeDevice(facts, "cpu", ceilings_for("sm_90"))
    with pytest.raises(EnvironmentFault, match="no kernel runs on NVIDIA H200") as ended:
        make_ready(device, warm, "auto", tmp_path)
    assert ended.value.exit_status == 3
