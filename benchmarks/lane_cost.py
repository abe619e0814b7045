"""What the tests of a lane cost: processor seconds by file, of the workers and of all they start.

`LANE_COST=/tmp/cost .venv/bin/python -m pytest -p benchmarks.lane_cost -n 2 --dist loadfile -m MARKS` writes a file for
each worker; `python -m benchmarks.lane_cost /tmp/cost [--before /tmp/earlier]` prints the table of them. Seconds of
processor time are compared, not of the clock: a lane on two quiet cores takes half of them and its waiting.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER = 36
_COLLECTION = "collection, in both workers"


def processor_seconds() -> float:
    """Of this process, its ended children, and whatever descends from it and lives."""
    own = os.times()
    seconds = own.user + own.system + own.children_user + own.children_system
    children: dict[int, list[tuple[int, int]]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text()
            except OSError:  # it has ended since
                continue
            fields = text[text.rindex(")") + 2 :].split()
            row = (int(folder.name), sum(map(int, fields[11:15])))
            children.setdefault(int(fields[1]), []).append(row)
    waiting = [os.getpid()]
    while waiting:
        for pid, ticks in children.get(waiting.pop(), []):
            seconds += ticks / _TICKS
            waiting.append(pid)
    return seconds


def _rows(what: str) -> Generator[None, None, None]:
    before, began = processor_seconds(), time.perf_counter()
    yield
    row = (what, processor_seconds() - before, time.perf_counter() - began)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    with Path(f"{os.environ['LANE_COST']}.{worker}.jsonl").open("a", encoding="utf-8") as out:
        out.write(f"{json.dumps(row)}\n")


def pytest_configure() -> None:
    # Processes whose parent was killed are counted, too: they become this process's children.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, None, None]:
    yield from _rows(_COLLECTION)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, None, None]:
    yield from _rows(item.nodeid)


def by_file(prefix: str) -> Counter[str]:
    """Seconds by test file, from the files that the workers wrote."""
    seconds: Counter[str] = Counter()
    for path in Path(prefix).parent.glob(f"{Path(prefix).name}.*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            what, used, _ = json.loads(line)
            seconds[what.split("::")[0]] += used
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prefix")
    parser.add_argument("--before")
    parser.add_argument("--rows", type=int, default=30)
    given = parser.parse_args()
    now = by_file(given.prefix)
    before = by_file(given.before) if given.before else Counter[str]()
    print("| file | before, s | after, s |\n|---|---|---|")
    for name, _ in (now | before).most_common(given.rows):
        print(f"| `{name}` | {before[name]:.1f} | {now[name]:.1f} |")
    print(f"| all | {before.total():.0f} | {now.total():.0f} |")


if __name__ == "__main__":
    main()
