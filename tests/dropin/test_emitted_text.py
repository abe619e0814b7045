from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import Evaluation, InputSetResult, Reason
from kernelagent.dropin import own_builtins
from kernelagent.dropin.emit import emit_module
from kernelagent.dropin.parts import dropin_text
from kernelagent.storage.output_file import MARKER
from tests.dropin.emitted import (
    CANDIDATE,
    CERTIFICATE,
    Block,
    estimated,
    facts_of,
    imported,
    measured,
    text_for,
)


def docstring(text: str) -> str:
    return ast.get_docstring(ast.parse(text)) or ""


def test_the_candidate_stands_in_the_file_word_for_word() -> None:
    before, after = CANDIDATE.split("from __future__ import annotations\n")
    assert before + after.rstrip() in text_for()


@pytest.mark.long
def test_the_file_imports_torch_and_nothing_of_kernelagent(tmp_path: Path) -> None:
    (tmp_path / "alone.py").write_text(text_for(), encoding="utf-8")
    program = (
        "import sys; sys.path.insert(0, '.'); import alone; "
        "assert not any(n.split('.')[0] == 'kernelagent' for n in sys.modules); "
        "assert alone.CALLS == [0]; assert callable(alone.optimized)"
    )
    subprocess.run([sys.executable, "-I", "-c", program], cwd=tmp_path, check=True, timeout=100)


def test_importing_the_file_executes_only_definitions() -> None:
    allowed = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    for node in ast.parse(text_for()).body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        assert isinstance(node, allowed) or is_docstring, ast.unparse(node)


def test_no_line_reaches_100_columns_for_a_long_problem() -> None:
    facts = facts_of(Block(), f"(8, {', '.join(f'option_{i}={i}' for i in range(40))})")
    command = "kernelagent evaluate " + " ".join(f"--option-{i} value" for i in range(30))
    certificate = replace(CERTIFICATE, reproduce=command)
    text = emit_module(Candidate(CANDIDATE), facts, estimated(), certificate)
    assert max(map(len, text.splitlines())) < 100
    ast.parse(text)


def test_a_file_that_was_not_timed_says_estimate_and_never_speedup() -> None:
    head = docstring(text_for())
    assert "Verified, not timed" in head
    assert "estimate" in head
    assert "speedup" not in head
    assert "1.5" not in head.replace("15", "")


def test_a_measured_file_gives_speedup_interval_baseline_device_and_versions() -> None:
    head = docstring(emit_module(Candidate(CANDIDATE), facts_of(Block()), measured(), CERTIFICATE))
    head = " ".join(head.split())
    for fact in ("speedup of 1.5x", "95 % interval 1.45 to 1.55", "`eager`", "H200", "sm_90"):
        assert fact in head
    for fact in ("torch 2.13.0", "triton 3.9.0", "driver 580.1", CERTIFICATE.run, "2026-01-01"):
        assert fact in head
    assert "estimate" not in head


@pytest.mark.long
def test_the_header_says_what_was_not_verified_and_how_to_judge_again() -> None:
    head = docstring(text_for())
    assert "Not verified:" in head
    assert "gradients" in head
    assert CERTIFICATE.reproduce in head
    assert MARKER in "\n".join(text_for().splitlines()[:10])


def test_sizes_that_were_really_executed_stand_in_the_header() -> None:
    row = InputSetResult("default", "(x: float32[4, 8])", executed="(x: float32[2, 8])")
    evaluation = replace(estimated(), input_sets=(row,))
    text = emit_module(Candidate(CANDIDATE), facts_of(Block()), evaluation, CERTIFICATE)
    assert "executed at (x: float32[2, 8])" in docstring(text)


def test_quotes_and_backslashes_in_a_header_do_not_end_it() -> None:
    certificate = replace(CERTIFICATE, reproduce='kernelagent evaluate \'a\\""".py\' b.py')
    text = emit_module(Candidate(CANDIDATE), facts_of(Block()), estimated(), certificate)
    assert "Not verified" in docstring(text)


@pytest.mark.parametrize(
    "line",
    [
        "from __future__ import annotations; import torch",
        "from __future__ import (\n    annotations,\n)\nimport torch",
        '"""Doc."""\nfrom __future__ import annotations\nimport torch',
        "import torch",
    ],
)
def test_future_imports_come_first_however_they_were_written(line: str, tmp_path: Path) -> None:
    source = CANDIDATE[CANDIDATE.index("import torch\n") + len("import torch\n") :]
    emitted = imported(text_for(f"{line}\n{source}"), tmp_path)
    assert isinstance(emitted.optimized(Block()), Block)


def test_a_private_name_of_the_candidate_is_left_to_it(tmp_path: Path) -> None:
    source = CANDIDATE + '\n\ndef _layout() -> str:\n    return "mine"\n\n\n_bind = "mine too"\n'
    emitted = imported(text_for(source), tmp_path)
    assert emitted._layout() == "mine"
    assert emitted._bind == "mine too"
    x = torch.randn(4, 8)
    block = Block().eval()
    with torch.no_grad():
        torch.testing.assert_close(emitted.optimized(block)(x), block(x))
    assert emitted.CALLS == [1]


