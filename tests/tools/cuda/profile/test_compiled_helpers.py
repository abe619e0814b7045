"""Triton's own C modules, shared by candidates' processes: no candidate can put anything into another's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelagent.tools.cuda import helper
from kernelagent.tools.cuda.helper import CompiledHelpers
from kernelagent.tools.cuda.launchers import LAUNCHER, accepted
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.process.limits import Limits
from kernelagent.tools.sandbox.spawn import ForkServer

HERE = Path(__file__).parent
CANDIDATE = """
import os
import pathlib
import torch

cache = pathlib.Path(os.environ["TRITON_CACHE_DIR"])

class ModelNew(torch.nn.Module):
    def forward(self, x):
        names = sorted(path.name for path in cache.rglob("*") if path.is_file())
        bad = [path for path in cache.rglob("*") if path.is_file() and "spoilt" in path.read_text()]
        for path in cache.rglob("*"):
            if path.is_file():
                path.write_text("spoilt")
        (cache / "added").mkdir()
        (cache / "added" / "__triton_launcher.so").write_text("spoilt")
        return torch.tensor([len(names), len(bad)], dtype=torch.float32)
"""


@pytest.fixture(scope="module")
def warm() -> Iterator[ForkServer]:
    with ForkServer.start(preload=(), environment={"PYTHONPATH": str(HERE)}) as parent:
        yield parent


@pytest.fixture
def helpers(warm: ForkServer, tmp_path: Path) -> CompiledHelpers:
    kept = tmp_path / "helpers"
    (kept / "driver").mkdir(parents=True)
    (kept / "driver" / "cuda_utils.so").write_text("the driver's")
    return CompiledHelpers(warm, kept, entry="stub_launchers:compile_launchers")


def names_in(helpers: CompiledHelpers, cache: Path) -> list[str]:
    helpers.copy_to(cache)
    return sorted(path.parent.name for path in cache.rglob(f"{LAUNCHER}*"))


@pytest.mark.long
def test_a_launcher_that_one_process_needed_is_there_when_the_next_one_starts(
    helpers: CompiledHelpers, tmp_path: Path
) -> None:
    assert names_in(helpers, tmp_path / "first") == []
    helpers.learn([["*i8", "i32", "constexpr"]])
    assert names_in(helpers, tmp_path / "second") == ["*i8,i32,constexpr"]
    assert (tmp_path / "second" / "driver" / "cuda_utils.so").exists()


@pytest.mark.long
def test_a_launcher_is_compiled_once_however_often_it_is_told_of(
    helpers: CompiledHelpers, tmp_path: Path
) -> None:
    contents = set()
    for number in range(3):
        helpers.learn([["*i8"]])
        (entry,) = names_in(helpers, tmp_path / str(number))
        contents.add((tmp_path / str(number) / entry / f"{LAUNCHER}.so").read_text())
    assert len(contents) == 1


def test_launchers_are_collected_anew_when_there_are_too_many(
    helpers: CompiledHelpers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helper, "MOST_KEPT", 2)
    for number, kinds in enumerate((["*i8"], ["i32"], ["i64"])):
        helpers.learn([kinds])
        names_in(helpers, tmp_path / str(number))
    assert names_in(helpers, tmp_path / "last") == ["i64"]


@pytest.mark.parametrize(
    "told",
    [
        None,
        "*i8",
        [['*fp32); system("true"']],
        [["i32", 7]],
        [[["i32"]]],
        [["i32"] * 1000],
        [{"i32": 1}],
        [["../../x"]],
    ],
)
def test_only_lists_of_known_kinds_are_believed(told: object) -> None:
    assert accepted(told) == []


def test_a_process_that_tells_of_many_is_believed_some(helpers: CompiledHelpers) -> None:
    assert len(accepted([["i32"] * number for number in range(1, 100)])) < 32


@pytest.mark.long
def test_what_a_candidate_writes_into_its_cache_no_other_process_gets(
    warm: ForkServer, helpers: CompiledHelpers, tmp_path: Path
) -> None:
    warm.triton_cache = helpers
    helpers.learn([["*i8"]])
    try:
        for number in range(2):
            scratch = tmp_path / str(number)
            scratch.mkdir()
            with CandidateProcess(
                warm,
                source=CANDIDATE,
                device="virtual",
                target="sm_90",
                scratch=scratch,
                limits=Limits(),
                sandboxed=True,
            ) as process:
                process.load()
                process.construct("init", ((), {}), training=False, keeps_random_state=True)
                seen = process.call(((), {"x": None})).output
            assert seen.tolist() == [2.0, 0.0]
    finally:
        warm.triton_cache = None


def test_the_drivers_entries_alone_are_taken_from_a_compiled_cache(tmp_path: Path) -> None:
    for entry, file in (("a", "cuda_utils.cpython-312.so"), ("b", "_norm.cubin")):
        (tmp_path / "cache" / entry).mkdir(parents=True)
        (tmp_path / "cache" / entry / file).write_bytes(os.urandom(4))
    copies = helper.keep_only(tmp_path / "cache", tmp_path / "kept", ("cuda_utils*",))
    assert copies == [tmp_path / "kept" / "a"]
    assert [p.name for p in (tmp_path / "kept").rglob("*.*")] == ["cuda_utils.cpython-312.so"]
