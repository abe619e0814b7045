"""What the built-in policy would write first for KernelBench's problems, with its own estimates: nothing is judged.

    python benchmarks/policy_plans.py PATH_TO_KERNELBENCH --levels level1,level2 --named conv

A row for each problem: what its templates take over, what they leave to torch's library, with the
policy's own arithmetic on both sides, or the reason why it writes nothing. Seconds, not minutes.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import traceback
from pathlib import Path

import torch
from torch.utils._pytree import tree_map

from kernelagent.domain.problem import ProblemSpec
from kernelagent.models.compiler.capture import PolicyCannot, capture
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.hollow_tensors import HollowTensors
from kernelagent.models.compiler.writing import Call, Writer
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.virtual.fake_cuda import pretending_cuda, with_dynamo_imported

_ESTIMATES = re.compile(r"\(estimate: (\d+) µs; torch's library: (\d+) µs\)")


def main() -> int:
    """Print a Markdown table, and below it how many of the problems have what."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernelbench", type=Path)
    parser.add_argument("--levels", default="level1,level2")
    parser.add_argument("--named", default="", help="part of the names, in any case")
    parser.add_argument("--target", default="sm_90")
    args = parser.parse_args()
    logging.getLogger("torch").setLevel(logging.ERROR)
    with_dynamo_imported()
    every = [p for level in args.levels.split(",") for p in sorted((args.kernelbench / level).glob("*.py"))]  # fmt: skip
    paths = [path for path in every if args.named.lower() in path.stem.lower()]
    if not paths:
        sys.exit(f"no problem of {args.levels} under {args.kernelbench} has {args.named!r} in its name")  # fmt: skip
    print("| problem | kernels | by a template | its estimate, µs | torch's library, µs |")
    print("|---|--:|---|--:|--:|")
    counts = {"by a template": 0, "left to the library": 0, "nothing written": 0, "tracebacks": 0}
    for path in paths:
        kind, row = _row(path, args.target)
        counts[kind] += 1
        print(f"| {path.parent.name}/{path.stem} | {row} |", flush=True)
    print(", ".join(f"{kind}: {number}" for kind, number in counts.items()))
    return 0


def _row(path: Path, target: str) -> tuple[str, str]:
    try:
        source, remarks = _written(path, target)
    except PolicyCannot as error:
        return "nothing written", f"| {error} | |"
    except Exception as error:  # noqa: BLE001 - a traceback is what is being looked for
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "tracebacks", f"| {type(error).__name__} in {Path(where.filename).name} | |"
    kernels = source.count("@triton.jit")
    taken = [remark for remark in remarks if not remark.startswith("torch's library")]
    times = [tuple(map(int, found.groups())) for r in remarks if (found := _ESTIMATES.search(r))]
    ours, theirs = (" + ".join(str(pair[side]) for pair in times) for side in (0, 1))
    said = f"{len(taken)} of {len(remarks)}" if remarks else "none met"
    return (
        "by a template" if taken else "left to the library",
        f"{kernels} | {said} | {ours} | {theirs}",
    )


def _written(path: Path, target: str) -> tuple[str, tuple[str, ...]]:
    with pretending_cuda(target):
        problem = load_problem(ProblemSpec(path=str(path)))
    hollow = HollowTensors()
    with pretending_cuda(target), hollow:
        module = problem.build().cpu().eval()
        sets = problem.input_sets()
    args, kwargs = tree_map(
        lambda v: v.cpu() if isinstance(v, torch.Tensor) else v, next(iter(sets.values()))
    )
    writer = Writer(module, problem.constructor, Choice(), target=target)
    made = writer.write([Call("default", capture(module, args, kwargs))])
    return made.source, made.remarks


if __name__ == "__main__":
    raise SystemExit(main())
