"""The page of `real_writer`: acceptance, the best of history and tokens by arm, with intervals over problems."""

from __future__ import annotations

import math
import random
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from kernelagent.prompts.feedback import NOTHING_LEFT

SIMULATED = Path(__file__).parent / "results" / "strategies.md"
_DRAWS = 4000


@dataclass(frozen=True)
class Row:
    """One turn of one run."""

    arm: str
    problem: str
    kind: str
    turn: int
    verdict: str
    """`accepted`, a rejection's code, `error`'s code, or `void`."""
    ratio: float | None = None
    """Eager's estimate over the candidate's, where it was accepted."""
    against_compile: float | None = None
    """The same of `torch.compile`."""
    faster: bool = False
    """Beyond the doubt of the estimate."""
    tokens_in: int = 0
    tokens_out: int = 0
    calls: int = 0
    """Of tools, before the turn's candidate."""
    left: float | None = None
    """Share of its estimated time that the fewest bytes and operations would save; None: it has none, or the row is older than this field."""
    outcome: str = ""
    """How the run ended."""
    commit: str = ""


def page(rows: Sequence[Row]) -> str:
    """Markdown; a problem that a run has no row of counts for nothing in that arm."""
    arms = list(dict.fromkeys(row.arm for row in rows))
    common = sorted(set.intersection(*({r.problem for r in rows if r.arm == arm} for arm in arms)))
    everywhere = [row for row in rows if row.problem in common]
    lines = [
        "# Strategies with real writers",
        "",
        "`python -m benchmarks.real_writer table`, from the rows beside it. Writers: language models of one kind (Claude), each",
        "of one arm, who saw the prompts and the answers of tools alone, 8 turns a problem. Nothing was timed: every ratio is eager's",
        "**estimate** over the candidate's, for an H200 SXM. Tokens are characters by four. A writer keeps what it has read: it went",
        "through two to five problems one after another, so that it may have learnt from the ones before. The judge and the prompts are",
        "those of each row's commit.",
        "",
        f"{len({(row.arm, row.problem) for row in rows})} runs, {len(rows)} turns; in every arm: {', '.join(common) or 'none'}.",
        "Intervals: 95 %, bootstrap over problems. Best of history is 1 where nothing accepted beats eager.",
        "",
        f"## The {len(common)} problems that every arm has",
        "",
        *_by_arm(arms, everywhere),
        "",
        "## Best of history against the last turn, accepted by turn",
        "",
        *_by_turn(arms, everywhere),
        "",
        "## Two arms, on the problems that both have",
        "",
        *_by_pair(arms, rows),
        "",
        f"## Turns after at most {NOTHING_LEFT:.0%} was left to gain (`--stop-at-headroom {NOTHING_LEFT:g}`)",
        "",
        *_near_the_least(arms, rows),
        "",
        "## All runs",
        "",
        *_by_run(rows),
        "",
        "## What the simulation says of 8 turns",
        "",
        *_simulated(arms),
    ]
    return "\n".join(lines) + "\n"


def _by_pair(arms: Sequence[str], rows: Sequence[Row]) -> list[str]:
    lines = ["| arm | over | problems | best of history |", "|---|---|--:|---|"]
    for one, other in combinations(arms, 2):
        mine, others = _runs(rows, one), _runs(rows, other)
        both = [_best(mine[name]) / _best(others[name]) for name in mine if name in others]
        lines.append(f"| `{one}` | `{other}` | {len(both)} | {_mean(both)} |")
    return lines


def _by_arm(arms: Sequence[str], rows: Sequence[Row]) -> list[str]:
    lines = [
        "| arm | runs | turns accepted | with an accepted one | faster than eager | best of history | over `sequential` | "
        "over `torch.compile` | tokens read | written | calls of tools |",
        "|---|--:|--:|--:|--:|---|---|--:|--:|--:|--:|",
    ]
    first = _runs(rows, arms[0])
    for arm in arms:
        runs = _runs(rows, arm)
        turns = [row for run in runs.values() for row in run]
        accepted = sum(row.verdict == "accepted" for row in turns)
        best = {name: _best(run) for name, run in runs.items()}
        against = {name: best[name] / _best(first[name]) for name in best if name in first}
        ahead = sum(
            any((r.against_compile or 0) > 1 and r.ratio for r in run) for run in runs.values()
        )
        lines.append(
            f"| `{arm}` | {len(runs)} | {accepted} of {len(turns)} | "
            f"{sum(any(r.ratio for r in run) for run in runs.values())} | "
            f"{sum(any(r.faster for r in run) for run in runs.values())} | {_mean(best.values())} | "
            f"{_mean(against.values())} | {ahead} | {_thousands(r.tokens_in for r in turns)} | "
            f"{_thousands(r.tokens_out for r in turns)} | {sum(r.calls for r in turns)} |"
        )
    return lines


