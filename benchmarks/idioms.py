"""Honest kernels of real projects' idioms (`tools/corpus/idioms`), each judged again and again: is any refused?

`python -m benchmarks.idioms --times 3` writes `results/idioms.md` as it goes; `--only NAME...` judges those
and writes nothing.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from kernelagent.domain.errors import KernelAgentError
from kernelagent.tools.corpus.check import Checked, check
from kernelagent.tools.corpus.fixture import Fixture
from kernelagent.tools.corpus.honest.idioms import IDIOMS

_RESULT = Path(__file__).parent / "results" / "idioms.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of those wanted")
    arguments = parser.parse_args()
    wanted = [f for f in IDIOMS if not arguments.only or any(p in f.name for p in arguments.only)]
    rows: dict[str, list[Checked | str]] = {}
    for fixture in wanted:
        rows[fixture.name] = _judged(fixture, arguments.times)
        print(fixture.name, *map(_said, rows[fixture.name]), sep=" | ", flush=True)
        if not arguments.only:
            _RESULT.write_text(_page(rows, arguments.times), encoding="utf-8")


def _judged(fixture: Fixture, times: int) -> list[Checked | str]:
    try:
        return list(check([fixture], device="virtual", times=times))
    except KernelAgentError as error:
        # Its first line: what follows is a traceback with the folders of this machine.
        return [f"no judging: {str(error).splitlines()[0]}"]


def _said(item: Checked | str) -> str:
    if isinstance(item, str):
        return " ".join(item.split())[:200]
    return "accepted" if item.code is None else f"{item.code}: {item.message[:160]}"


def _page(rows: dict[str, list[Checked | str]], times: int) -> str:
    judged = [item for items in rows.values() for item in items]
    right = [item for item in judged if isinstance(item, Checked) and item.code is None]
    load = ", ".join(f"{n:.0f}" for n in os.getloadavg())
    lines = [
        "# Honest kernels of real projects' idioms",
        "",
        f"`python -m benchmarks.idioms --times {times}`, on `virtual`: {len(rows)} of {len(IDIOMS)} kernels judged, "
        f"{len(right)} of {len(judged)} judgings accepted (load of the machine at the end: {load}).",
        "",
        "| kernel | accepted | of | disclosures | refused with |",
        "|---|---|---|---|---|",
    ]
    for name, items in rows.items():
        good = [item for item in items if isinstance(item, Checked) and item.code is None]
        told = sorted({d for item in good for d in item.disclosures})
        bad = sorted({_said(item).replace("|", "/") for item in items if item not in good})
        lines.append(
            f"| {name} | {len(good)} | {len(items)} | {', '.join(told)} | {'; '.join(bad)} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
