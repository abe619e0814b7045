"""The short form of an emitted file, and the package that it asks."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.errors import UsageError
from kernelagent.dropin.emit import emit_module
from kernelagent.dropin.parts import TEMPLATE
from tests.dropin.emitted import CANDIDATE, CERTIFICATE, Block, estimated, facts_of

RUNTIME = Path(__file__).resolve().parents[2] / "runtime"
MOST_LINES = 250


def short(source: str = CANDIDATE) -> str:
    return emit_module(
        Candidate(source), facts_of(Block()), estimated(), CERTIFICATE, runtime="package"
    )


def test_the_file_is_short_enough_to_be_reviewed() -> None:
    assert len(short().splitlines()) - len(CANDIDATE.splitlines()) < MOST_LINES


@pytest.mark.long
def test_the_package_is_built_by_itself_with_what_the_long_form_holds(tmp_path: Path) -> None:
    build = [sys.executable, "setup.py", "-q", "build", "--build-base", str(tmp_path)]
    subprocess.run(build, cwd=RUNTIME, check=True, timeout=100)
    kept = tmp_path / "lib" / "kernelagent_runtime" / "section.py"
    assert kept.read_text(encoding="utf-8") == TEMPLATE.read_text(encoding="utf-8")
    assert not (RUNTIME / "kernelagent_runtime" / "section.py").exists()


@pytest.mark.long
def test_the_kernels_can_be_imported_without_the_package(tmp_path: Path) -> None:
    (tmp_path / "alone.py").write_text(short(), encoding="utf-8")
    program = (
        "import sys; sys.path.insert(0, '.'); import alone; alone.ModelNew()\n"
        "try: alone.optimized(alone.ModelNew())\n"
        "except ImportError as error: assert 'pip install kernelagent-runtime' in str(error)\n"
        "else: raise AssertionError"
    )
    subprocess.run([sys.executable, "-I", "-c", program], cwd=tmp_path, check=True, timeout=100)


def test_the_package_imports_torch_and_nothing_else() -> None:
    for path in (TEMPLATE, *(RUNTIME / "kernelagent_runtime").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.split(".")[0] in {"torch", *sys.stdlib_module_names}


def test_a_candidate_that_takes_a_name_of_the_file_is_refused() -> None:
    with pytest.raises(UsageError, match="defines _dropin, a name the emitted file needs"):
        short(CANDIDATE + "\n\ndef _dropin():\n    return 1\n")
