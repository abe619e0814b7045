"""How the judge's process starts: with one import of torch for it and for the candidates, and with the user's environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.environment import at_start, can_come_later
from kernelagent.tools.judge_client import JudgeProcess
from kernelagent.tools.sandbox.limits import descendants

ROOT = Path(__file__).resolve().parents[3]
SECRET = "sk-a-candidate-must-never-see-this"
PROBLEM = """\
import os

import torch
from torch import nn

from only_pythonpath_knows import SCALE

assert os.environ["ANY_API_KEY"] == {secret!r}


class Model(nn.Module):
    def forward(self, x):
        return x * SCALE


def get_inputs():
    return [torch.randn(8)]


def get_init_inputs():
    return []
"""
CANDIDATE = """\
import os
import sys

import torch

theirs = ({secret!r}, "of_the_user")
seen = [*os.environ.values(), *sys.path]
raise RuntimeError("seen" if any(their in text for their in theirs for text in seen) else "not seen")
"""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeProcess]:
    folder = tmp_path_factory.mktemp("start")
    theirs = folder / "of_the_user"
    theirs.mkdir()
    (theirs / "only_pythonpath_knows.py").write_text("SCALE = 3.0\n")
    path = folder / "scaled.py"
    path.write_text(PROBLEM.format(secret=SECRET))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in list(os.environ.items()):
            if not can_come_later({name: value}):
                patch.delenv(name)
        patch.setenv("ANY_API_KEY", SECRET)
        patch.setenv("PYTHONPATH", str(theirs))
        with JudgeProcess(JudgeSettings(ProblemSpec(path=str(path)), device="virtual")) as judge:
            yield judge


def test_the_problem_finds_the_users_variables_and_modules(judge: JudgeProcess) -> None:
    assert judge.facts.name == "scaled"


def test_a_candidate_finds_neither(judge: JudgeProcess) -> None:
    ended = judge.evaluate(Candidate(CANDIDATE.format(secret=SECRET)), lambda _: None)
    assert ended.reason is not None
    assert "not seen" in ended.reason.message


def test_the_fork_server_is_a_fork_that_holds_nothing_of_the_users_environment(
    judge: JudgeProcess,
) -> None:
    (pid,) = [pid for pid in descendants(judge.pid) if os.getsid(pid) == pid]
    assert (
        Path(f"/proc/{pid}/cmdline").read_bytes() == Path(f"/proc/{judge.pid}/cmdline").read_bytes()
    )
    if os.getuid():
        pytest.skip(
            "NO ROOT HERE: nobody else can read the memory of a process that is not inspectable"
        )
    assert SECRET.encode() in b"".join(written_memory(judge.pid))
    assert not any(SECRET.encode() in part for part in written_memory(pid))
    begun = {
        entry.split(b"=")[0].decode()
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if entry
    }
    assert begun <= {*at_start(os.environ), "GLIBC_TUNABLES"}


def written_memory(pid: int) -> Iterator[bytes]:
    """What a process has in pages of its own, part by part."""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            place, rights, _, _, inode, *_ = line.split()
            if rights.startswith("rw") and inode == "0":
                first, last = (int(address, 16) for address in place.split("-"))
                memory.seek(first)
                yield memory.read(last - first)


@pytest.mark.parametrize(
    "name",
    [
        "PYTHONOPTIMIZE",
        "PYTHONWARNINGS",
        "PYTHONANYWHERE_API_TOKEN",
        "TORCHDYNAMO_DISABLE",
        "TORCH_LOGS",
        "LD_PRELOAD",
    ],
)
def test_what_is_read_while_python_and_torch_start_is_there_then(name: str) -> None:
    """Such a process has the user's environment from the start, and the fork server is another."""
    assert can_come_later(
        {
            "HOME": "/home/reader",
            "PYTHONPATH": "",
            "PYTHONUNBUFFERED": "1",
            "PYTHON_VERSION": "3.12",
        }
    )
    assert not can_come_later({name: "1"})
    assert name not in at_start({name: SECRET})


@pytest.mark.parametrize("name", ["sympy/__init__.py", "typing_extensions.py", "sitecustomize.py"])
def test_a_package_that_stands_before_torchs_own_is_imported_first(
    name: str, tmp_path: Path
) -> None:
    assert can_come_later({"PYTHONPATH": str(tmp_path)})
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert not can_come_later({"PYTHONPATH": str(tmp_path)})


def test_an_import_that_fails_is_a_fault_with_its_reason() -> None:
    asked = "ForkServer.split_off(preload=['no_such_module'])"
    program = f"from kernelagent.tools.sandbox.spawn import ForkServer; {asked}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    fault = "EnvironmentFault: the fork server could not start: ModuleNotFoundError"
    assert f"{fault}(\"No module named 'no_such_module'\")" in done.stderr
