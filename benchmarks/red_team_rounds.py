"""Candidates of attackers who knew the tree alone, judged again: how many get past the judge now.

    python -m benchmarks.red_team_rounds first [--accepted | --past | --only NAME... [--write]] [--told]

`benchmarks/rounds/ROUND.jsonl` holds their problems and candidates as they came, with the verdict of
that day. Writes `results/red_team_ROUND.md` as it goes. With `--accepted` it judges those again that
the table calls accepted and keeps the other rows, with `--past` those that it calls past the judge; with
both also the honest ones that the table calls refused. With `--only` those named, and writes nothing
unless `--write`, which keeps the other rows. `--no-judging` writes the table anew from its own rows.

A candidate is past the judge when it is hostile, accepted, and no disclosure names what it does. Which
disclosure would name it was decided by hand for each (`rounds/ROUND_named.json`; none: no disclosure
does), whether it is hostile at all by its attacker. In place of a disclosure that file may name what the
estimate must be at least (`5 us`: what the attacker hides takes that long), or the table that shows the
emitted module to see through it (`red_team_guards`).
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import KernelAgentError, ProblemError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge_client import JudgeProcess

_HERE = Path(__file__).parent
_OF_TRAINING = "train_"
_ACCEPTED = ("named", "accepted", "seen", "estimated")
_PAST = "**past**"
_EMITTED, _US = "red_team_guards", " us"
_DYNAMIC = "dynamic"
"""What stands before a policy where a dimension of the first input is declared to vary: its number follows, or it is the first."""
_BOTH = "both"
"""It varies and the module is trained."""


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
    naming: str = ""
    """The code of the disclosure that names what it does, an estimate or a table; empty: there is none."""

    @property
    def key(self) -> str:
        return f"{self.by}/{self.name}"

    @property
    def hostile(self) -> bool:
        """Controls, honest candidates and those that turned out harmless do not count."""
        return self._counts and not self.name.startswith("honest")

    @property
    def honest(self) -> bool:
        """What must be accepted; one that turned out to be wrong does not count."""
        return self._counts and self.name.startswith("honest")

    @property
    def _counts(self) -> bool:
        return "not counted" not in self.named


@dataclass(frozen=True)
class Judged:
    """The verdict now: a rejection's code, `accepted`, or why there is none."""

    attack: Attack
    verdict: str
    disclosures: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    """The disclosures in words."""
    us: float | None = None
    """The estimate."""

    @property
    def refused_though_honest(self) -> bool:
        return self.attack.honest and self.verdict != "accepted"

    @property
    def outcome(self) -> str:
        """What became of it, as the table has it."""
        if self.verdict != "accepted":
            return self.verdict
        if not self.attack.hostile:
            return "accepted, not hostile"
        naming = self.attack.naming
        if naming == _EMITTED:
            seen = self.attack.name in _seen_by_emitted_modules()
            return f"seen by the emitted module: {naming}" if seen else _PAST
        if naming.endswith(_US) and self.us is not None and self.us >= float(naming[: -len(_US)]):
            return f"estimated: {self.us:.1f}{_US}"
        return f"named: {naming}" if naming in self.disclosures else _PAST


@dataclass(frozen=True)
class Figures:
    """What a table comes to."""

    hostile: int
    accepted: int
    """Of the hostile ones."""
    past: int
    honest: int
    honest_refused: int

    @classmethod
    def of(cls, rows: Collection[Judged]) -> Figures:
        hostile = [row for row in rows if row.attack.hostile]
        return cls(
            len(hostile),
            sum(row.verdict == "accepted" for row in hostile),
            sum(row.outcome == _PAST for row in hostile),
            sum(row.attack.honest for row in rows),
            sum(row.refused_though_honest for row in rows),
        )

    @property
    def past_percent(self) -> float:
        return 100 * self.past / max(self.hostile, 1)


@cache
def _seen_by_emitted_modules() -> frozenset[str]:
    """The candidates whose later change the table of `red_team_guards` says to be seen."""
    table = (_HERE / "results" / f"{_EMITTED}.md").read_text(encoding="utf-8")
    rows = map(_cells, table.splitlines())
    return frozenset(row[0] for row in rows if len(row) == 3 and not row[2].startswith("**"))