def test_a_public_name_taken_by_the_candidate_is_refused_with_its_line() -> None:
    source = "def optimized(x):\n    return x\n\n\n" + CANDIDATE.split("annotations\n", 1)[1]
    with pytest.raises(UsageError, match="line 1 of the candidate defines optimized"):
        text_for(source)


LIES = """


def any(questions):
    return False


def len(nest):
    return 0


def isinstance(value, kind):
    return True
"""


@pytest.mark.parametrize(
    "binding",
    [
        LIES,
        "\n\nglobals().update(any=lambda _: False, len=lambda _: 0, isinstance=lambda *_: True)\n",
    ],
    ids=["by name", "by computed names"],
)
def test_a_builtin_that_the_candidate_binds_is_not_the_guards(binding: str, tmp_path: Path) -> None:
    emitted = imported(text_for(CANDIDATE + binding), tmp_path)
    block = Block().eval()
    dropin = emitted.optimized(block)
    x, wider = torch.randn(4, 8), torch.randn(5, 8)
    with torch.no_grad():
        torch.testing.assert_close(dropin(x), block(x))
        assert emitted.CALLS == [1]
        with pytest.warns(emitted.OutsideEnvelopeWarning):
            torch.testing.assert_close(dropin(wider), block(wider))
    assert emitted.CALLS == [1]


@pytest.mark.long
def test_all_builtins_of_the_drop_in_can_be_read_from_their_module() -> None:
    text = dropin_text()
    names = own_builtins.bound_by(ast.parse("from torch import *"), (), text)
    assert {"any", "len", "isinstance", "getattr", "min"} <= {*names}
    read = {
        n.id
        for n in ast.walk(ast.parse(own_builtins.with_own(text, names)))
        if isinstance(n, ast.Name)
    }
    assert not read & {*names}


@pytest.mark.parametrize("name", ["super", "_dropin_builtins", "_dropin_Guard"])
def test_a_name_that_the_drop_in_cannot_do_without_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}, a name the emitted file needs for itself"):
        text_for(f"{CANDIDATE}\n\n_Guard = 1\n{name} = 1\n")


def test_only_an_accepted_evaluation_with_an_envelope_is_emitted() -> None:
    refused = Evaluation("rejected", estimated().device, reason=Reason("wrong_output", "wrong"))
    for evaluation in (refused, replace(estimated(), envelope={})):
        with pytest.raises(ValueError, match=r"accepted|inputs"):
            emit_module(Candidate(CANDIDATE), facts_of(Block()), evaluation, CERTIFICATE)


def test_dtypes_and_callables_of_torch_are_constructor_arguments(tmp_path: Path) -> None:
    source = CANDIDATE.replace("eps: float = 1e-6)", "eps: float = 1e-6, **rest)", 1).replace(
        "self.eps = eps", "self.eps = eps; GIVEN.append(rest)", 1
    )
    source = source.replace("CALLS = [0]", "CALLS = [0]\nGIVEN = []")
    arguments = "(8, act=torch.nn.functional.relu, dtype=torch.float32, bound=float('inf'))"
    emitted = imported(text_for(source, facts_of(Block(), arguments)), tmp_path)
    emitted.optimized(Block())
    given = {"act": torch.nn.functional.relu, "dtype": torch.float32, "bound": float("inf")}
    assert [given] == emitted.GIVEN


def test_arguments_that_cannot_be_written_are_asked_of_the_user(tmp_path: Path) -> None:
    emitted = imported(text_for(facts=facts_of(Block(), "(<Config>, eps=1e-06)")), tmp_path)
    with pytest.raises(TypeError, match="fast=ModelNew"):
        emitted.optimized(Block())
    assert isinstance(emitted.optimized(Block(), fast=emitted.ModelNew(8)), Block)


def test_the_file_has_not_grown_beyond_the_kernels() -> None:
    assert len(text_for().splitlines()) - len(CANDIDATE.splitlines()) < 757


def test_what_keeps_random_numbers_is_left_out_where_construction_only_allocates(
    tmp_path: Path,
) -> None:
    module = torch.nn.Linear(8, 8)
    source = """\
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty((8, 8), dtype=torch.float32))
        self.bias = nn.Parameter(torch.empty((8,), dtype=torch.float32))

    def forward(self, x):
        return x @ self.weight.t() + self.bias
"""
    allocates = text_for(source, facts_of(module, "()"))
    draws = text_for(source.replace("torch.empty((8,)", "torch.randn((8,)"), facts_of(module, "()"))
    assert "fork_rng" not in allocates
    assert "_Unfilled" not in allocates
    assert "fork_rng" in draws
    assert "_Unfilled" in draws
    dropin = imported(allocates, tmp_path).optimized(module.eval())
    x = torch.randn(4, 8)
    with torch.no_grad():
        torch.testing.assert_close(dropin(x), module(x))
