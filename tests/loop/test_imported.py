"""What `kernelagent import` takes for the candidate."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.domain.errors import UsageError
from kernelagent.loop.imported import source_in

OURS = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
THEIRS = OURS.replace("ModelNew", "FastNorm")


def file(folder: Path, text: str) -> Path:
    path = folder / "kernels.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_with_the_class_is_taken_as_it_is(tmp_path: Path) -> None:
    assert source_in(file(tmp_path, OURS), None) == OURS


def test_a_class_of_another_name_is_given_ours(tmp_path: Path) -> None:
    source = source_in(file(tmp_path, THEIRS), "FastNorm")
    assert source.startswith(THEIRS.rstrip())
    assert source.endswith("class ModelNew(FastNorm):\n    pass\n")


def test_without_the_class_the_option_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--class"):
        source_in(file(tmp_path, THEIRS), None)


def test_a_file_that_needs_its_package_is_refused_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 1: what it imports from its own package"):
        source_in(file(tmp_path, f"from .ops import norm\n{OURS}"), None)


def test_a_build_is_read_before_the_source_beside_it(tmp_path: Path) -> None:
    for name, text in (("build/torch-cuda", OURS), ("torch-ext/norm", f"{OURS}# the source")):
        (tmp_path / name).mkdir(parents=True)
        file(tmp_path / name, text)
    (tmp_path / "build/torch-cuda/metadata.json").write_text("{}")
    assert source_in(tmp_path, None) == OURS
    (tmp_path / "build/torch-cuda/metadata.json").unlink()
    assert "# the source" in source_in(tmp_path / "torch-ext", None)


def test_what_is_no_python_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no Python file"):
        source_in(file(tmp_path, "class ("), None)
