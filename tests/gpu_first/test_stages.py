"""The plan's own stages, as far as they go without a GPU."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch

from benchmarks.gpu_first import bundle
from benchmarks.gpu_first.judging import every_hazard
from benchmarks.gpu_first.machine import look
from benchmarks.gpu_first.options import Options
from benchmarks.gpu_first.plan import ROOT, Call, run, stem_of
from benchmarks.gpu_first.policy import evenly
from benchmarks.gpu_first.record import Record, load
from benchmarks.gpu_first.sizes import at_gpu_size, examples, write_at_gpu_size
from benchmarks.gpu_first.stages import STAGES
from benchmarks.gpu_first.trial import steps
from kernelagent.tools.corpus.catalogue import entries
from kernelagent.tools.corpus.sample import expected_seconds, sample
from tests.gpu.test_corpora import chosen as judged_by_make_gpu

without_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="says what happens without a GPU"
)


def test_every_stage_names_a_function_that_is_there() -> None:
    for stage in STAGES:
        module, _, function = stage.work.partition(":")
        assert callable(getattr(import_module(module), function)), stage.work
    assert [stage.number for stage in STAGES] == list(range(1, len(STAGES) + 1))


def test_no_stage_takes_longer_than_one_call_may() -> None:
    assert max(stage.minutes for stage in STAGES) < 10
    assert sum(stage.minutes for stage in STAGES[:10]) <= 32


@without_gpu
@pytest.mark.long
def test_without_a_gpu_every_stage_ends_with_one_clear_sentence(tmp_path: Path) -> None:
    assert run(STAGES, Call(tmp_path)) == 1
    for stage in STAGES:
        result = load(tmp_path, stem_of(stage))
        assert result is not None
        assert result.state == "not possible"
        assert re.search(r"no GPU", result.sentence), stage.title
        assert result.sentence.count(". ") == 0


@without_gpu
def test_the_machine_is_described_even_without_a_gpu(tmp_path: Path) -> None:
    record = Record(str(tmp_path), 1, "machine", "The machine", 1)
    look(record, Options(device="virtual"))
    result = dict(record.rows)
    assert result["torch"] == str(torch.__version__)
    assert "uid" in result["user"]


@without_gpu
def test_the_confined_steps_that_need_no_gpu_work_unconfined_too() -> None:
    assert {name: step() for name, step in steps("virtual").items()} == {
        "a tensor": "ok", "a kernel compiled": "ok",
    }  # fmt: skip


@without_gpu
@pytest.mark.long
def test_the_sandbox_matrix_has_a_row_for_each_tier_that_can_be_left_out(tmp_path: Path) -> None:
    (stage,) = [item for item in STAGES if item.name == "sandbox"]
    # As much time as a busy machine needs: what is tried here are the rows, not their speed.
    assert run((stage,), Call(tmp_path, minutes=9, options={"device": "virtual"})) == 0
    result = load(tmp_path, stem_of(stage))
    assert result is not None
    labels = [row[0] for row in result.rows]
    assert labels[0] == "all"
    assert labels[-1] == "none"
    assert {"ok"} == {cell for row in result.rows for cell in row[1:3]}


def test_every_example_says_which_sizes_it_has_on_a_gpu(tmp_path: Path) -> None:
    for example in examples():
        larger = write_at_gpu_size(example, tmp_path).read_text(encoding="utf-8")
        assert "on a GPU:" not in larger
        compile(larger, example.name, "exec")
    assert at_gpu_size("A = 1  # on a GPU: 20\n").startswith("A = 20  #")


def test_the_sample_has_every_code_of_the_usual_problem_and_all_that_only_cuda_has() -> None:
    chosen = sample()
    own = {entry.fixture for entry in entries("cuda") if entry.fixture.needs_gpu}
    assert own <= set(chosen)
    usual = {
        entry.fixture.code
        for entry in entries("cuda")
        if entry.fixture.problem == "relu_affine"
        and entry.fixture.policy == "triton"
        and entry.fixture.mode == "eval"
        and not entry.fixture.dynamic
    }
    assert {fixture.code for fixture in chosen} >= usual
    assert len(set(chosen)) == len(chosen)


def test_the_sample_fits_into_its_share_of_ten_minutes() -> None:
    every = dict.fromkeys(entry.fixture for entry in entries("cuda"))
    assert expected_seconds(sample()) < 300
    assert expected_seconds(every) > 1800


def test_make_gpu_judges_a_sample_within_its_share_unless_it_is_asked_for_everything() -> None:
    assert expected_seconds(judged_by_make_gpu({})) < 300
    assert len(judged_by_make_gpu({"TRIES": "1"})) > 10 * len(judged_by_make_gpu({}))


def test_the_hazards_are_candidates_of_their_own() -> None:
    sources = [hazard.source for hazard in every_hazard()]
    assert len(set(sources)) == len(sources)
    assert all(compile(source, "candidate", "exec") for source in sources)


def test_problems_are_picked_evenly_from_a_folder() -> None:
    paths = [Path(f"{number}_x.py") for number in range(100)]
    assert [path.stem for path in evenly(paths, 4)] == ["0_x", "25_x", "50_x", "75_x"]
    assert evenly(paths[:3], 8) == paths[:3]


def test_the_bundle_names_packages_that_are_pinned_and_no_torch() -> None:
    assert len(bundle.pinned(bundle.NAMES)) == len(bundle.NAMES)
    assert not {"torch", "triton"} & {name.lower() for name in bundle.NAMES}
    with pytest.raises(SystemExit, match="does not pin nothing-like-it"):
        bundle.pinned(["nothing-like-it"])


def test_the_bundle_takes_out_what_nothing_runs_and_refuses_a_torch(tmp_path: Path) -> None:
    for name in ("numpy/a/tests/test_a.py", "numpy/a/b.py", "bin/tool", "c.pyi"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("12345", encoding="utf-8")
    assert bundle.prune(tmp_path) == 5
    (tmp_path / "torch").mkdir()
    with pytest.raises(SystemExit, match="torch"):
        bundle.prune(tmp_path)


def test_the_plan_can_be_listed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_first", "--list"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert len(done.stdout.splitlines()) == len(STAGES)
