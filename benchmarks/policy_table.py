"""What the built-in policy makes of every problem of KernelBench, without a GPU: rows that are kept, and their table.

    python -m benchmarks.policy_table KERNELBENCH [--levels level1,level2] [--missing] [--only NAME...]
    python -m benchmarks.policy_table --page

KERNELBENCH is the folder with level1, level2 and level3 in a checkout of KernelBench. Each problem is run as
`benchmarks.real_sizes` runs it, at its own sizes, one turn. Hours on two cores: each row is kept in `results/policy_table.jsonl`
with its commit, the last of a problem counts, and `--missing` goes on where an earlier call ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import median

from benchmarks.commit import head_of
from benchmarks.real_sizes import measured, optimizing

_PAGE = Path(__file__).parent / "results" / "policy_table.md"
_KEPT = _PAGE.with_suffix(".jsonl")
_LEVELS = {"level1": 100, "level2": 100, "level3": 50}
_COLUMNS = (
    *("exit", "ends_with", "estimate_us", "eager_us", "compile_us"),
    *("peak_gb", "seconds", "cpu_s", "described_s", "turn_s", "again_s"),
)
_USUAL = {"memory_limit": "4G", "judging_seconds": "120"}
"""What the command's own default is, or less; rows without these had them."""
_ACCEPTED = {"better", "not_faster"}
_WITHOUT_ESTIMATE = "the verified module is kept"
"""In the command's words, where a module was accepted and nothing says whether it is faster."""
Row = Mapping[str, str]


