"""A runner as it is on a GPU machine, forked from the fork server that a GPU machine has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.nothing_driver import build_libcuda
from kernelagent.tools.judge.fork_server import PRELOAD
from kernelagent.tools.sandbox.confinement import ROOT, Confinement
from kernelagent.tools.sandbox.spawn import ForkServer

HERE = Path(__file__).parent
ModelQuery = Callable[..., Any]
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="NO GCC HERE")
_COSTS = """
import json, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from benchmarks.nothing_driver import install
from benchmarks.recorder_cost import ASIDE, RECORDING, WITHOUT, measured
with tempfile.TemporaryDirectory() as folder:
    install(Path(folder))
    found = measured(batches=40)
print(json.dumps([min(found[state]) - min(found[WITHOUT]) for state in (ASIDE, RECORDING)]))
"""
_COMPILES = """
import os, sys, tempfile
sys.path.insert(0, sys.argv[1])
os.chdir(sys.argv[2])
tempfile.tempdir = sys.argv[2]
import torch, torch._dynamo
from kernelagent.tools.candidate_runner.candidate import LoadedCandidate
from kernelagent.tools.candidate_runner.integrity.integrity import Integrity, let_torch_compile
from kernelagent.tools.candidate_runner.integrity.watch import Watch
let_torch_compile()
integrity, watch = Integrity(may_compile=True), Watch(may_compile=True)
candidate = LoadedCandidate.from_source('''
import torch

@torch.compile
def work(x):
    return torch.relu(x * 2) + x.sum(-1, keepdim=True)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return work(x)
''')
with integrity.kept("the forward", keeps_random_state=False):
    candidate.construct("init", ((), {}), "cpu", training=False)
    candidate.forward((torch.ones(4, 8),), {})
assert watch.take() is None
assert watch.compiles
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    folder = tmp_path_factory.mktemp("driver")
    environment = {
        "PYTHONPATH": str(HERE),
        "OPENBLAS_NUM_THREADS": "1",
        "TRITON_LIBCUDA_PATH": str(folder),
    }
    if shutil.which("gcc") is not None:
        build_libcuda(folder)
        # So that the confined process may load it, as it may load a GPU machine's.
        environment["LD_LIBRARY_PATH"] = str(folder)
    with ForkServer.start(preload=PRELOAD["cuda"], environment=environment) as parent:
        yield parent


@pytest.fixture
def ask(warm: ForkServer, tmp_path: Path) -> ModelQuery:
    def ask(entry: str, **settings: Any) -> Any:
        heard, tell = os.pipe()
        scratch = tmp_path / entry
        scratch.mkdir()
        confinement = Confinement(scratch, readable=(HERE,))
        child = warm.fork(f"gpu_machine:{entry}", settings, [tell], confinement)
        os.close(tell)
        with os.fdopen(heard, "rb") as line:
            answer = line.read()
        child.wait(60)
        child.kill()
        assert answer, child.output()
        return json.loads(answer)

    return ask


@pytest.mark.long
@needs_gcc
def test_a_first_launch_compiles_tritons_c_module_and_is_no_offence(ask: ModelQuery) -> None:
    assert ask("launch_for_the_first_time") == {"seen": None, "made": 1}


@pytest.mark.long
def test_a_library_that_the_candidate_opens_is_an_offence_and_one_that_torch_opens_is_none(
    ask: ModelQuery,
) -> None:
    did = "opens a library of machine code (the process's own symbols)"
    assert ask("open_libraries") == [None, ["forbidden_access", did]]


def test_the_platforms_key_is_known_before_a_candidate_asks(ask: ModelQuery) -> None:
    assert ask("know_the_platform") == 1


def test_forbidding_torch_replaces_nothing_in_a_candidates_turn(ask: ModelQuery) -> None:
    assert ask("forbid_torch") == {"failure": None, "loaded": ["torch._dynamo"]}


def test_the_recorder_stands_aside_before_anything_is_timed(ask: ModelQuery) -> None:
    assert ask("prepare_for_the_clock") == [False, True]


@pytest.mark.long
def test_free_memory_is_overwritten_before_each_turn_of_a_candidate(ask: ModelQuery) -> None:
    assert ask("overwrite_free_memory") == [False, True, True]


@pytest.mark.long
@needs_gcc
def test_while_timing_the_recorder_costs_less_than_a_microsecond_a_launch(tmp_path: Path) -> None:
    aside, recording = json.loads(_printed_by(_COSTS, tmp_path))
    assert aside < 1.0
    # On a fast machine recording itself takes hardly more.
    assert aside < recording / 2


@pytest.mark.long
@needs_gcc
def test_torch_compile_is_no_offence_where_the_policy_permits_it(tmp_path: Path) -> None:
    _printed_by(_COMPILES, tmp_path)


def _printed_by(program: str, scratch: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, ROOT, str(scratch)],
        capture_output=True,
        text=True,
        timeout=300,
        env={"PATH": os.environ["PATH"], "TRITON_CACHE_DIR": str(scratch / "triton")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
