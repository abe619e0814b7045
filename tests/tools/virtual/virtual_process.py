"""A runner's Triton and an executor in two real processes, without the judge."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_PARENT = """
import os, sys, json
sys.path.insert(0, sys.argv[1])
source, body = open(sys.argv[2]).read(), open(sys.argv[3]).read()
from kernelagent.tools.wire import pair
from kernelagent.tools.virtual.device import fake_cuda as cuda_names
from kernelagent.tools.virtual.executor import executor
from kernelagent.tools.virtual.device import driver
runner, theirs = pair()
judge, asked = pair()
arena = os.memfd_create("arena")
if os.fork() == 0:
    settings = {"source": source, "target": "sm_90", "seconds": float(sys.argv[4])}
    runner.close(); judge.close()
    executor.serve(settings, [theirs.socket.fileno(), asked.socket.fileno(), arena])
    os._exit(0)
theirs.close(); asked.close()
used = driver.install(runner, arena, "sm_90")
import importlib.util, torch
spec = importlib.util.spec_from_file_location("candidate", sys.argv[2])
candidate = importlib.util.module_from_spec(spec)
sys.modules["candidate"] = candidate

def judge_asks(**request):
    judge.send(request)
    return judge.receive(max_header=1 << 24).header

def show(value):
    print("RESULT " + json.dumps(value))

spec.loader.exec_module(candidate)
exec(compile(body, "body", "exec"))
"""


def run(
    tmp_path: Path, source: str, body: str, seconds: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """`body` runs beside the imported candidate; `seconds` is the interpretation budget."""
    (tmp_path / "candidate.py").write_text(source, encoding="utf-8")
    (tmp_path / "body.py").write_text(body, encoding="utf-8")
    environment = os.environ | {
        "TRITON_CACHE_DIR": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path),
    }
    return subprocess.run(
        [
            sys.executable,
            "-c",
            _PARENT,
            str(ROOT),
            str(tmp_path / "candidate.py"),
            str(tmp_path / "body.py"),
            str(seconds),
        ],
        capture_output=True,
        text=True,
        env=environment,
        timeout=180,
        check=False,
    )
