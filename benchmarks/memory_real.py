"""What memory learns from real runs of the examples, and what another example is told of it.

    python -m benchmarks.memory_real [--write FILE]

The runs: the recorded conversations under `tests/cassettes`, every candidate judged anew here, and the
built-in policy. Neither reads prompts, so what a memory does to a writer cannot show in them; what can
be seen is which lessons come, at which turn, and whether they are about what then went wrong.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.history import History, Turn
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.tables.rejection_codes import TEACHING
from kernelagent.loop.attached_lessons import learn
from kernelagent.loop.run import optimize
from kernelagent.storage.lessons.facts import fact_of
from kernelagent.storage.lessons.library import Library
from kernelagent.storage.lessons.patterns import pattern_of
from kernelagent.storage.lessons.recall import Memory
from kernelagent.storage.run_state import RunState
from kernelagent.tools.judge.harness import harness_sha256

ROOT = Path(__file__).resolve().parents[1]
CASSETTES = sorted((ROOT / "tests" / "cassettes").glob("*.jsonl"))
BUILT_IN = ("layer_norm_gelu", "rms_norm_residual", "cross_entropy")


@dataclass(frozen=True)
class Played:
    """A run of an example, and who wrote its candidates."""

    example: str
    writer: str
    state: RunState

    @property
    def name(self) -> str:
        return f"{self.example} ({self.writer})"


def real() -> list[str]:
    """The page."""
    with tempfile.TemporaryDirectory(prefix="kernelagent-memory-") as scratch:
        folder = Path(scratch)
        runs = list(played(folder))
        lines = [
            "# Memory across runs: what each example is told by the others",
            "",
            f"`python -m benchmarks.memory_real`, {platform.machine()}. Judged on `virtual`; every speed is an ESTIMATE. For each run the library holds the runs "
            "of all OTHER examples. Its writers did not read these lines (recordings and the built-in "
            "policy read no prompt), so this shows the retrieval, not an effect.",
            "",
        ]
        totals = [0, 0]
        pages: list[str] = []
        for number, run in enumerate(runs):
            library = Library.at(folder / f"memory-{number}", make=True)
            for other in runs:
                if other.example != run.example:
                    learn(library, other.state)
            pages += told(run, library, totals)
        warned, taught = totals
        lines += [
            f"Rejections with a rule in them, over all these runs: {taught}; of them told to the turn "
            f"beforehand: {warned}.",
            "",
        ]
    return lines + pages


def played(folder: Path) -> Iterator[Played]:
    for cassette in CASSETTES:
        yield play(cassette.stem, f"replay:{cassette}", "a recorded conversation", folder)
    for example in BUILT_IN:
        yield play(example, "compiler", "the built-in policy", folder)


def play(example: str, model: str, writer: str, folder: Path) -> Played:
    config = RunConfig(
        device="virtual",
        model=(model,),
        turns=6,
        envelope_seconds=0.0,
        runs=str(folder / "runs"),
        out=str(folder / f"{example}_{len(writer)}.py"),
    )
    problem = ProblemSpec(path=str(ROOT / "examples" / f"{example}.py"))
    return Played(example, writer, optimize(problem, config).state)


def told(run: Played, library: Library, totals: list[int]) -> list[str]:
    """What each turn of a run would have been told; adds (warned, taught) to `totals`."""
    facts, device = run.state.facts, run.state.device
    assert facts is not None
    assert device is not None
    memory = Memory(library.lessons(), harness_sha256()[:12])
    lines = [f"## {run.name}: {pattern_of(facts.source).name}", ""]
    for turn in run.state.history.finished:
        before = History(tuple(t for t in run.state.history.turns if t.index < turn.index))
        request = replace(turn.request, recalled=())
        result = memory.recall(facts, device, before, request)
        lines.append(f"turn {turn.index}, {request.kind}{ended(turn)}:")
        lines += [f"- {item.words}" for item in result] or ["- nothing"]
        lines.append("")
        if (fact := rule_of(turn)) is not None:
            totals[1] += 1
            totals[0] += any(fact in item.words for item in result)
    return lines


def ended(turn: Turn) -> str:
    if turn.evaluation is None:
        return ""
    reason = turn.evaluation.reason
    return ", then accepted" if reason is None else f", then {reason.code}"


def rule_of(turn: Turn) -> str | None:
    reason = turn.evaluation.reason if turn.evaluation is not None else None
    return fact_of(reason.message) if reason is not None and reason.code in TEACHING else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, default=None)
    given = parser.parse_args()
    text = "\n".join(real()).rstrip() + "\n"
    print(text)
    if given.write is not None:
        given.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
