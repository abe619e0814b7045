"""The benchmark over problems at their own sizes refuses a selection that holds none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import real_sizes


@pytest.mark.parametrize("names", [[], ["--only", "9_"]])
def test_a_selection_without_problems_is_an_error_and_not_an_empty_table(
    names: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if names:
        (tmp_path / "level1").mkdir()
        (tmp_path / "level1" / "7_Softplus.py").write_text("")
    monkeypatch.setattr(sys, "argv", ["real_sizes.py", str(tmp_path), *names])
    with pytest.raises(SystemExit, match="no problem found under"):
        real_sizes.main()
    assert capsys.readouterr().out == ""
