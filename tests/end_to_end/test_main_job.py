"""The main job as a user does it: command and library, on the virtual device, with a recorded model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from kernelagent.cli.main import main
from kernelagent.cli.schemas import schemas
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.storage.run_log import read_events
from kernelagent.storage.run_state import fold
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.judges import open_judge

ROOT = Path(__file__).resolve().parents[2]
OPTIMIZE = ("optimize", "scale.py", "--model", "replay:talk.jsonl")

PROBLEM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x):
        y = torch.relu(x)
        return y * self.weight + y


def get_inputs():
    return [torch.randn(5, 90)]


def get_init_inputs():
    return [90]
"""

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_scale(x_ptr, w_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    w = tl.load(w_ptr + i % width, mask=mask)
    y = tl.maximum(x, 0.0)
    tl.store(out_ptr + i, y * w + y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    @classmethod
    def from_reference(cls, shell):
        return cls(shell.weight.shape[0])

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        relu_scale[(triton.cdiv(n, 128),)](x, self.weight, out, n, x.shape[-1], BLOCK=128)
        return out
"""


def reply(source: str, words: str) -> str:
    return f"{words}\n\n```python\n{source.strip()}\n```\n"


def written(folder: Path) -> Path:
    """The folder with the problem and a recorded conversation in it."""
    (folder / "scale.py").write_text(PROBLEM, encoding="utf-8")
    conversation = [
        reply(KERNEL.replace("tl.maximum", "tl.maximal"), "A first version."),
        "I need to think about this.",
        reply(KERNEL.replace("triton.cdiv(n, 128)", "n // 128"), "The name was wrong."),
        reply(KERNEL, "The grid must round up."),
    ]
    lines = [json.dumps({"reply": text}) for text in conversation]
    (folder / "talk.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path)


@dataclass(frozen=True)
class Optimized:
    """The folder of a user who has optimized a problem, and what the command printed."""

    folder: Path
    report: dict[str, Any]


@pytest.fixture(scope="module")
def optimized(tmp_path_factory: pytest.TempPathFactory) -> Optimized:
    folder = written(tmp_path_factory.mktemp("users"))
    temporary = folder / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "kernelagent", *OPTIMIZE, "--json"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Optimized(folder, json.loads(done.stdout))


def kernelagent(*words: str) -> int:
    """The exit status of the command, called in this process."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


@pytest.mark.long
def test_a_conversation_that_repairs_itself_ends_in_a_module(optimized: Optimized) -> None:
    report = optimized.report
    verdicts = [turn["verdict"] for turn in report["turns"]]
    assert verdicts == ["rejected", "void", "rejected", "accepted"]
    assert report["turns"][0]["reason"]["code"] == "compile_error"
    assert report["turns"][2]["reason"]["code"] == "wrong_output"
    assert report["winner"]["timing"] is None, "nothing was timed without a GPU"
    assert report["winner"]["estimate"]["label"] == "estimate"
    assert report["module"] == "scale_optimized.py"

    run = Path(optimized.folder / report["folder"])
    state = fold(read_events(run / "events.jsonl"))
    assert [turn.accepted for turn in state.history.turns] == [False, False, False, True]
    for name in ("report.md", "report.json", "module.py"):
        assert (run / name).is_file()
    text = (run / "report.md").read_text(encoding="utf-8")
    assert "not timed" in text
    assert "speedup" not in text.lower()


@pytest.mark.long
def test_a_run_leaves_nothing_in_the_folder_for_temporary_files(optimized: Optimized) -> None:
    assert list((optimized.folder / "tmp").iterdir()) == []


@pytest.mark.long
def test_the_judge_accepts_the_emitted_module(
    optimized: Optimized, fork_server: ForkServer
) -> None:
    problem = ProblemSpec(path=str(optimized.folder / "scale.py"))
    with open_judge(JudgeSettings(problem, device="virtual"), fork_server) as judge:
        source = (optimized.folder / "scale_optimized.py").read_text(encoding="utf-8")
        assert judge.evaluate(source, "turn", lambda _: None).accepted


@pytest.mark.long
def test_the_command_accepts_the_emitted_module(
    optimized: Optimized, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(optimized.folder)
    assert kernelagent("evaluate", "scale.py", "scale_optimized.py", "--json") == 0
    jsonschema.validate(json.loads(capfd.readouterr().out), schemas()["evaluation.json"])


@pytest.mark.long
def test_a_run_can_be_replayed_over_what_it_wrote(
    optimized: Optimized, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(optimized.folder, tmp_path / "again")
    monkeypatch.chdir(folder)
    run = str(optimized.report["folder"])
    assert kernelagent("optimize", "scale.py", "--model", f"replay:{run}", "--force") == 0


@pytest.mark.long
def test_the_emitted_file_needs_only_torch_and_triton(optimized: Optimized) -> None:
    code = textwrap.dedent(
        """
        import sys, torch, warnings
        import scale_optimized, scale
        assert "kernelagent" not in sys.modules
        module = scale.Model(90).eval()
        fast = scale_optimized.optimized(module)
        x = torch.randn(3, 90)
        with warnings.catch_warnings(record=True) as shown, torch.no_grad():
            warnings.simplefilter("always")
            assert torch.equal(fast(x), module(x))
        assert shown, "a CPU tensor is outside what was verified, and this is said"
        assert list(fast.state_dict()) == ["weight"]
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=optimized.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_nothing_better_is_exit_one_and_writes_no_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (folder / "talk.jsonl").write_text(json.dumps({"reply": "No."}), encoding="utf-8")
    assert kernelagent(*OPTIMIZE) == 1
    assert "no better module" in capfd.readouterr().out
    assert not (folder / "scale_optimized.py").exists()


def test_a_file_of_the_user_is_never_overwritten_unasked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (folder / "scale_optimized.py").write_text("mine = True\n", encoding="utf-8")
    assert kernelagent(*OPTIMIZE) == 2
    assert "--force" in capfd.readouterr().err
    assert (folder / "scale_optimized.py").read_text(encoding="utf-8") == "mine = True\n"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("optimize", "nowhere.py"), 2, "no file nowhere.py"),
        (("optimize", "scale.py", "--device", "gpu"), 2, "auto, cuda"),
        (("optimize", "scale.py", "--policy", "some"), 2, "coverage:X"),
        (("optimize", "scale.py", "--strategy", "luck"), 2, "sequential"),
        (("optimize", "scale.py", "--set", "depth=3"), 2, "no option"),
        (("optimize", "scale.py", "--model", "gpt"), 2, "replay:PATH"),
        (("optimize", "scale.py", "--no-such-flag"), 2, "no-such-flag"),
        (("evaluate", "scale.py", "nowhere.py"), 2, "no candidate file"),
        (("optimize", "--resume", "nothing"), 2, "no run"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage_is_told_in_a_sentence(
    folder: Path,
    words: tuple[str, ...],
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    assert kernelagent(*words) == status
    assert said in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_the_environments_fault(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert kernelagent("evaluate", "scale.py", "scale.py", "--device", "cuda") == 3
    assert "--device virtual" in capfd.readouterr().err


@pytest.mark.long
def test_a_live_module_gets_a_drop_in_that_shares_its_parameters(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "talk.jsonl").write_text(json.dumps({"reply": reply(KERNEL, "Once.")}))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    import scale  # type: ignore[import-not-found]

    import kernelagent as library

    module = scale.Model(90).eval()
    result = library.optimize(
        module,
        (torch.randn(5, 90),),
        model="replay:talk.jsonl",
        device="virtual",
        envelope_seconds=0,
    )
    assert result.path is not None
    assert result.faster is None
    assert result.speedup is None, "an estimate is never called a speedup"
    assert result.evaluation is not None
    assert result.evaluation.accepted
    assert result.report.is_file()
    assert dict(result.module.named_parameters())["weight"] is module.weight
    with torch.no_grad():
        x = torch.randn(2, 90)
        assert torch.equal(result.module(x), module(x))


@pytest.mark.long
def test_a_source_or_a_file_is_evaluated_from_code(folder: Path) -> None:
    import kernelagent as library

    result = library.evaluate(str(folder / "scale.py"), KERNEL, device="virtual")
    assert result.accepted
    assert result.hashes is not None