def main() -> None:
    """Run what was asked for, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kernelbench", type=Path, nargs="?")
    parser.add_argument("--levels", default=",".join(_LEVELS))
    parser.add_argument("--only", nargs="+", default=[], help="beginnings of names")
    parser.add_argument("--missing", action="store_true", help="those without a row")
    parser.add_argument(
        "--part", default="1/1", help="K/N: the K-th of N parts, to run side by side"
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="a problem")
    parser.add_argument("--memory-limit", default=_USUAL["memory_limit"])
    parser.add_argument(
        "--judging-seconds", default=_USUAL["judging_seconds"], help="of a candidate"
    )
    parser.add_argument("--page", action="store_true", help="write the table of what is kept")
    options = parser.parse_args()
    if options.kernelbench is None:
        if not options.page:
            parser.error("give KernelBench's folder, or --page")
    else:
        _run(options)
    if options.page:
        _PAGE.write_text(page(kept()))


def _run(options: argparse.Namespace) -> None:
    known = {row["problem"] for row in kept()} if options.missing else set()
    paths = [
        path
        for level in options.levels.split(",")
        for path in sorted(options.kernelbench.joinpath(level).glob("*.py"), key=_number)
    ]
    part, parts = map(int, options.part.split("/"))
    for path in paths[part - 1 :: parts]:
        problem = f"{path.parent.name}/{path.stem}"
        if problem in known or not path.stem.startswith(tuple(options.only or [""])):
            continue
        with tempfile.TemporaryDirectory() as folder:
            limits = {
                "memory_limit": options.memory_limit,
                "judging_seconds": options.judging_seconds,
            }
            command = optimizing(path, folder, *limits.values())
            columns = measured(command, folder, options.seconds)
        row = dict(zip(_COLUMNS, columns, strict=True))
        load = f"{os.getloadavg()[0]:.1f}"
        with _KEPT.open("a") as file:
            file.write(
                json.dumps(
                    {
                        "problem": problem,
                        **row,
                        **limits,
                        "load": load,
                        "at": head_of(Path(__file__).parents[1]),
                    }
                )
                + "\n"
            )
        print(problem, row["ends_with"], row["estimate_us"], row["eager_us"], flush=True)


def kept() -> list[Row]:
    """The last row of each problem, in the order of levels and numbers."""
    if not _KEPT.exists():
        return []
    rows = {row["problem"]: row for row in map(json.loads, _KEPT.read_text().splitlines())}
    return sorted(rows.values(), key=lambda row: _place(row["problem"]))


def _place(problem: str) -> tuple[str, int]:
    level, name = problem.split("/")
    return level, _number(Path(name))


def _number(path: Path) -> int:
    found = re.match(r"\d+", path.stem)
    return int(found[0]) if found else 0


def accepted(row: Row) -> bool:
    """Whether the judge accepted a module, faster or not."""
    return row["ends_with"] in _ACCEPTED or _WITHOUT_ESTIMATE in row["ends_with"]


def times(row: Row, other: str) -> float:
    """Estimates: how many times faster than `other` (`eager_us`, `compile_us`); 0 where nothing was accepted."""
    if not (accepted(row) and row[other] and row["estimate_us"]):
        return 0.0
    return float(row[other]) / float(row["estimate_us"])


def page(rows: Iterable[Row]) -> str:
    """The page: shares by level, then a row for each problem."""
    every = list(rows)
    lines = [
        "# The built-in policy on KernelBench",
        "",
        "`python -m benchmarks.policy_table KERNELBENCH --missing`, then `--page`: KernelBench at 423217d, every problem at its own",
        "sizes on `virtual` (H200), one turn of the built-in policy, judged twice, with `--memory-limit 4G --judging-seconds 120` where `limits` says nothing. **All times are estimates**, in µs; nothing ran on",
        "a GPU. Rows are of several commits (`at`) and loads of two cores (by the clock, so seconds of a loaded machine say little).",
        "",
        f"{len(every)} of {sum(_LEVELS.values())} problems have a row.",
        "",
        "| | level 1 | level 2 | level 3 |",
        "|---|--:|--:|--:|",
    ]
    for name, count in _shares():
        cells = []
        for level in _LEVELS:
            own = [row for row in every if row["problem"].startswith(level)]
            cells.append(count(own) if own else "–")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        "| problem | ends with | estimate | eager | compile | times eager | times compile | GB | s | limits | at | load |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|---|---|--:|",
    ]
    lines += map(_line, every)
    return "\n".join(lines) + "\n"


def _shares() -> list[tuple[str, Callable[[list[Row]], str]]]:
    def share(wanted: Callable[[Row], bool]) -> Callable[[list[Row]], str]:
        return lambda rows: (
            f"{sum(map(wanted, rows))} of {len(rows)} ({sum(map(wanted, rows)) / len(rows):.0%})"
        )

    def first(rows: list[Row]) -> str:
        seconds = [
            float(row["described_s"]) + float(row["turn_s"])
            for row in rows
            if accepted(row) and row["described_s"] and row["turn_s"]
        ]
        return f"{median(seconds):.0f} s" if seconds else "–"

    return [
        ("accepted", share(accepted)),
        ("better than eager, by estimate", share(lambda row: row["ends_with"] == "better")),
        ("at least 1.2 times eager", share(lambda row: times(row, "eager_us") >= 1.2)),
        ("faster than `torch.compile`", share(lambda row: times(row, "compile_us") > 1)),
        ("a traceback", share(lambda row: "TRACEBACK" in row["ends_with"])),
        ("not ended in time", share(lambda row: row["exit"] == "–")),
        ("first accepted after, median", first),
    ]


def _line(row: Row) -> str:
    eager, compiled = (times(row, other) for other in ("eager_us", "compile_us"))
    cells = [
        *(row["problem"], row["ends_with"], row["estimate_us"], row["eager_us"], row["compile_us"]),
        *(f"{ratio:.2f}" if ratio else "" for ratio in (eager, compiled)),
        *(row["peak_gb"], row["seconds"], _limits(row), row["at"], row.get("load", "")),
    ]
    return f"| {' | '.join(cells)} |"


def _limits(row: Row) -> str:
    """Those that were not the usual ones."""
    units = {"memory_limit": "", "judging_seconds": " s"}
    return ", ".join(
        row[name] + units[name] for name, usual in _USUAL.items() if row.get(name, usual) != usual
    )


if __name__ == "__main__":
    main()
