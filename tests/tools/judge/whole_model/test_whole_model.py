"""A whole model: what its parts take, what is captured of one, and its answer with a candidate inside."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import ExitStatus, ProblemError
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.problem import Mode, ProblemSpec
from kernelagent.domain.serialization import from_json
from kernelagent.domain.whole_model import ScanRow, WholeModel
from kernelagent.loop.choosing_parts import following, places_of, proposed
from kernelagent.loop.run import RunResult
from kernelagent.loop.submodule import PartResult, PartsResult, put_back, text_of
from kernelagent.report.terminal.scan_text import scan_text
from kernelagent.storage.run_state import RunState
from kernelagent.tools.judge.problem.bundle import load_bundle
from kernelagent.tools.judge.whole_model.scan import scan
from kernelagent.tools.judge.whole_model.submodules import Whole
from kernelagent.tools.judge.whole_model.whole import verify_whole
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.evaluations import accepted
from tests.tools.judge.whole_model.envelopes import taken

DECODER = Path(__file__).resolve().parents[4] / "examples" / "models" / "decoder.py"
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


@pytest.mark.long
def test_a_scan_ranks_parts_by_what_they_could_give(whole: Whole) -> None:
    result = scan(whole)
    rows = {row.path: row for row in result.rows}
    gains = [row.gain_at_most or 0.0 for row in result.rows]
    assert gains == sorted(gains, reverse=True)
    assert result.time == "estimate"
    assert rows.keys() == {n for n, _ in whole.module.named_modules() if n and n != "blocks"}
    assert rows["blocks.0"].alike == ("blocks.1",)
    for row in result.rows:
        assert row.calls == 1
        assert row.bound_us is not None
        assert 0 < row.bound_us <= row.device_us <= result.total_us
        saved = row.device_us - row.bound_us
        assert row.gain_at_most == pytest.approx(result.total_us / (result.total_us - saved), 1e-2)
    assert "nothing was timed" in scan_text(result)
    assert not any("never called" in note for note in result.notes)


@pytest.mark.long
def test_a_scan_folds_like_parts_and_ends_with_the_command_to_type(whole: Whole) -> None:
    result = scan(whole)
    long = replace(result.rows[0], path="a.path.that.is.longer.than.all.the.others", alike=())
    lines = scan_text(replace(result, rows=(*result.rows, long)), "kernelagent optimize m.py")
    head, *rows = lines.splitlines()[1:]
    rows = rows[: next(at for at, line in enumerate(rows) if line.startswith("outside"))]
    assert next(row.split()[:2] for row in rows if row.startswith("blocks")) == ["blocks.0", "x2"]
    assert not any(row.startswith("blocks.1 ") for row in rows)
    assert {len(row) for row in rows} == {len(head)}
    assert "at most: the speedup of the whole model" in lines
    assert lines.endswith("next: kernelagent optimize m.py\n")


def test_the_way_back_into_the_model_has_its_import_and_the_parts_like_it() -> None:
    device = DeviceFacts("virtual", "GPU", "sm_90", "2", "3")
    whole = WholeModel("m", ("blocks.0",), True, "right", 3, 3, device)
    part = PartResult("blocks.0", "run", "why", "m_blocks_0_optimized.py", whole, ("blocks.1",))
    text = text_of(PartsResult("m.py", (part,)))
    assert "from m_blocks_0_optimized import optimized" in text
    assert "model.set_submodule(path, optimized(model.get_submodule(path)))" in text
    assert "parts of the same class and shapes" in text
    assert "blocks.1" in text


def test_a_part_stopped_by_the_user_is_no_part_without_a_result() -> None:
    part = PartResult("blocks.0", "", "stopped by the user before its first turn")
    assert PartsResult("m.py", (part,), interrupted=True).exit_status is ExitStatus.INTERRUPTED
    assert PartsResult("m.py", (part,)).exit_status is ExitStatus.NOT_FOUND


def test_a_part_gone_on_with_and_stopped_again_is_named_with_its_reason() -> None:
    model = ProblemSpec(path=str(DECODER))
    part = ProblemSpec(bundle="b", module="blocks_0", submodule="blocks.0", whole=model)
    stopped = RunResult(
        Path("run"),
        "interrupted",
        ExitStatus.INTERRUPTED,
        "stopped by the user",
        None,
        None,
        RunState(),
    )
    result = put_back(part, RunConfig(device="virtual"), stopped)
    assert result.exit_status is ExitStatus.INTERRUPTED
    assert text_of(result) == (
        "blocks.0: no better module: stopped by the user\n"
        "  report: run/report.md, report.html beside it\n"
    )


@pytest.mark.long
def test_a_file_that_could_not_be_tried_in_the_whole_model_is_taken_away(tmp_path: Path) -> None:
    written = tmp_path / "m_blocks_0_optimized.py"
    for path in (written, tmp_path / "module.py"):
        path.write_text(NORM, encoding="utf-8")
    (tmp_path / "broken.py").write_text("raise RuntimeError('gone')\n", encoding="utf-8")
    model = ProblemSpec(path=str(tmp_path / "broken.py"))
    part = ProblemSpec(bundle="b", module="blocks_0", submodule="blocks.0", whole=model)
    result = RunResult(tmp_path, "better", ExitStatus.OK, "done", None, written, RunState())
    with pytest.raises(ProblemError, match="gone"):
        put_back(part, RunConfig(device="virtual"), result)
    assert not written.exists()
    assert (tmp_path / "module.py").exists()


@pytest.mark.parametrize(
    ("path", "meant"),
    [("blocks.0.norn", "blocks.0.norm"), ("0.norm", "blocks.0.norm"), ("block.1", "blocks.1")],
)
def test_a_path_that_leads_nowhere_is_told_with_those_of_nearly_its_name(
    whole: Whole, path: str, meant: str
) -> None:
    with pytest.raises(ProblemError, match=f"did you mean [^?]*{meant}"):
        whole.submodule(path)


@pytest.mark.long
def test_a_part_that_was_gone_on_with_names_the_parts_like_it(tmp_path: Path) -> None:
    written = tmp_path / "m_blocks_0_norm_optimized.py"
    for path in (written, tmp_path / "module.py"):
        path.write_text(NORM, encoding="utf-8")
    model = ProblemSpec(path=str(DECODER))
    part = ProblemSpec(bundle="b", module="blocks_0_norm", submodule="blocks.0.norm", whole=model)
    winner = replace(accepted(2.0), envelope=taken([2, 32, 128]))
    result = RunResult(tmp_path, "better", ExitStatus.OK, "done", winner, written, RunState())
    (done,) = put_back(part, RunConfig(device="virtual"), result).parts
    assert done.whole is not None
    assert done.whole.right, done.whole.why
    assert "blocks.1.norm" in done.alike


@pytest.mark.long
def test_the_parts_chosen_neither_hold_each_other_nor_repeat(whole: Whole) -> None:
    result = scan(whole)
    taken: list[ScanRow] = []
    chosen = []
    while len(taken) < 3:
        row = following(result, taken)
        assert row is not None
        chosen.append(places_of(row, taken))
        taken.append(row)
    assert chosen == [("blocks.0", "blocks.1"), ("norm",), ("head",)]


@pytest.mark.long
def test_a_part_that_nobody_can_write_leaves_its_place_to_what_is_inside_it(whole: Whole) -> None:
    result = scan(whole)
    rows = {row.path: row for row in result.rows}
    first = following(result, [])
    assert first == rows["blocks.0"]
    inside = following(result, [], [first])
    assert inside is not None
    assert (inside.path, inside.kind) == ("blocks.0.norm", "RMSNorm")
    assert following(result, [inside], [first]) not in (None, first, inside)
    assert following(result, list(result.rows)) is None


@pytest.mark.long
def test_a_captured_part_is_the_part_with_its_weights_and_inputs(
    whole: Whole, tmp_path: Path
) -> None:
    alike = whole.capture("blocks.1.norm", tmp_path / "bundle")
    others = {"blocks.0.norm", "blocks.0.second_norm", "blocks.1.second_norm", "norm"}
    assert set(alike) == others
    # In another process, as it will be: the class has no file that could be imported by name.
    code = (
        "import sys; from pathlib import Path; import torch;"
        "from kernelagent.tools.judge.problem.bundle import load_bundle;"
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
        ("blocks", r"a ModuleList, which only holds others; name one of its parts: blocks\.0, "),
    ],
)
def test_a_part_that_cannot_be_captured_is_refused_with_the_reason(
    whole: Whole, tmp_path: Path, path: str, said: str
) -> None:
    with pytest.raises(ProblemError, match=said):
        whole.capture(path, tmp_path)


def test_a_model_without_submodules_is_said_to_have_none(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(
        "import torch\n\n"
        "class Model(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n\n"
        "def get_inputs():\n    return [torch.ones(3)]\n\ndef get_init_inputs():\n    return []\n"
    )
    alone = Whole.open(JudgeSettings(ProblemSpec(path=str(file)), device="virtual"))
    with pytest.raises(ProblemError, match="it has none: leave --submodule out"):
        alone.submodule("norm")


@pytest.mark.long
def test_the_whole_models_answer_tells_a_right_candidate_from_a_wrong_one(
    fork_server: ForkServer,
) -> None:
    paths = ["blocks.0.norm", "norm"]
    right = verify_whole(SETTINGS, paths, NORM, 4.0, taken([2, 32, 128]), fork_server)
    assert right.right, right.why
    assert right.calls == right.trials * len(paths)
    assert right.faster is None
    assert right.before_us is not None
    assert right.after_us is not None
    assert right.after_us < right.before_us
    source = NORM.replace("/ W + eps", "/ W + 0.1")
    wrong = verify_whole(SETTINGS, paths, source, 4.0, taken([2, 32, 128]), fork_server)
    assert not wrong.right
    assert wrong.why.startswith("wrong_output")
    assert wrong.before_us is None


CHANNELS = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 8, 3, padding=1)
        self.part = torch.nn.SiLU()

    def forward(self, x):
        return self.part(self.conv(x))


def get_inputs():
    return [torch.randn(2, 4, 8, 8).to(memory_format=torch.channels_last)]
"""
DOUBLE = """
import torch


class ModelNew(torch.nn.Module):
    @classmethod
    def from_reference(cls, reference):
        return cls()

    def forward(self, x):
        return x * 2
"""


