"""Records a real timing stream, one operation against itself in fresh processes, on the CPU.

    python -m benchmarks.record_timing_stream [--launches N] [--write FILE]

Both sides run the same code, so the true ratio is 1. What the clock, the scheduler and the machine's
other work did to it is real; that it is a CPU's stream and not a GPU's is said in the file.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import torch

from kernelagent.tools.cuda.certificate import Block, measure_block, shuffled

ROOT = Path(__file__).resolve().parents[1]
BLOCKS, CALLS, ROWS, COLUMNS = 4, 64, 64, 1024
SIDES = ("eager", "candidate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=40)
    parser.add_argument(
        "--write", type=Path, default=ROOT / "tests/tools/cuda/statistics/recorded_cpu_softmax.json"
    )
    arguments = parser.parse_args()
    chance = Random(0)
    launches = [_launch(chance) for _ in range(arguments.launches)]
    record = {
        "what": f"softmax of {ROWS} x {COLUMNS} fp32 against itself, one thread, {CALLS} calls a "
        "reading, microseconds per call; each launch is two fresh processes",
        "command": f"python -m benchmarks.record_timing_stream --launches {arguments.launches}",
        "device": f"CPU {platform.machine()}, shared with other work; torch {torch.__version__}",
        "launches": launches,
    }
    arguments.write.write_text(json.dumps(record) + "\n", encoding="utf-8")


def _launch(chance: Random) -> list[Block]:
    with ExitStack() as stack:
        sides = {name: _process(stack) for name in SIDES}
        return [measure_block(sides, shuffled(SIDES, chance)) for _ in range(BLOCKS)]


def _process(stack: ExitStack) -> Callable[[], float]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,))
    process.start()
    stack.callback(process.join)
    stack.callback(ours.send, False)

    def read() -> float:
        ours.send(True)
        return round(ours.recv(), 3)

    return read


def _serve(pipe: Connection) -> None:
    torch.set_num_threads(1)
    values = torch.randn(ROWS, COLUMNS)
    for _ in range(CALLS):
        values.softmax(1)
    while pipe.recv():
        began = time.perf_counter()
        for _ in range(CALLS):
            values.softmax(1)
        pipe.send((time.perf_counter() - began) / CALLS * 1e6)


if __name__ == "__main__":
    main()
