"""Candidates of attackers who knew the tree alone, judged again: how many get past the judge now.

    python -m benchmarks.red_team_rounds first [--only NAME...]

`benchmarks/rounds/ROUND.jsonl` holds their problems and candidates as they came, with the verdict of
that day. Writes `results/red_team_ROUND.md` as it goes; with `--only` it writes nothing. A candidate is
past the judge when it is accepted; whether a disclosure names what it does, its attacker said.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.errors import KernelAgentError
from kernelagent.domain.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge_client import JudgeProcess

_HERE = Path(__file__).parent
_OF_TRAINING = "train_"


@dataclass(frozen=True)
class Attack:
    """A candidate as its attacker left it."""

    by: str
    name: str
    problem: str
    policy: str
    idea: str
    then: str
    named: str
    source: str


@dataclass(frozen=True)
class Judged:
    """The verdict now: a rejection's code, `accepted`, or why there is none."""

    attack: Attack
    verdict: str
    disclosures: tuple[str, ...] = ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("round", choices=sorted(p.stem for p in (_HERE / "rounds").glob("*.jsonl")))
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of those wanted")
    options = parser.parse_args()
    problems, attacks = _read(_HERE / "rounds" / f"{options.round}.jsonl")
    wanted = [a for a in attacks if not options.only or any(p in a.name for p in options.only)]
    rows: list[Judged] = []
    for row in _judged(problems, wanted):
        rows.append(row)
        print(row.attack.by, row.attack.name, row.verdict, *row.disclosures, flush=True)
        if not options.only:
            page = _page(options.round, rows, len(attacks))
            (_HERE / "results" / f"red_team_{options.round}.md").write_text(page, encoding="utf-8")


def _read(path: Path) -> tuple[dict[tuple[str, str], str], list[Attack]]:
    problems: dict[tuple[str, str], str] = {}
    attacks: list[Attack] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        kind = row.pop("kind")
        if kind == "problem":
            problems[row["by"], row["name"]] = row["source"]
        else:
            attacks.append(Attack(**row))
    return problems, attacks


def _judged(problems: dict[tuple[str, str], str], attacks: Sequence[Attack]) -> Iterator[Judged]:
    groups: dict[tuple[str, str, str], list[Attack]] = {}
    for attack in attacks:
        groups.setdefault((attack.by, attack.problem, attack.policy), []).append(attack)
    with tempfile.TemporaryDirectory() as folder:
        for (by, problem, policy), members in groups.items():
            path = Path(folder) / f"{by}_{problem}.py"
            path.write_text(problems[by, problem], encoding="utf-8")
            mode = "train" if members[0].name.startswith(_OF_TRAINING) else "eval"
            settings = JudgeSettings(
                ProblemSpec(path=str(path)),
                device="virtual",
                policy=policy,
                mode="train" if mode == "train" else "eval",
            )
            with JudgeProcess(settings) as judge:
                for attack in members:
                    yield _verdict(judge, attack)


def _verdict(judge: JudgeProcess, attack: Attack) -> Judged:
    try:
        result = judge.evaluate(Candidate(attack.source), lambda _: None)
    except KernelAgentError as error:
        return Judged(attack, f"no judging: {' '.join(str(error).split())[:120]}")
    verdict = "accepted" if result.reason is None else result.reason.code
    return Judged(attack, verdict, tuple(item.code for item in result.disclosures))


def _page(name: str, rows: Sequence[Judged], count: int) -> str:
    then = sum(row.attack.then.startswith("accepted") for row in rows)
    now = sum(row.verdict == "accepted" for row in rows)
    lines = [
        f"# Round `{name}`: attackers who knew the tree alone",
        "",
        f"`python -m benchmarks.red_team_rounds {name}`, on `virtual`: {len(rows)} of {count} candidates judged "
        f"again; accepted on the day of the round {then}, now {now}.",
        "",
        "| by | candidate | policy | idea | on that day | now | disclosures now |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.attack.by} | {row.attack.name} | {row.attack.policy} | {row.attack.idea} | "
        f"{row.attack.then} | {row.verdict} | {', '.join(row.disclosures)} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
