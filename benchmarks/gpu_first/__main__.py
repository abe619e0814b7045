"""`python -m benchmarks.gpu_first [--stage N] [--minutes M] [--out DIR] [--problems DIR]`.

Runs from a checkout that is not installed: put the checkout, and the folder that `make gpu-bundle`
made, on PYTHONPATH. Needs no network.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from benchmarks.gpu_first.plan import ROOT, Call, run
from benchmarks.gpu_first.stages import STAGES

RESULTS = ROOT / "benchmarks" / "results" / "gpu_first"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is due; 0 when everything asked for has finished."""
    signal.signal(signal.SIGTERM, _interrupted)
    options = _parse(arguments)
    if options.list:
        for stage in STAGES:
            print(f"{stage.number:3d}  {stage.minutes:4g} min  {stage.title}")
        return 0
    reported = {"device": options.device, "most": str(options.most), "turns": str(options.turns)}
    if options.problems is not None:
        reported["problems"] = str(options.problems.resolve())
    try:
        out = options.out.resolve()
        return run(STAGES, Call(out, options.minutes, options.stage, reported, options.slower))
    except KeyboardInterrupt:
        print("interrupted; call again to go on with the same stage")
        return 130


def _interrupted(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_first", description=__doc__)
    numbers = [stage.number for stage in STAGES]
    parser.add_argument("--stage", type=int, choices=numbers, help="this one, even if it has ended")
    parser.add_argument("--minutes", type=float, help="the most that this call may take")
    parser.add_argument(
        "--slower", type=float, default=1.0, help="how many times its minutes a stage may take"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the tables go")
    parser.add_argument("--problems", type=Path, help="a folder of KernelBench problems")
    parser.add_argument("--most", type=int, default=8, help="how many of them")
    parser.add_argument("--turns", type=int, default=2, help="of each run of the built-in policy")
    parser.add_argument("--device", choices=("cuda", "virtual"), default="cuda")
    parser.add_argument("--list", action="store_true", help="only say which stages there are")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
