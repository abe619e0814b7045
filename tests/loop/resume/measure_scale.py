"""Measures, in a process of its own, what folding a long log costs; one JSON object on stdout.

`python measure_scale.py LOG`: seconds (of CPU time, the best of three), peak_mb (resident memory of
the process), above_imports_mb and turns.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from kernelagent.storage.run_log import read_events
from kernelagent.storage.run_state import fold


def peak_mb() -> float:
    """The most memory this program has had at once.

    Not `ru_maxrss`: on Linux that is kept across `exec`, so it begins at what the parent had.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    peak = next(line for line in status if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024


def seconds_to_fold() -> float:
    began = time.process_time()
    fold(read_events(Path(sys.argv[1])))
    return time.process_time() - began


def main() -> None:
    before = peak_mb()
    state = fold(read_events(Path(sys.argv[1])))
    result = {
        "seconds": min(seconds_to_fold() for _ in range(3)),
        "peak_mb": peak_mb(),
        "above_imports_mb": peak_mb() - before,
        "turns": len(state.history.turns),
    }
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main()