def test_a_part_is_captured_with_the_strides_it_gets_in_the_model(tmp_path: Path) -> None:
    settings = _in_channels_last(tmp_path)
    Whole.open(settings).capture("part", tmp_path / "part")
    ((x,), _) = load_bundle(tmp_path / "part").input_sets()["default"]
    assert x.stride() == (512, 1, 64, 8)


@pytest.mark.long
def test_kernels_that_never_answer_in_the_whole_model_are_no_success(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    settings = _in_channels_last(tmp_path)
    # As wrong as can be: nothing of it is run.
    row_by_row = taken([2, 8, 8, 8], strides=[512, 64, 8, 1])
    unused = verify_whole(settings, ["part"], DOUBLE, 2.0, row_by_row, fork_server)
    assert not unused.right
    assert (unused.calls, unused.by_original) == (0, 3)
    assert "kernels_not_used" in unused.why
    assert "the strides (512, 1, 64, 8)" in unused.why
    assert "answered all 3 calls" in unused.why
    used = verify_whole(
        settings, ["part"], DOUBLE, 2.0, taken([2, 8, 8, 8], strides=[512, 1, 64, 8]), fork_server
    )
    assert used.why.startswith("wrong_output")


def _in_channels_last(folder: Path) -> JudgeSettings:
    file = folder / "model.py"
    file.write_text(CHANNELS, encoding="utf-8")
    return JudgeSettings(ProblemSpec(path=str(file)), device="virtual")


@pytest.mark.long
def test_a_part_is_optimized_put_back_and_the_whole_is_verified(tmp_path: Path) -> None:
    words = [str(DECODER), "--submodule", "blocks.0.norm", "--device", "virtual", "--turns", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "kernelagent", "optimize", *words, "--json"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    result = from_json(done.stdout, PartsResult)
    (part,) = result.parts
    assert part.whole is not None
    assert part.whole.right
    assert "the whole model runs first, to see what blocks.0.norm gets" in done.stderr.decode()
    assert (tmp_path / str(part.emitted)).is_file()
    assert (tmp_path / part.run / "whole_model.json").is_file()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_part_with_most_to_gain_is_found_optimized_and_put_back(tmp_path: Path) -> None:
    done = top(1, DECODER, tmp_path)
    (block,) = from_json(done.stdout, PartsResult).parts
    assert "the whole model runs first, to find the parts with most to gain" in done.stderr.decode()
    assert "part 1 of 1: blocks.0, blocks.1 (Block)" in done.stderr.decode()
    assert block.whole is not None
    assert block.whole.right
    assert block.whole.paths == ("blocks.0", "blocks.1")
    assert (tmp_path / str(block.emitted)).is_file()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_part_that_cannot_be_written_leaves_its_place_to_what_is_inside(tmp_path: Path) -> None:
    model = tmp_path / "rotated.py"
    # The policy writes no such table into a file, and no state_dict holds it.
    model.write_text(
        in_a_block('self.register_buffer("t", torch.randn(16, 96), persistent=False)', "x + self.t")
    )
    done = top(1, model, tmp_path)
    block, norm = from_json(done.stdout, PartsResult).parts
    assert (block.path, block.run, block.emitted) == ("block", "", None)
    assert "--model" in block.why
    assert "block is left as it is" in done.stderr.decode()
    assert norm.path == "block.norm"
    assert norm.whole is not None
    assert norm.whole.right


def top(parts: int, model: Path, folder: Path) -> subprocess.CompletedProcess[bytes]:
    words = [str(model), "--top", str(parts), "--device", "virtual", "--turns", "1", "--json"]
    return subprocess.run(
        [sys.executable, "-m", "kernelagent", "optimize", *words],
        cwd=folder,
        capture_output=True,
        check=True,
    )


def test_a_model_whose_way_depends_on_the_data_is_scanned(tmp_path: Path) -> None:
    model = tmp_path / "branching.py"
    model.write_text(in_a_block("pass", "x if x.sum() < 1e9 else x + 1"))
    whole = Whole.open(JudgeSettings(ProblemSpec(path=str(model)), device="virtual"))
    rows = {row.path: row for row in scan(whole).rows}
    assert set(rows) == {"block", "block.norm", "head"}
    assert rows["block"].device_us > rows["block.norm"].device_us > 0
    # What a forward must do at least is not known where it looks at values.
    assert (rows["block"].gain_at_most, rows["block.norm"].gain_at_most) == (
        None,
        pytest.approx(3, 0.5),
    )


def in_a_block(made: str, answer: str) -> str:
    """A model with a norm in a block, which makes something and answers something of its own."""
    return _MODEL.format(made=made, answer=answer)


_MODEL = """import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(96))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm()
        {made}

    def forward(self, x):
        x = self.norm(x)
        return {answer}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.head = nn.Linear(96, 8)

    def forward(self, x):
        return self.head(self.block(x))


def get_inputs():
    return [torch.randn(16, 96)]


def get_init_inputs():
    return []
"""


OUTPUTS = """\
import torch
from collections import namedtuple
from torch import nn

Answer = namedtuple("Answer", "hidden")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.act = nn.SiLU()

    def forward(self, x):
        return Answer(self.act(self.norm(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return self.block(x).hidden


def get_inputs():
    return {"short": [torch.randn(8, 64)], "long": [torch.randn(32, 64)]}


def get_init_inputs():
    return []
"""


@pytest.fixture
def with_outputs(tmp_path: Path) -> JudgeSettings:
    path = tmp_path / "outputs.py"
    path.write_text(OUTPUTS, encoding="utf-8")
    return JudgeSettings(ProblemSpec(path=str(path)), device="virtual")


def test_what_no_written_file_can_return_is_named_and_not_proposed_first(
    with_outputs: JudgeSettings,
) -> None:
    result = scan(Whole.open(with_outputs))
    rows = {row.path: row for row in result.rows}
    assert str(rows["block"].returns).endswith("Answer")
    assert rows["block.norm"].returns is None
    proposed = following(result, ())
    assert proposed is not None
    assert proposed.path != "block"
    assert "its result is of class Answer, so take a part inside it" in scan_text(result)


def test_a_part_is_captured_with_what_every_input_set_gives_it(
    with_outputs: JudgeSettings, tmp_path: Path
) -> None:
    Whole.open(with_outputs).capture("block.norm", tmp_path / "part")
    sets = load_bundle(tmp_path / "part").input_sets()
    assert {name: tuple(args[0].shape) for name, (args, _) in sets.items()} == {
        "short": (8, 64),
        "long": (32, 64),
    }


RECURRENT = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(32, 32, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 4))

    def forward(self, x):
        return self.head(self.lstm(x)[0].mean(1))


def get_inputs():
    return [torch.randn(2, 12, 32)]


def get_init_inputs():
    return []
"""


def test_the_times_of_parts_and_of_the_forward_around_them_add_up(tmp_path: Path) -> None:
    path = tmp_path / "recurrent.py"
    path.write_text(RECURRENT, encoding="utf-8")
    result = scan(Whole.open(JudgeSettings(ProblemSpec(path=str(path)), device="virtual")))
    rows = {row.path: row for row in result.rows}
    assert result.own_us is not None
    outer = rows["lstm"].device_us + rows["head"].device_us + result.own_us
    assert outer + result.once_us == pytest.approx(result.total_us, rel=0.02)
    inner = sum(row.device_us for name, row in rows.items() if name.startswith("head."))
    assert inner == pytest.approx(rows["head"].device_us, rel=0.02)
    assert "that a forward costs once" in scan_text(result)


def test_a_projected_lstm_is_told_apart_as_what_the_built_in_policy_leaves_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "recurrent.py"
    projected = RECURRENT.replace("LSTM(32, 32,", "LSTM(32, 64, proj_size=32,")
    path.write_text(projected, encoding="utf-8")
    result = scan(Whole.open(JudgeSettings(ProblemSpec(path=str(path)), device="virtual")))
    rows = {row.path: row for row in result.rows}
    assert "one library call" in str(rows["lstm"].left_alone)
    assert rows["head"].left_alone is None
    assert str(result.left_alone).startswith("lstm in it is torch's LSTM with projected states")
    step = proposed(result, built_in=True)
    assert step is not None
    assert step.part == "head"


DROPPING = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1))
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        return self.norm(x + self.mlp(x))


def get_inputs():
    return [torch.randn(8, 64)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_a_part_that_drops_out_is_not_proposed_for_training(tmp_path: Path, mode: Mode) -> None:
    path = tmp_path / "dropping.py"
    path.write_text(DROPPING, encoding="utf-8")
    spec = ProblemSpec(path=str(path))
    rows = {
        row.path: row.cannot
        for row in scan(Whole.open(JudgeSettings(spec, device="virtual", mode=mode))).rows
    }
    assert rows["norm"] is None
    if mode == "train":
        assert rows["mlp"] is not None
        assert "drops out at random: 2 (p=0.1)" in rows["mlp"]
    else:
        assert rows["mlp"] is None
