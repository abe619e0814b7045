"""`optimize --train` as a user does it, to an emitted module that is trained like the original."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kernelagent.tools.corpus.fixture import honest_kernel, problem_path

pytestmark = pytest.mark.long
ROOT = Path(__file__).resolve().parents[2]
BASE = "relu_affine_trained"
WITHOUT_BACKWARD = honest_kernel("relu_affine")


def reply(source: str, words: str) -> str:
    return json.dumps({"reply": f"{words}\n\n```python\n{source.strip()}\n```\n"})


def ran(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    folder = tmp_path_factory.mktemp("train")
    shutil.copy(problem_path(BASE), folder / "affine.py")
    turns = [
        reply(WITHOUT_BACKWARD, "Only a forward."),
        reply(honest_kernel(BASE), "With a backward of its own."),
    ]
    (folder / "talk.jsonl").write_text("\n".join(turns), encoding="utf-8")
    result = ran(
        folder, "-m", "kernelagent", "optimize", "affine.py", "--train", "--device", "virtual",
        "--model", "replay:talk.jsonl", "--json",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return folder, json.loads(result.stdout)


def test_a_forward_without_a_backward_is_refused_and_one_with_it_wins(
    done: tuple[Path, dict[str, object]],
) -> None:
    _, report = done
    turns = report["turns"]
    assert isinstance(turns, list)
    assert [turn["verdict"] for turn in turns] == ["rejected", "accepted"]
    assert turns[0]["reason"]["code"] == "wrong_structure"
    assert "detached" in turns[0]["reason"]["message"]


def test_the_report_and_the_emitted_file_say_whose_gradients_were_verified(
    done: tuple[Path, dict[str, object]],
) -> None:
    folder, report = done
    winner = report["winner"]
    assert isinstance(winner, dict)
    assert winner["mode"] == "train"
    assert winner["correctness"]["gradients"] == ["weight", "bias", "input 0"]
    text = (folder / "affine_optimized.py").read_text(encoding="utf-8")
    assert "in eval and train mode, with the gradients of weight, bias, input 0" in text
    assert '"modes": ["eval", "train"]' in text
    reported = next((folder / ".kernelagent").rglob("report.md")).read_text(encoding="utf-8")
    assert "Gradients verified like outputs, of weight, bias, input 0" in reported


TRAINING = textwrap.dedent("""
    import copy, warnings
    import torch
    import affine, affine_optimized

    # The guard asks where tensors are; Triton's own interpreter runs the kernels on the CPU here.
    affine_optimized.ENVELOPE_VERIFIED["device_types"] = ["cpu"]
    launched = []
    for name in ("relu_affine", "relu_affine_backward"):
        kernel = getattr(affine_optimized, name)
        run = kernel.run
        def counted(*args, _run=run, _name=name, **kwargs):
            launched.append(_name)
            return _run(*args, **kwargs)
        kernel.run = counted

    torch.manual_seed(0)
    original = affine.Model(200)
    torch.nn.init.normal_(original.weight)
    twin = copy.deepcopy(original)
    dropin = affine_optimized.optimized(original)
    steps = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (dropin, twin)]
    warnings.simplefilter("error")
    for at in range(4):
        dropin.train(at % 2 == 0), twin.train(at % 2 == 0)
        x = torch.randn(6, 200)
        inputs = [x.clone().requires_grad_(), x.clone().requires_grad_()]
        for module, optimizer, given in zip((dropin, twin), steps, inputs):
            optimizer.zero_grad()
            out = module(given)
            (out.square().mean() + out.sum()).backward()
            out = module(given)  # accumulates
            out.t().mul(0.5).sum().backward()
            optimizer.step()
        torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
        torch.testing.assert_close(dropin.weight.grad, twin.weight.grad)
        torch.testing.assert_close(dropin.state_dict(), twin.state_dict())
    assert dropin.weight is original.weight
    assert launched == ["relu_affine", "relu_affine_backward"] * 8, launched
    with torch.no_grad():
        torch.testing.assert_close(dropin(x), twin(x))
    assert launched[16:] == ["relu_affine"], launched
""")


def test_the_emitted_module_is_trained_by_its_kernels_step_for_step_like_the_original(
    done: tuple[Path, dict[str, object]],
) -> None:
    folder, _ = done
    (folder / "training.py").write_text(TRAINING, encoding="utf-8")
    result = ran(folder, "training.py", TRITON_INTERPRET="1")
    assert result.returncode == 0, result.stderr


def test_the_built_in_policy_writes_a_backward_that_is_accepted(tmp_path: Path) -> None:
    example = ROOT / "examples" / "rms_norm_residual.py"
    result = ran(
        tmp_path, "-m", "kernelagent", "optimize", str(example),
        "--train", "--device", "virtual", "--turns", "1", "--out", "trained.py", "--json",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    winner = json.loads(result.stdout)["winner"]
    assert winner["correctness"]["gradients"] == ["weight", "input 0", "input 1"]
    assert "torch.autograd.Function" in (tmp_path / "trained.py").read_text(encoding="utf-8")


def test_the_recorded_conversation_ends_in_an_accepted_backward(tmp_path: Path) -> None:
    recorded = ROOT / "tests" / "cassettes" / "train" / "rms_norm_residual.jsonl"
    result = ran(
        tmp_path, "-m", "kernelagent", "optimize", str(ROOT / "examples" / recorded.stem) + ".py",
        "--train", "--device", "virtual", "--model", f"replay:{recorded}", "--json",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    reported = [json.loads(line)["verdict"] for line in recorded.read_text().splitlines()]
    got = [(turn.get("reason") or {}).get("code", "accepted") for turn in report["turns"]]
    assert got == reported
    assert report["winner"]["correctness"]["gradients"] == ["weight", "input 0", "input 1"]
