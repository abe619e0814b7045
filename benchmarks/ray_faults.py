"""kill -9 of a suite's driver, of Ray workers and of raylets, at random: is the table still the same?

`python -m benchmarks.ray_faults [--kills N] [--problems N] [--write FILE]`

A head and two nodes on this machine; replies and verdicts are recorded (`tests/suite/ray/recorded_on_ray`),
suite, loop, logs, cluster and everything that travels are the real ones. The table of each disturbed
suite is compared with that of an undisturbed one, on Ray and without it. Needs the extra [ray].
"""

from __future__ import annotations

import argparse
import platform
import random
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from tests.suite.ray.faults import Victim, Yard, killed, run_again, table, whole, yard

VICTIMS: tuple[Victim, ...] = ("driver", "worker", "raylet")
WORDS = {"driver": "the suite's driver", "worker": "a Ray worker", "raylet": "a raylet"}
A_SUITE = 4
"""Kills a suite has to live through."""


def row(place: Yard, victim: Victim, kills: int, problems: int, wanted: tuple[object, ...]) -> str:
    """Suites until there were so many kills."""
    dice, began = random.Random(victim), time.monotonic()
    suites = equal = again = 0
    while (left := kills - place.done.get(victim, 0)) > 0:
        suite = killed(place, victim, min(A_SUITE, left), problems, dice)
        suites += 1
        equal += table(suite) == wanted
        again += run_again(suite)
        print(f"{victim}: {place.done.get(victim, 0)} kills, {equal} of {suites} equal", flush=True)
    seconds = time.monotonic() - began
    return (
        f"| {WORDS[victim]} | {place.done.get(victim, 0)} | {suites} | {equal} of {suites} "
        f"| {again} | {seconds:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each kind")
    parser.add_argument("--problems", type=int, default=8)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, yard(Path(scratch)) as place:
        wanted = table(whole(place, given.problems, on_ray=False))
        same = table(whole(place, given.problems, on_ray=True)) == wanted
        print(f"undisturbed, with Ray and without: {'equal' if same else 'DIFFERENT'}", flush=True)
        rows = [row(place, victim, given.kills, given.problems, wanted) for victim in VICTIMS]
    lines = [
        "# kill -9 on a Ray cluster",
        "",
        f"`python -m benchmarks.ray_faults --kills {given.kills} --problems {given.problems}`, "
        f"{platform.machine()}, Ray {version('ray')}, Python {platform.python_version()}; a head and "
        "two nodes of one slot on one machine of two cores, busy with other work.",
        "",
        f"Each suite has {given.problems} problems of 3 to {2 * given.problems + 1} turns, two side by "
        "side; replies and verdicts are RECORDED (an evaluation pauses up to 0.1 s at each of its "
        f"steps), all else is real. Up to {A_SUITE} kills a suite, each after 2 to 25 more lines in the "
        "logs; a killed driver is resumed, for a raylet that is killed a new node joins. Equal: every "
        "row (verdicts, turns, best and last score, tokens, exit status) and the statistics, but for "
        "times and the runs' names.",
        "",
        f"Undisturbed, on Ray and without it: {'equal' if same else '**DIFFERENT**'}.",
        "",
        "| killed | kills | suites | tables equal to the undisturbed one | evaluations lost and run "
        "again, as the logs say | s |",
        "|---|---|---|---|---|---|",
        *rows,
    ]
    print("\n".join(lines))
    if given.write is not None:
        given.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
