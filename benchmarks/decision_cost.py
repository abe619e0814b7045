"""What a turn's decision and its events cost after a thousand turns, for every strategy.

`python -m benchmarks.decision_cost [--write FILE]`. Processor milliseconds of this process; the disk's
share (an fsync an event) is the machine's. The history is the one of `tests/loop/resume/test_scale.py`.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent

from kernelagent.domain.history import History  # noqa: E402
from kernelagent.storage.run_log import EventLog, RunFolder  # noqa: E402
from kernelagent.strategies import BUILT_IN, load_strategy  # noqa: E402
from tests.loop.resume.test_scale import ROOMY, TURNS, events_for, turns_made  # noqa: E402

MOST_MS = 5.0


@dataclass(frozen=True)
class Cost:
    """Milliseconds a turn; the least of all says what the program needs, the median what one sees."""

    strategy: str
    decided: list[float]
    logged: list[float]

    @property
    def least(self) -> float:
        return min(d + e for d, e in zip(self.decided, self.logged, strict=True))


def measure(strategy: str, turns: int) -> Cost:
    """`turns` turns beyond the first thousand, each decided by `strategy` and logged."""
    made = turns_made(random.Random(1))
    history = History(tuple(islice(made, TURNS)))
    asking = load_strategy(strategy, ["recorded"], 0, ROOMY.get(strategy))
    cost = Cost(strategy, [], [])
    with tempfile.TemporaryDirectory() as place:
        log = EventLog(RunFolder(Path(place)))
        for turn in islice(made, turns):
            began = time.process_time()
            requests = asking.next_turns(history)
            decided = time.process_time()
            for event in events_for(turn):
                log.publish(event)
            cost.decided.append(1e3 * (decided - began))
            cost.logged.append(1e3 * (time.process_time() - decided))
            if not requests:
                raise RuntimeError(f"{strategy} has stopped asking, so nothing was decided")
            history = history.with_turn(turn)
        log.close()
    return cost


def table(costs: list[Cost]) -> str:
    """Markdown."""
    load = os.getloadavg()[0]
    lines = [
        f"# Decision and events of a turn after {TURNS} turns",
        "",
        f"`python -m benchmarks.decision_cost --write benchmarks/results/decisions.md`: milliseconds "
        f"of processor time, {len(costs[0].decided)} turns each, on {os.cpu_count()} cores at a load "
        f"of {load:.1f}.",
        "",
        "| strategy | decision, least | median | events, least | median | both, least |",
        "|---|---|---|---|---|---|",
    ]
    for c in costs:
        lines.append(
            f"| {c.strategy} | {min(c.decided):.2f} | {median(c.decided):.2f} | "
            f"{min(c.logged):.2f} | {median(c.logged):.2f} | {c.least:.2f} |"
        )
    worst = max(cost.least for cost in costs)
    return "\n".join([*lines, "", f"Worst {worst:.2f} ms, limit {MOST_MS:g} ms."]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--turns", type=int, default=100)
    options = parser.parse_args()
    costs = [measure(name, options.turns) for name in BUILT_IN]
    text = table(costs)
    if options.write is not None:
        options.write.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    sys.exit(0 if max(cost.least for cost in costs) < MOST_MS else 1)


if __name__ == "__main__":
    main()
