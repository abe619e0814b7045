"""Kernels that nobody here wrote, judged as candidates: is anything refused that is right?

    python -m benchmarks.others_kernels FOLDER [--only PART...] [--show NAME]

FOLDER holds the projects' repositories as OWNER/NAME (or OWNER+NAME), fetched by whoever runs this: nothing
of them is committed. What a kernel needs of its package is put into one file
(`benchmarks.others_extract`), the rest of the candidate is ours. Writes `results/others_kernels.md`.
"""

from __future__ import annotations

import argparse
import tempfile
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.others_cases import CASES, DEFINED, Case
from benchmarks.others_extract import Extraction, NotExtractedError
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import KernelAgentError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge_client import JudgeProcess

_RESULTS = Path(__file__).parent / "results" / "others_kernels.md"
_HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


@dataclass(frozen=True)
class Row:
    """What became of a case."""

    case: Case
    verdict: str
    message: str
    disclosures: tuple[str, ...]
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of those wanted")
    parser.add_argument("--show", help="print this case's problem and candidate; judge nothing")
    options = parser.parse_args()
    if options.show:
        case = next(case for case in CASES if options.show in case.name)
        print(problem_text(case), candidate_text(case, options.folder), sep="\n# ---\n")
        return
    rows: list[Row] = []
    for case in CASES:
        if not options.only or any(part in case.name for part in options.only):
            rows.append(row := judged(case, options.folder))
            shown = (row.verdict, row.message[:300], *row.disclosures, f"{row.seconds:.1f} s")
            print(case.name, *shown, sep=" | ", flush=True)
            if not options.only:
                _RESULTS.write_text(page(rows), encoding="utf-8")


def problem_text(case: Case) -> str:
    return (
        f"{_HEAD}{DEFINED}\n\n{_module('Model', case.state, case.arguments, case.forward)}\n\n"
        f"def get_inputs():\n    return [{case.inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
    )


def candidate_text(case: Case, folder: Path) -> str:
    owner, name = case.project.repository.split("/")
    root = next(p for p in (folder / owner / name, folder / f"{owner}+{name}") if p.is_dir())
    taken = Extraction(root / case.project.packages, case.project.given)
    text = taken.text(case.module, case.takes)
    own = case.state if case.own_state is None else case.own_state
    module = _module("ModelNew", own, case.arguments, case.kernel)
    return f"{_HEAD}\n{text}\n\n{module}"


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


def judged(case: Case, folder: Path) -> Row:
    began = time.monotonic()
    try:
        candidate = Candidate(candidate_text(case, folder))
    except (NotExtractedError, StopIteration, OSError) as error:
        return Row(case, "not extracted", str(error), (), 0.0)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "problem.py"
        path.write_text(problem_text(case), encoding="utf-8")
        settings = JudgeSettings(
            ProblemSpec(path=str(path)), device="virtual", mode="train" if case.train else "eval"
        )
        try:
            with JudgeProcess(settings) as judge:
                result = judge.evaluate(candidate, lambda _: None)
        except KernelAgentError as error:
            return Row(case, "no judging", str(error), (), time.monotonic() - began)
    told = tuple(item.code for item in result.disclosures)
    reason = result.reason
    verdict, message = ("accepted", "") if reason is None else (reason.code, reason.message)
    return Row(case, verdict, message, told, time.monotonic() - began)


def page(rows: Sequence[Row]) -> str:
    accepted = sum(row.verdict == "accepted" for row in rows)
    lines = [
        "# Kernels that nobody here wrote",
        "",
        "`python -m benchmarks.others_kernels FOLDER` on `virtual`, policy `triton`; FOLDER holds the repositories "
        f"{', '.join(sorted({row.case.project.repository for row in rows}))} as they were fetched.",
        "",
        f"{accepted} of {len(rows)} accepted. What was refused is judged by hand below.",
        "",
        "| kernel | verdict | message | disclosures | s |",
        "|---|---|---|---|--:|",
    ]
    lines += [
        f"| {row.case.name} | {row.verdict} | {' '.join(row.message.split())[:200].replace('|', '/')} | "
        f"{', '.join(row.disclosures)} | {row.seconds:.0f} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
