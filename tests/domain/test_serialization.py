from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kernelagent.domain.events import Evaluated, Logged, to_line
from tests.evaluations import accepted

RACE = """
import sys, threading
from kernelagent.domain.events import from_line
sys.setswitchinterval(1e-6)
line, start = sys.stdin.read(), threading.Barrier(4)
def read():
    start.wait()
    for _ in range(50):
        from_line(line)
threads = [threading.Thread(target=read) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_records_are_read_in_several_threads_of_a_fresh_process():
    line = to_line(Logged(0, 0.0, Evaluated(0, "a", "x = 1\n", accepted(1.1), 1.0, "fine")))
    for _ in range(6):
        done = subprocess.run(
            [sys.executable, "-c", RACE],
            input=line,
            text=True,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
