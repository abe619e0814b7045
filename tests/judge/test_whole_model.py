"""A whole model: what its parts take, what is captured of one, and its answer with a candidate inside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernelagent.errors import ProblemError
from kernelagent.problem import ProblemSpec
from kernelagent.records import from_json
from kernelagent.submodule import PartsResult, following, places_of, scan_text
from kernelagent.tools.judge.bundle import load_bundle
from kernelagent.tools.judge.scan import scan
from kernelagent.tools.judge.submodules import Whole
from kernelagent.tools.judge.whole import verify_whole
from kernelagent.tools.settings import JudgeSettings
from kernelagent.whole_model import ScanRow

DECODER = Path(__file__).resolve().parents[2] / "examples" / "models" / "decoder.py"
SETTINGS = JudgeSettings(ProblemSpec(path=str(DECODER)), device="virtual")
NORM = """\
import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm(x, weight, y, eps, W: tl.constexpr):
    at = tl.program_id(0) * W + tl.arange(0, W)
    row = tl.load(x + at)
    scale = tl.rsqrt(tl.sum(row * row) / W + eps)
    tl.store(y + at, row * scale * tl.load(weight + tl.arange(0, W)))


class ModelNew(torch.nn.Module):
    @classmethod
    def from_reference(cls, reference):
        made = cls()
        made.eps = reference.eps
        made.weight = reference.weight
        return made

    def forward(self, x):
        y = torch.empty_like(x)
        rms_norm[(x.numel() // 128,)](x, self.weight, y, self.eps, W=128)
        return y
"""


@pytest.fixture(scope="module")
def whole() -> Whole:
    return Whole.open(SETTINGS)


def test_a_scan_ranks_parts_by_what_they_could_give(whole: Whole) -> None:
    found = scan(whole)
    rows = {row.path: row for row in found.rows}
    gains = [row.gain_at_most or 0.0 for row in found.rows]
    assert gains == sorted(gains, reverse=True)
    assert found.time == "estimate"
    assert rows.keys() == {n for n, _ in whole.module.named_modules() if n and n != "blocks"}
    assert rows["blocks.0"].alike == ("blocks.1",)
    for row in found.rows:
        assert row.calls == 1
        assert row.bound_us is not None
        assert 0 < row.bound_us <= row.device_us <= found.total_us
        saved = row.device_us - row.bound_us
        assert row.gain_at_most == pytest.approx(found.total_us / (found.total_us - saved), 1e-2)
    assert "nothing was timed" in scan_text(found)


def test_the_parts_chosen_neither_hold_each_other_nor_repeat(whole: Whole) -> None:
    found = scan(whole)
    taken: list[ScanRow] = []
    chosen = []
    while len(taken) < 3:
        row = following(found, taken)
        assert row is not None
        chosen.append(places_of(row, taken))
        taken.append(row)
    assert chosen == [("blocks.0", "blocks.1"), ("norm",), ("head",)]


def test_a_part_that_nobody_can_write_leaves_its_place_to_what_is_inside_it(whole: Whole) -> None:
    found = scan(whole)
    rows = {row.path: row for row in found.rows}
    first = following(found, [])
    assert first == rows["blocks.0"]
    inside = following(found, [], [first])
    assert inside is not None
    assert (inside.path, inside.kind) == ("blocks.0.norm", "RMSNorm")
    assert following(found, [inside], [first]) not in (None, first, inside)
    assert following(found, list(found.rows)) is None


def test_a_captured_part_is_the_part_with_its_weights_and_inputs(
    whole: Whole, tmp_path: Path
) -> None:
    whole.capture("blocks.1.norm", tmp_path / "bundle")
    # In another process, as it will be: the class has no file that could be imported by name.
    code = (
        "import sys; from pathlib import Path; import torch;"
        "from kernelagent.tools.judge.bundle import load_bundle;"
        "p = load_bundle(Path(sys.argv[1])); m = p.build(); a, k = p.input_sets()['default'];"
        "torch.save((m(*a, **k), m.weight), sys.argv[2])"
    )
    out = tmp_path / "out.pt"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "bundle"), str(out)], check=True)
    answer, weight = torch.load(out)
    part = whole.submodule("blocks.1.norm")
    args, kwargs = load_bundle(tmp_path / "bundle").input_sets()["default"]
    assert torch.equal(weight, part.weight)
    assert torch.equal(answer, part(*args, **kwargs))
    assert args[0].shape == (2, 32, 128)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("blocks.7", "no submodule"),
        ("", "not the whole"),
        ("blocks", "not called"),
    ],
)
def test_a_part_that_cannot_be_captured_is_refused_with_the_reason(
    whole: Whole, tmp_path: Path, path: str, said: str
) -> None:
    with pytest.raises(ProblemError, match=said):
        whole.capture(path, tmp_path)


@pytest.mark.long
def test_the_whole_models_answer_tells_a_right_candidate_from_a_wrong_one() -> None:
    paths = ["blocks.0.norm", "norm"]
    right = verify_whole(SETTINGS, paths, NORM, 4.0)
    assert right.right, right.why
    assert right.calls == right.trials * len(paths)
    assert right.faster is None
    assert right.before_us is not None
    assert right.after_us is not None
    assert right.after_us < right.before_us
    wrong = verify_whole(SETTINGS, paths, NORM.replace("/ W + eps", "/ W + 0.1"), 4.0)
    assert not wrong.right
    assert wrong.why.startswith("wrong_output")
    assert wrong.before_us is None


@pytest.mark.long
def test_a_part_is_optimized_put_back_and_the_whole_is_verified(tmp_path: Path) -> None:
    words = [str(DECODER), "--submodule", "blocks.0.norm", "--device", "virtual", "--turns", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "kernelagent", "optimize", *words, "--json"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    found = from_json(done.stdout, PartsResult)
    (part,) = found.parts
    assert part.whole is not None
    assert part.whole.right
    assert (tmp_path / str(part.emitted)).is_file()
    assert (tmp_path / part.run / "whole_model.json").is_file()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_parts_with_most_to_gain_are_found_optimized_and_put_back(tmp_path: Path) -> None:
    words = [str(DECODER), "--top", "2", "--device", "virtual", "--turns", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "kernelagent", "optimize", *words],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    block, norm, mlp = from_json(done.stdout, PartsResult).parts
    # The built-in policy cannot write attention: the block is left, what is inside has its place.
    assert (block.path, block.run, block.emitted) == ("blocks.0", "", None)
    assert "--model" in block.why
    assert (norm.path, mlp.path) == ("blocks.0.norm", "blocks.0.mlp")
    told = done.stderr.decode()
    assert "part 1 of 2: blocks.0, blocks.1 (Block)" in told
    assert "blocks.0 is left as it is" in told
    assert norm.whole is not None
    assert norm.whole.right
    assert len(norm.whole.paths) == 5
    assert (tmp_path / str(norm.emitted)).is_file()
