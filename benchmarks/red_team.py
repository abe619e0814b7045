"""The white-box candidates of the corpus (`tools/corpus/hostile`), judged: how many hostile ones get past.

`python -m benchmarks.red_team` writes `results/red_team.md`; `--only NAME...` judges those and writes nothing.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from kernelagent.tools.corpus.check import Checked, check
from kernelagent.tools.corpus.hostile import ATTACKS, LIKENESSES

_RESULT = Path(__file__).parent / "results" / "red_team.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of those wanted")
    only = parser.parse_args().only
    began = time.monotonic()
    hostile = {f: n for n, fixtures in ATTACKS.items() for f in fixtures}
    honest = {f: n for n, fixtures in LIKENESSES.items() for f in fixtures}
    rows: list[Checked] = []
    wanted = [f for f in (*hostile, *honest) if not only or any(part in f.name for part in only)]
    for item in check(wanted, device="virtual"):
        rows.append(item)
        print(
            item.fixture.name,
            item.code or "accepted",
            f"{item.seconds:.1f}s",
            item.message[:120],
            flush=True,
        )
    if only:
        return
    past = [row for row in rows if row.fixture in hostile and row.code is None]
    lost = [row for row in rows if row.fixture in honest and row.code is not None]
    lines = [
        "# Attacked by somebody who has read the judge",
        "",
        f"`python -m benchmarks.red_team`, on `virtual`, {time.monotonic() - began:.0f} s: of {len(hostile)} hostile "
        f"candidates {len(past)} accepted, of {len(honest)} honest twins {len(lost)} refused.",
        "",
        "| threat | candidate | policy | verdict | disclosures |",
        "|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda r: ({**hostile, **honest}[r.fixture], r.fixture.name)):
        number = hostile.get(row.fixture, honest.get(row.fixture))
        kind = "" if row.fixture in hostile else " (honest)"
        verdict = row.code or "accepted"
        lines.append(
            f"| {number} | {row.fixture.name.removeprefix('w-')}{kind} | {row.fixture.policy} | {verdict} | "
            f"{', '.join(row.disclosures)} |"
        )
    _RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(
        f"{len(past)} of {len(hostile)} hostile accepted, {len(lost)} of {len(honest)} honest refused"
    )


if __name__ == "__main__":
    main()
