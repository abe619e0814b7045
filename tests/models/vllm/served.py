"""Shared by the tests of local models: checkpoints for the small server, and processes by their id."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

SERVING = Path(__file__).parent / "serving"
PATIENCE_S = 60.0
KEY = "a-key-of-this-run"


def environment(**more: str) -> dict[str, str]:
    """In which `import vllm` finds the small server, and nothing of this checkout."""
    return {**os.environ, "PYTHONPATH": str(SERVING), **more}


def checkpoint(folder: Path, **behaviour: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "behaviour.json").write_text(json.dumps(behaviour), encoding="utf-8")
    return folder


def pids_of(folder: Path) -> dict[str, int]:
    return json.loads((folder / "pids.json").read_text(encoding="utf-8"))


def asked_of(folder: Path) -> list[str]:
    lines = (folder / "asked.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["what"] for line in lines]


def runs(pid: int) -> bool:
    """A process that is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(what, seconds: float = PATIENCE_S) -> bool:
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
