"""Kernels that nobody here wrote, judged as candidates: is anything refused that is right?

    python -m benchmarks.others FOLDER [--only PART...] [--show NAME] [--judging-seconds S]
    python -m benchmarks.others --page

FOLDER holds the projects' repositories as OWNER/NAME (or OWNER+NAME), fetched by whoever runs this: nothing
of them is committed. What a kernel needs of its package is put into one file
(`benchmarks.others.extract`), the rest of the candidate is ours. Each verdict is kept in
`results/others_kernels.jsonl` with its commit, the last of a case counts; `results/others_kernels.md` is their table.
"""

from __future__ import annotations

import argparse
import json
import pkgutil
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import benchmarks.others.cases
from benchmarks.commit import head_of
from benchmarks.others.cases.case import Case
from benchmarks.others.extract import Extraction
from benchmarks.others.rewriting import NotExtractedError
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import KernelAgentError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge_client import JudgeProcess

_PAGE = Path(__file__).parents[1] / "results" / "others_kernels.md"
_KEPT = _PAGE.with_suffix(".jsonl")
_HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
Row = Mapping[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, nargs="?", help="holds the repositories")
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of those wanted")
    parser.add_argument("--missing", action="store_true", help="those that have no verdict yet")
    parser.add_argument("--show", help="print this case's problem and candidate; judge nothing")
    parser.add_argument("--told", action="store_true", help="print what the disclosures say")
    parser.add_argument("--judging-seconds", type=float, default=120.0, help="of one case")
    parser.add_argument("--page", action="store_true", help="write the table of what is kept")
    options = parser.parse_args()
    kept = {row["name"]: row for row in _kept()}
    if options.folder is None:
        if not options.page:
            parser.error("give the folder that holds the repositories, or --page")
    elif options.show:
        case = next(case for case in every_case() if options.show in case.name)
        print(problem_text(case), candidate_text(case, options.folder), sep="\n# ---\n")
        return
    else:
        for case in every_case():
            if options.only and not any(part in case.name for part in options.only):
                continue
            if options.missing and case.name in kept:
                continue
            row, told = judged(case, options.folder, options.judging_seconds)
            print(case.name, row["verdict"], row["message"][:300], *told, sep=" | ", flush=True)
            if options.told:
                print(*(f"    {code}: {text}" for code, text in told.items()), sep="\n", flush=True)
            with _KEPT.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    _PAGE.write_text(page({row["name"]: row for row in _kept()}), encoding="utf-8")


def every_case() -> Iterator[Case]:
    """The cases of every module beside `case`, by project."""
    for found in pkgutil.iter_modules(benchmarks.others.cases.__path__):
        yield from getattr(import_module(f"benchmarks.others.cases.{found.name}"), "CASES", ())


def problem_text(case: Case) -> str:
    return (
        f"{_HEAD}{case.defined}\n\n{_module('Model', case.state, case.arguments, case.forward)}\n\n"
        f"def get_inputs():\n    return [{case.inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
    )


def candidate_text(case: Case, folder: Path) -> str:
    owner, name = case.project.repository.split("/")
    root = next(p for p in (folder / owner / name, folder / f"{owner}+{name}") if p.is_dir())
    taken = Extraction(root / case.project.packages, case.project.given, case.project.branches)
    text = taken.text(case.module, case.takes)
    own = case.state if case.own_state is None else case.own_state
    module = _module("ModelNew", own, case.arguments, case.kernel)
    return f"{_HEAD}\n{text}\n\n{case.own_defined}\n\n{module}"


def _module(name: str, state: str, arguments: str, result: str) -> str:
    text = f"""\
    class {name}(nn.Module):
        def __init__(self):
            super().__init__()
            {state or "pass"}

        def forward(self, {arguments}):
            return {result}
    """
    return textwrap.dedent(text)


def judged(case: Case, folder: Path, seconds: float) -> tuple[Row, Mapping[str, str]]:
    """What became of the case: `name`, `verdict` (a rejection's code where it is one), `message`, `disclosures`; and what these say."""
    began = time.monotonic()
    verdict, message, told = _verdict(case, folder, seconds)
    row = {
        "name": case.name,
        "verdict": verdict,
        "message": " ".join(message.split()),
        "disclosures": list(told),
        "seconds": round(time.monotonic() - began),
        "commit": head_of(Path(__file__).parents[2]),
    }
    return row, told


def _verdict(case: Case, folder: Path, seconds: float) -> tuple[str, str, Mapping[str, str]]:
    try:
        candidate = Candidate(candidate_text(case, folder))
    except (NotExtractedError, StopIteration, OSError) as error:
        return "not extracted", str(error), {}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "problem.py"
        path.write_text(problem_text(case), encoding="utf-8")
        settings = JudgeSettings(
            ProblemSpec(path=str(path)),
            device="virtual",
            mode="train" if case.train else "eval",
            judging_seconds=seconds,
        )
        try:
            with JudgeProcess(settings) as judge:
                result = judge.verdict(candidate, lambda _: None)
        except KernelAgentError as error:
            return "no judging", str(error), {}
    told = {item.code: item.message for item in result.disclosures}
    if result.reason is None:
        return "accepted", "", told
    return result.reason.code, result.reason.message, told


def _kept() -> list[dict[str, Any]]:
    if not _KEPT.exists():
        return []
    return [json.loads(line) for line in _KEPT.read_text(encoding="utf-8").splitlines()]


def page(kept: Mapping[str, Row]) -> str:
    cases = [case for case in every_case() if case.name in kept]
    rows = [(case, kept[case.name]) for case in cases]
    accepted = [case for case, row in rows if row["verdict"] == "accepted"]
    refused = [case for case, row in rows if row["verdict"] != "accepted"]
    by_project = Counter(case.project.repository for case in cases)
    good = Counter(case.project.repository for case in accepted)
    lines = [
        "# Kernels that nobody here wrote",
        "",
        "`python -m benchmarks.others FOLDER` on `virtual`, policy `triton`; FOLDER holds the repositories as they were fetched. A row's "
        "commit is the one that its case was last judged at.",
        "",
        f"**{len(accepted)} of {len(rows)} accepted.** Of the others {sum(bool(c.fault) for c in refused)} are wrong themselves, "
        f"{sum(bool(c.limit) for c in refused)} meet a limit that has a name, "
        f"{sum(not c.fault and not c.limit for c in refused)} are refused and nobody has looked why.",
        "",
        "| project | judged | accepted |",
        "|---|--:|--:|",
        *(f"| {name} | {count} | {good[name]} |" for name, count in sorted(by_project.items())),
        "",
        "| kernel | verdict | message | by hand | disclosures | s | at |",
        "|---|---|---|---|---|--:|---|",
    ]
    for case, row in rows:
        message = row["message"][:200].replace("|", "/")
        by_hand = case.fault or case.limit if row["verdict"] != "accepted" else ""
        told = ", ".join(row["disclosures"])
        lines.append(
            f"| {case.name} | {row['verdict']} | {message} | {by_hand} | {told} | {row['seconds']} | {row['commit']} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