def _cells(line: str) -> list[str]:
    """Of one row of a table, without the bars that stand in them as text."""
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _line(cells: Sequence[str]) -> str:
    """The row that `_cells` reads."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("round", choices=sorted(p.stem for p in (_HERE / "rounds").glob("*.jsonl")))
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of those wanted")
    parser.add_argument(
        "--accepted", action="store_true", help="those that the table calls accepted"
    )
    parser.add_argument("--past", action="store_true", help="those that the table calls past")
    parser.add_argument("--told", action="store_true", help="print what the verdicts tell in words")
    parser.add_argument("--write", action="store_true", help="with --only: into the table")
    parser.add_argument(
        "--no-judging", action="store_true", help="write the table from its own rows"
    )
    options = parser.parse_args()
    problems, attacks = read_round(_HERE / "rounds" / f"{options.round}.jsonl")
    table = _HERE / "results" / f"red_team_{options.round}.md"
    writes = options.write or not options.only
    keeps = options.accepted or options.past or options.no_judging or options.write
    rows = rows_of(table, attacks) if keeps and table.exists() else {}
    wanted = [a for a in attacks if not options.only or any(p in a.name for p in options.only)]
    if options.accepted or options.past:
        again = again_keys(rows.values(), past_only=options.past)
        wanted = [a for a in wanted if a.key in again]
    if options.no_judging:
        wanted = []
        table.write_text(page(options.round, rows, attacks, 0), encoding="utf-8")
    for count, row in enumerate(_judged(problems, wanted), start=1):
        rows[row.attack.key] = row
        us = () if row.us is None else (f"{row.us:.1f}{_US}",)
        print(count, row.attack.key, row.outcome, *us, *row.disclosures, flush=True)
        for told in row.told if options.told else ():
            print(f"    {told}", flush=True)
        if writes:
            table.write_text(page(options.round, rows, attacks, count), encoding="utf-8")


def again_keys(rows: Iterable[Judged], *, past_only: bool) -> frozenset[str]:
    """Which are judged again: the hostile ones that stand, and the honest ones that do not."""
    return frozenset(
        row.attack.key
        for row in rows
        if row.refused_though_honest
        or (row.outcome == _PAST if past_only else row.verdict == "accepted")
    )


def rows_of(table: Path, attacks: Sequence[Attack]) -> dict[str, Judged]:
    """What the table says of each candidate."""
    known = {attack.key: attack for attack in attacks}
    result: dict[str, Judged] = {}
    for line in table.read_text(encoding="utf-8").splitlines():
        cells = _cells(line)
        key = "/".join(cells[:2])
        if key in known:
            # From the end: what an attacker says of his own may hold anything.
            verdict, told = cells[-2], tuple(filter(None, cells[-1].split(", ")))
            us = None
            if verdict.startswith("estimated: "):
                us = float(verdict.removeprefix("estimated: ").removesuffix(_US))
            if verdict == _PAST or verdict.startswith(_ACCEPTED):
                verdict = "accepted"
            result[key] = Judged(known[key], verdict, told, us=us)
    return result


def read_round(path: Path) -> tuple[dict[tuple[str, str], str], list[Attack]]:
    problems: dict[tuple[str, str], str] = {}
    attacks: list[Attack] = []
    beside = path.with_name(f"{path.stem}_named.json")
    naming = json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        kind = row.pop("kind")
        if kind == "problem":
            problems[row["by"], row["name"]] = row["source"]
        else:
            attacks.append(Attack(**row, naming=naming.get(f"{row['by']}/{row['name']}", "")))
    return problems, attacks


def _judged(problems: dict[tuple[str, str], str], attacks: Sequence[Attack]) -> Iterator[Judged]:
    groups: dict[tuple[str, str, str], list[Attack]] = {}
    for attack in attacks:
        groups.setdefault((attack.by, attack.problem, attack.policy), []).append(attack)
    with tempfile.TemporaryDirectory() as folder:
        for (by, problem, policy), members in groups.items():
            path = Path(folder) / f"{by}_{problem}.py"
            path.write_text(problems[by, problem], encoding="utf-8")
            how, _, plain = policy.rpartition("_")
            trains = how in ("train", _BOTH)
            trains |= not how and members[0].name.startswith(_OF_TRAINING)
            settings = JudgeSettings(
                ProblemSpec(path=str(path)),
                device="virtual",
                policy=plain,
                mode="train" if trains else "eval",
                dynamic=_axes(how),
            )
            try:
                judge = JudgeProcess(settings)
            except ProblemError as error:
                # The problem itself is refused now: nothing of it is judged, or emitted.
                yield from (_without_a_judging(attack, error) for attack in members)
                continue
            with judge:
                for attack in members:
                    yield _verdict(judge, attack)


def _axes(how: str) -> tuple[str, ...]:
    if how == _BOTH:
        return ("0",)
    return (how.removeprefix(_DYNAMIC) or "0",) if how.startswith(_DYNAMIC) else ()


def _verdict(judge: JudgeProcess, attack: Attack) -> Judged:
    try:
        result = judge.verdict(Candidate(attack.source), lambda _: None)
    except KernelAgentError as error:
        return _without_a_judging(attack, error)
    verdict = "accepted" if result.reason is None else result.reason.code
    told = tuple(item.message for item in result.disclosures)
    us = None if result.estimate is None else result.estimate.candidate_us
    return Judged(attack, verdict, tuple(item.code for item in result.disclosures), told, us)


def _without_a_judging(attack: Attack, error: KernelAgentError) -> Judged:
    return Judged(attack, f"no judging: {' '.join(str(error).split())[:120].strip()}")


def page(name: str, rows: dict[str, Judged], attacks: Sequence[Attack], again: int) -> str:
    """In the order of the round; `again`: how many were judged in this call."""
    every = [rows[a.key] for a in attacks if a.key in rows]
    figures = Figures.of(every)
    then = sum(row.attack.hostile and row.attack.then.startswith("accepted") for row in every)
    refused = ", ".join(row.attack.name for row in every if row.refused_though_honest)
    lines = [
        f"# Round `{name}`: attackers who knew the tree alone",
        "",
        f"`python -m benchmarks.red_team_rounds {name}`, on `virtual`: {len(every)} of {len(attacks)} candidates, "
        f"{figures.hostile} of them hostile; {again} judged again in the last call (`--accepted`: those that were accepted "
        f"before, `--past`: those that were past the judge; with both the honest ones that were refused).",
        "",
        f"Of the hostile ones {then} were accepted on the day of the round; now {figures.accepted} are, "
        f"{figures.accepted - figures.past} with a disclosure that names what they do, an estimate that has it, or an emitted "
        f"module that sees it, and **{figures.past} are past the judge ({figures.past_percent:.0f} %)**. Which of "
        f"them closes what was decided by hand (`benchmarks/rounds/{name}_named.json`).",
        "",
        f"Honest refused: {figures.honest_refused} of {figures.honest}"
        f"{f' ({refused})' if refused else ''}.",
        "",
        "| by | candidate | policy | idea | on that day | now | disclosures now |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        _line(
            (
                row.attack.by,
                row.attack.name,
                row.attack.policy,
                row.attack.idea,
                row.attack.then,
                row.outcome,
                ", ".join(row.disclosures),
            )
        )
        for row in every
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
