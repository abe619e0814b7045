"""How often the reading of candidates' text says something of honest kernels.

    python -m benchmarks.source_reading [FOLDER...]

Reads the honest candidates of the corpus, its idioms and the honest ones of the rounds, and every `*.py` in the
folders (other people's kernels: point it at a checkout). Writes `results/source_reading.md` for the former alone;
rows of folders are printed.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from kernelagent.tools.corpus.catalogue import entries, not_here
from kernelagent.tools.judge.source_reading.kinds import NOT_JUDGED
from kernelagent.tools.judge.source_reading.reading import read

_HERE = Path(__file__).parent
_MILD = "asks_device_properties"
_HEAD = (
    f"| kernels | read | named | but for device properties | {' | '.join(NOT_JUDGED)} | ms each |\n"
)


def main() -> None:
    rows = [row(name, sources) for name, sources in _own().items()]
    page = (
        "# What the reading of a candidate's text says of honest kernels\n\n"
        "`python -m benchmarks.source_reading`. `honest` and `twins` are the corpus's: written to look suspicious, so that many\n"
        "really keep state, ask or use streams. Times are of processor time.\n\n"
        f"{_HEAD}|{'---|' * (len(NOT_JUDGED) + 5)}\n{''.join(rows)}"
    )
    (_HERE / "results" / "source_reading.md").write_text(page, encoding="utf-8")
    print(page)
    for folder in sys.argv[1:]:
        paths = sorted(Path(folder).rglob("*.py"))
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in paths)
        print(row(Path(folder).name, (text for text in texts if "triton.jit" in text)))


def _own() -> dict[str, list[str]]:
    result: dict[str, list[str]] = {"idioms of real projects": [], "honest": [], "twins": []}
    for entry in dict.fromkeys((*entries("virtual"), *not_here("virtual"))):
        if entry.kind != "cheat":
            result["honest" if entry.kind == "honest" else "twins"].append(entry.fixture.source)
    bases = _HERE.parent / "tools" / "corpus" / "bases"
    for path in sorted(bases.glob("i_*_kernel.py")):
        result["idioms of real projects"].append(path.read_text(encoding="utf-8"))
    lines = (_HERE / "rounds" / "first.jsonl").read_text(encoding="utf-8").splitlines()
    candidates = [r for r in map(json.loads, lines) if r["kind"] == "candidate"]
    result["honest ones of the attackers"] = [
        r["source"] for r in candidates if r["name"].startswith("honest")
    ]
    return result


def row(name: str, sources: Iterable[str]) -> str:
    """One line of the table; texts that do not parse do not count."""
    told: list[set[str]] = []
    began = time.process_time()
    for source in dict.fromkeys(sources):
        try:
            told.append({remark.code for remark in read(source)})
        except (SyntaxError, ValueError):
            continue
    ms = 1e3 * (time.process_time() - began) / max(len(told), 1)
    counts = Counter(code for codes in told for code in codes)
    strong = sum(bool(codes - {_MILD}) for codes in told)
    cells = [name, len(told), sum(map(bool, told)), f"{strong} ({strong / max(len(told), 1):.0%})"]
    cells += [counts[code] for code in NOT_JUDGED]
    return f"| {' | '.join(map(str, [*cells, f'{ms:.1f}']))} |\n"


if __name__ == "__main__":
    main()
