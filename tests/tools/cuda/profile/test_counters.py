"""Nsight Compute's raw page as it prints it, and the ways in which it prints none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

from kernelagent.domain.evaluation import DeviceFacts, Evaluation, KernelFacts
from kernelagent.tools.candidate_runner.alone import write_forward
from kernelagent.tools.cuda.counters import (
    command,
    counters_in,
    find_ncu,
    refusal_in,
    why_none,
)
from kernelagent.tools.judge.timing.counting import program, with_counters
from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.sandbox.file_access import grants
from kernelagent.tools.sandbox.landlock import RUN

RAW = """\
==PROF== Connected to process 4242 (/usr/bin/python3.12)
==PROF== Profiling "_norm" - 0: 0%....50%....100% - 9 passes
loading, "ID", and other words of the program
==PROF== Profiling "_norm" - 1: 0%....50%....100% - 9 passes
==PROF== Disconnected from process 4242
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","dram__throughput.avg.pct_of_peak_sustained_elapsed","lts__t_sector_hit_rate.pct","sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active","sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active","smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio","smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio","smsp__average_warps_issue_stalled_selected_per_issue_active.ratio","launch__registers_per_thread"
"","","","","","","","","","","","%","%","%","%","%","inst","inst","inst","register/thread"
"0","4242","python3.12","127.0.0.1","_norm","1","7","(128, 1, 1)","(4096, 1, 1)","0","9.0","81.25","50.5","0","22.1","88.0","0.4","9.75","12.0","32"
"1","4242","python3.12","127.0.0.1","_norm","1","7","(128, 1, 1)","(4096, 1, 1)","0","9.0","83.25","51.5","0","23.1","90.0","0.6","10.25","12.0","32"
"2","4242","python3.12","127.0.0.1","gemm, of a library","1","7","(256, 1, 1)","(1,024, 1, 1)","0","9.0","12.0","88.0","74.5","71.0","12.5","n/a","1.5","1.0","168"
"""
DENIED = """\
==PROF== Connected to process 4242 (/usr/bin/python3.12)
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0. For instructions on enabling permissions and to get more information see https://developer.nvidia.com/ERR_NVGPUCTRPERM
==PROF== Disconnected from process 4242
==WARNING== No kernels were profiled.
"""
CANDIDATE = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        assert float(self.weight[0]) == 3.0
        print("ran", tuple(x.shape))
        return x * self.weight
"""


def test_counters_are_the_means_over_a_kernels_launches() -> None:
    norm, gemm = counters_in(RAW)
    assert (norm.name, norm.launches) == ("_norm", 2)
    assert norm.values == {
        "dram_percent": 82.25,
        "sm_percent": 22.6,
        "occupancy_percent": 89.0,
        "l2_hit_percent": 51.0,
        "tensor_percent": 0.0,
    }
    assert gemm.name == "gemm, of a library"
    assert gemm.values["tensor_percent"] == 74.5


def test_the_stall_is_what_warps_wait_for_most_and_not_that_they_were_chosen() -> None:
    norm, gemm = counters_in(RAW)
    assert norm.stall == "long scoreboard"
    assert gemm.stall == "long scoreboard"


def test_a_counter_that_was_not_read_is_left_out() -> None:
    without = RAW.replace('"81.25"', '"n/a"').replace('"83.25"', '""')
    assert "dram_percent" not in counters_in(without)[0].values


def test_missing_permission_is_one_line_that_names_it() -> None:
    assert counters_in(DENIED) == []
    message = refusal_in(DENIED)
    assert message is not None
    assert "ERR_NVGPUCTRPERM" in message
    assert "\n" not in message


def test_any_other_error_of_ncu_is_said_in_its_own_words() -> None:
    message = refusal_in("==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n")
    assert message == "ncu: Failed to initialize the profiler: LibraryNotLoaded"
    assert refusal_in("nothing wrong") is None


def test_without_ncu_there_is_nothing_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("kernelagent.tools.cuda.counters._PLACES", (str(tmp_path),))
    assert find_ncu() is None


def test_ncu_leaves_the_clocks_alone_and_counts_one_forward() -> None:
    words = command(Path("/opt/ncu"), ["python", "x"])
    assert words[0] == "/opt/ncu"
    assert words[-2:] == ["python", "x"]
    assert words[words.index("--clock-control") + 1] == "none"
    assert words[words.index("--profile-from-start") + 1] == "off"


def test_what_was_counted_joins_the_kernel_of_that_name() -> None:
    device = DeviceFacts("cuda", "NVIDIA H200", "sm_90", "2.11.0", "3.6.0")
    kernels = (KernelFacts("_norm", 2, tier="compiler+cupti"), KernelFacts("_other", 1))
    result = with_counters(Evaluation("accepted", device, kernels=kernels), counters_in(RAW))
    norm, other = result.kernels
    assert (norm.tier, norm.stall) == ("compiler+cupti+ncu", "long scoreboard")
    assert norm.counters["dram_percent"] == 82.25
    assert (other.tier, other.counters) == ("compiler", {})


@pytest.mark.long
def test_the_forward_that_is_counted_runs_from_its_folder_in_a_fresh_interpreter(
    tmp_path: Path,
) -> None:
    write_forward(
        tmp_path,
        source=CANDIDATE,
        how="init",
        value=((8,), {}),
        weights={"weight": torch.full((8,), 3.0)},
        arguments=((torch.ones(2, 8),), {}),
    )
    done = subprocess.run(
        program(tmp_path, "cpu"), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["ran (2, 8)"] * 4


def test_a_confined_process_may_run_the_programs_it_is_granted(tmp_path: Path) -> None:
    confined = Confinement(tmp_path, runnable=(Path("/opt/profiler"),))
    assert Confinement.from_data(confined.to_data()) == confined
    rights = {grant.path: grant.rights for grant in grants(confined, own_proc=True)}
    assert rights[Path("/opt/profiler")] == RUN


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "ERR_NVGPUCTRPERM"),
        ("==PROF== x\nRuntimeError: CUDA error: OS call failed or operation", "--sandbox=off"),
        ("==PROF== Connected\n==WARNING== No kernels were profiled.", "No kernels were profiled"),
        ("", "printed nothing"),
    ],
)
def test_that_there_are_no_counters_is_said_with_its_reason(printed: str, why: str) -> None:
    assert why in why_none(printed)
