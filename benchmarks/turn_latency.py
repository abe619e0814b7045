"""Reply to feedback, warm, on the virtual device: where the seconds of a turn go.

    python benchmarks/turn_latency.py [--problem FILE] [--candidate FILE] [--repeat N] [--write FILE]

"Own overhead" is everything but triton compiling, the candidate running and the judge's checks.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path
from statistics import median

from kernelagent.domain.candidate import Candidate, parse_reply
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.models.replay import ReplayModel
from kernelagent.prompts.feedback import feedback_for
from kernelagent.tools.judge_client import JudgeProcess

ROOT = Path(__file__).resolve().parents[1]
CASSETTE = ROOT / "tests" / "cassettes" / "rms_norm_residual.jsonl"


def main() -> None:
    arguments = _arguments()
    source = candidate_at(arguments.candidate)
    rows: list[dict[str, float]] = []
    with JudgeProcess(
        JudgeSettings(ProblemSpec(path=str(arguments.problem)), device="virtual")
    ) as judge:
        judge.evaluate(Candidate(source), lambda _: None)
        for number in range(arguments.repeat):
            began = time.perf_counter()
            # A comment makes each a new candidate to every cache but the compiler's own.
            evaluation = judge.evaluate(Candidate(f"{source}# {number}\n"), lambda _: None)
            feedback_for(evaluation)
            total = time.perf_counter() - began
            if not evaluation.accepted:
                raise SystemExit(f"the candidate is not accepted: {evaluation.reason}")
            stages = {stage.name: stage.seconds for stage in evaluation.stages}
            known = sum(s.seconds for s in evaluation.stages if not s.overhead)
            rows.append({"total": total, "own overhead": total - known, **stages})
    text = _table(rows, arguments)
    print(text)
    if arguments.write:
        arguments.write.write_text(text + "\n", encoding="utf-8")


def rms_norm_candidate() -> str:
    """The recorded answer to the RMSNorm example."""
    return candidate_at(CASSETTE)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", type=Path, default=ROOT / "examples" / "rms_norm_residual.py")
    parser.add_argument("--candidate", type=Path, default=CASSETTE)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--write", type=Path)
    return parser.parse_args()


def candidate_at(path: Path) -> str:
    """The candidate in a file, or in the last reply of a cassette."""
    if path.suffix == ".py":
        return path.read_text(encoding="utf-8")
    parsed = parse_reply(ReplayModel.from_path(str(path)).replies[-1].text)
    if not isinstance(parsed, Candidate):
        raise SystemExit(f"{path}: {parsed.why}")
    return parsed.source


def _table(rows: list[dict[str, float]], arguments: argparse.Namespace) -> str:
    total = median(row["total"] for row in rows)
    problem, candidate = arguments.problem.name, arguments.candidate.name
    lines = [
        "# Turn latency on the virtual device",
        "",
        f"`python benchmarks/turn_latency.py --repeat {len(rows)}`, problem {problem}, candidate "
        f"{candidate}, {platform.machine()}, Python {platform.python_version()}; medians of "
        f"{len(rows)} warm turns.",
        "",
        "| step | seconds | share |",
        "|---|---|---|",
    ]
    for name in rows[0]:
        seconds = median(row[name] for row in rows)
        lines.append(f"| {name} | {seconds:.3f} | {seconds / total:.1%} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
