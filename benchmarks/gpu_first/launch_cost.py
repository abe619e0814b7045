"""Microseconds that the host spends on one launch: `python -m benchmarks.gpu_first.launch_cost on|off`.

`on`: with the product's launch recorder in place, as a candidate's process has it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median

import torch

from benchmarks.gpu_first import trial
from kernelagent.tools.candidate_runner.launches import Launches, watch_launches

_LAUNCHES = 1000
_ROUNDS = 9


def main(arguments: list[str]) -> int:
    if arguments == ["on"]:
        watch_launches(Launches(str(Path(trial.__file__))))
    elif arguments != ["off"]:
        raise SystemExit(__doc__)
    x = torch.zeros(128, device="cuda")
    out = torch.empty_like(x)
    rounds = []
    for _ in range(_ROUNDS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(_LAUNCHES):
            trial.add_one[(1,)](x, out, 128, BLOCK=128)
        rounds.append((time.perf_counter() - began) / _LAUNCHES * 1e6)
        torch.cuda.synchronize()
    print(f"{median(rounds[1:]):.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
