"""The interpreter with all programs at once, beside Triton's own with `TRITON_INTERPRET=1`.

    python benchmarks/interpreter.py [--sample PROGRAMS] [--write FILE]

With `--sample`, Triton's own runs only about so many programs of each grid, all in one process, and
its seconds are scaled to the whole grid; without, it runs every grid in full.

Ours watches bounds and races and counts traffic meanwhile; Triton's own does nothing of it. Both
run the same kernels on the same tensors, in processes of their own, with one thread; seconds are
CPU seconds, which a busy machine lengthens less than the clock's.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "tools" / "virtual"))


def cases() -> dict[str, Any]:
    """Name: kernel, grid, arguments by name."""
    import batched_kernels as kernels
    import torch

    torch.manual_seed(0)
    rows, size = 4096, 256
    x = torch.randn(rows, size)
    a, b = torch.randn(1024, 256), torch.randn(256, 1024)
    q, k, v = (torch.randn(64, 256, 32) for _ in range(3))
    target = torch.randint(0, size, (rows,), dtype=torch.int32)
    tiles = {"M": 1024, "N": 1024, "K": 256, "BM": 32, "BN": 32, "BK": 32, "GROUP": 8}
    blocks = {"T": 256, "scale": 0.2, "BM": 16, "BN": 16, "D": 32}
    wide = torch.randn(65536, 64)
    return {
        "softmax": (kernels.softmax, (rows,),
                    {"x": x, "y": torch.zeros_like(x), "n": size, "BLOCK": size}),
        "layer norm": (kernels.layer_norm, (rows,),
                       {"x": x, "w": torch.randn(size), "y": torch.zeros_like(x), "n": size,
                        "eps": 1e-5, "BLOCK": size}),
        "tiled matmul": (kernels.matmul, (1024,),
                         {"a": a, "b": b, "c": torch.zeros(1024, 1024), **tiles}),
        "flash attention": (kernels.attention, (16, 64),
                            {"q": q, "k": k, "v": v, "o": torch.zeros_like(q), **blocks}),
        "cross entropy": (kernels.cross_entropy, (rows,),
                          {"x": x, "target": target, "out": torch.zeros(rows), "n": size,
                           "BLOCK": size}),
        "scan": (kernels.scan, (rows,),
                 {"x": x, "y": torch.zeros_like(x), "n": size, "REVERSE": False, "BLOCK": size}),
        "layer norm, 65,536 programs": (kernels.layer_norm, (65536,),
                                        {"x": wide, "w": torch.randn(64),
                                         "y": torch.zeros_like(wide), "n": 64, "eps": 1e-5,
                                         "BLOCK": 64}),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--one", nargs=2, metavar=("WAY", "CASE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*arguments.one)))
        return
    text = "\n".join(table(arguments.sample))
    print(text)
    if arguments.write:
        arguments.write.write_text(text + "\n", encoding="utf-8")


def table(sample: int) -> list[str]:
    load = os.getloadavg()[0]
    rows, ratios = [], []
    sampled = in_a_process("stock", f"sample {sample}") if sample else {}
    all_ours = in_a_process("together", "all")
    command = "python benchmarks/interpreter.py" + (f" --sample {sample}" if sample else "")
    for name, (_, grid, _) in cases().items():
        ours = all_ours[name]
        programs = math.prod(grid)
        line = f"| {name} | {programs} | {ours['cpu_s']:.3f} | {ours['wall_s']:.3f} "
        if programs < 65536:
            cpu = sampled[name] if sample else in_a_process("stock", name)["cpu_s"]
            ratio = cpu / ours["cpu_s"]
            ratios.append(ratio)
            line += f"| {cpu:.2f} | {ratio:.0f}x | {ours['together']} |"
        else:
            line += f"| | | {ours['together']} |"
        rows.append(line)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return [
        "# All programs of a launch at once",
        "",
        f"`{command}`; Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, one thread, load {load:.1f} before and "
        f"{os.getloadavg()[0]:.1f} after.",
        "",
        "| kernel | programs | ours, CPU s | ours, clock s | `TRITON_INTERPRET=1`, CPU s | ratio "
        "| run together |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        f"Geometric mean {mean:.0f}x, smallest {min(ratios):.0f}x. Bounds, races and traffic are "
        "watched in ours. Each is the better of two launches in one process, the first of which "
        "finds nothing prepared."
        + (
            f" Triton's own ran about {sample} programs of each, scaled to the grid." * bool(sample)
        ),
    ]


def in_a_process(way: str, case: str) -> dict[str, Any]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if way == "stock":
        environment["TRITON_INTERPRET"] = "1"
    command = [sys.executable, __file__, "--one", way, case]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def measure(way: str, case: str) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    if case.startswith("sample "):
        return sampled_stock(int(case.split()[1]))
    if case == "all":
        return {name: best_of(way, *item) for name, item in cases().items()}
    return best_of(way, *cases()[case])


def best_of(way: str, kernel: Any, grid: tuple[int, ...], named: dict[str, Any]) -> dict[str, Any]:
    launch = stock(kernel, grid, named) if way == "stock" else together(kernel, grid, named)
    best: dict[str, Any] = {}
    for _ in range(1 if way == "stock" else 2):
        began, cpu = time.perf_counter(), time.process_time()
        how = launch()
        row = {
            "cpu_s": time.process_time() - cpu,
            "wall_s": time.perf_counter() - began,
            "together": how,
        }
        if not best or row["cpu_s"] < best["cpu_s"]:
            best = row
    return best


def sampled_stock(programs: int) -> dict[str, float]:
    """CPU seconds that Triton's own would need for each whole grid, from a part of it."""
    result = {}
    for name, (kernel, grid, named) in cases().items():
        part = (*grid[:-1], max(1, programs // math.prod(grid[:-1])))
        kernel[(1,) * len(grid)](**named)
        cpu = time.process_time()
        kernel[part](**named)
        seconds = time.process_time() - cpu
        result[name] = seconds * math.prod(grid) / math.prod(part)
    return result


def stock(kernel: Any, grid: tuple[int, ...], named: dict[str, Any]) -> Any:
    def launch() -> int:
        kernel[grid](**named)
        return 0

    return launch


def together(kernel: Any, grid: tuple[int, ...], named: dict[str, Any]) -> Any:
    import torch

    from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
    from kernelagent.tools.virtual.cost.traffic import TrafficCounter
    from kernelagent.tools.virtual.executor.launch import Launch, TensorArgument
    from kernelagent.tools.virtual.races.bounds import BoundsChecker
    from kernelagent.tools.virtual.races.races import RaceChecker

    tensors = tuple(
        TensorArgument(
            name=name,
            address=value.data_ptr(),
            storage_address=value.untyped_storage().data_ptr(),
            storage_bytes=value.untyped_storage().nbytes(),
            item_bytes=value.element_size(),
            dtype=str(value.dtype).removeprefix("torch."),
            shape=tuple(value.shape),
            strides=tuple(value.stride()),
        )
        for name, value in named.items()
        if isinstance(value, torch.Tensor)
    )
    constants = {name: value for name, value in named.items() if name.isupper()}
    wide = (*grid, 1, 1)[:3]
    interpreter = BatchedInterpreter()

    def launch() -> int:
        record = Launch(0, kernel.fn.__name__, 1, wide, tensors, {}, constants)
        watchers = [BoundsChecker(), RaceChecker(), TrafficCounter("sm_90")]
        interpreter.run(kernel, named, record, observers=watchers)
        return interpreter.how.together

    return launch


if __name__ == "__main__":
    main()