def _near_the_least(arms: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Of runs whose rows say what was left: what a run that had ended there would have saved and lost."""
    lines = [
        "| arm | runs that say it | came so near | at turn (median) | turns after | tokens read and written after | what they brought |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for arm in arms:
        runs = [run for run in _runs(rows, arm).values() if any(r.left is not None for r in run)]
        near = {}
        for at, run in enumerate(runs):
            turns = [r.turn for r in run if r.left is not None and r.left <= NOTHING_LEFT]
            if turns:
                near[at] = min(turns)
        after = {at: [r for r in runs[at] if r.turn > turn] for at, turn in near.items()}
        spent = [row for rest in after.values() for row in rest]
        gained = [
            _best(runs[at]) / _best([r for r in runs[at] if r.turn <= turn])
            for at, turn in near.items()
        ]
        middle = f"{statistics.median(near.values()):g}" if near else ""
        tokens = _thousands(row.tokens_in + row.tokens_out for row in spent)
        lines.append(
            f"| `{arm}` | {len(runs)} | {len(near)} | {middle} | {len(spent)} | {tokens} | {_mean(gained)} |"
        )
    return lines


def _by_turn(arms: Sequence[str], rows: Sequence[Row]) -> list[str]:
    turns = range(1 + max((row.turn for row in rows), default=0))
    lines = [
        f"| arm | | {' | '.join(f'turn {turn}' for turn in turns)} |",
        "|---|---|" + "--:|" * len(turns),
    ]
    shown: tuple[tuple[str, Callable[[list[Row], int], float | None]], ...] = (
        ("best of history", lambda run, turn: _best([r for r in run if r.turn <= turn])),
        ("this turn", lambda run, turn: next((r.ratio for r in run if r.turn == turn), None)),
    )
    for arm in arms:
        runs = _runs(rows, arm)
        counts = [
            f"{sum(r.verdict == 'accepted' for run in runs.values() for r in run if r.turn == turn)}/"
            f"{sum(r.turn == turn for run in runs.values() for r in run)}"
            for turn in turns
        ]
        lines.append(f"| `{arm}` | accepted | {' | '.join(counts)} |")
        for title, of in shown:
            values = [
                [v for run in runs.values() if (v := of(run, turn)) is not None] for turn in turns
            ]
            cells = " | ".join(f"{_geometric(v):.2f}" if v else "" for v in values)
            lines.append(f"| `{arm}` | {title} | {cells} |")
    return lines


def _by_run(rows: Sequence[Row]) -> list[str]:
    lines = [
        "| problem | class | arm | turn by turn (ratio to eager, or the code) | best | ended | commit |",
        "|---|---|---|---|--:|---|---|",
    ]
    runs: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        runs.setdefault((row.problem, row.arm), []).append(row)
    for (problem, arm), run in sorted(runs.items()):
        told = [f"{row.ratio:.2f}" if row.ratio is not None else row.verdict for row in run]
        lines.append(
            f"| {problem} | {run[0].kind} | `{arm}` | {', '.join(told)} | {_best(run):.2f} | "
            f"{run[0].outcome} | {run[0].commit} |"
        )
    return lines


def _simulated(arms: Sequence[str]) -> list[str]:
    """The rows of these strategies in the simulation's first table, which has as many turns."""
    text = SIMULATED.read_text(encoding="utf-8").split("## 8 turns", 1)[1].split("\n## ", 1)[0]
    table = [line for line in text.splitlines() if line.startswith("|")]
    named = {re.sub(r"-no-tools$", "", arm) for arm in arms}
    kept = [line for line in table[2:] if line.split("|")[1].strip() in named]
    return [
        "From [strategies.md](strategies.md), where nothing was asked or run:",
        "",
        *table[:2],
        *kept,
    ]


def _runs(rows: Sequence[Row], arm: str) -> dict[str, list[Row]]:
    runs: dict[str, list[Row]] = {}
    for row in rows:
        if row.arm == arm:
            runs.setdefault(row.problem, []).append(row)
    return runs


def _best(run: Sequence[Row]) -> float:
    return max([1.0, *(row.ratio for row in run if row.ratio is not None)])


def _geometric(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _mean(values: Iterable[float]) -> str:
    """The geometric mean with its interval."""
    drawn = list(values)
    if not drawn:
        return ""
    dice = random.Random(0)
    means = sorted(_geometric(dice.choices(drawn, k=len(drawn))) for _ in range(_DRAWS))
    low, high = means[int(0.025 * _DRAWS)], means[int(0.975 * _DRAWS)]
    return f"{_geometric(drawn):.2f}× [{low:.2f}, {high:.2f}]"


def _thousands(numbers: Iterable[int]) -> str:
    return f"{sum(numbers) / 1000:.0f}k"
