from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.sandbox.spawn import ForkServer

pytestmark = pytest.mark.long


def test_no_process_of_a_candidate_writes_bytecode_beside_a_library(tmp_path: Path) -> None:
    (tmp_path / "preloaded.py").write_text(
        "import sys\n\n\ndef show(settings, fds):\n    print(sys.dont_write_bytecode)\n",
        encoding="utf-8",
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with ForkServer.start(preload=["preloaded"], environment={"PYTHONPATH": str(tmp_path)}) as warm:
        child = warm.fork("preloaded:show", {}, [], Confinement(scratch, sandboxed=False))
        child.wait(20.0)
    assert child.output().strip() == "True"
