"""How many lines an emitted file has beyond its kernels, by part, with either runtime.

    python -m benchmarks.dropin_size [--only NAME...] [--runs NAME=FOLDER...]

takes finished runs of the built-in policy, or optimizes the shipped examples and three blocks of transformers, one turn each,
and writes `benchmarks/results/dropin_size.md`. Nothing is timed: the number of lines does not depend on it.
"""

from __future__ import annotations

import argparse
import ast
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import kernelagent
from benchmarks.model_blocks_list import BLOCKS
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.events import WinnerMeasured
from kernelagent.domain.problem import ProblemSpec
from kernelagent.dropin.emit import Certificate, emit_module
from kernelagent.dropin.runtime_package import Runtime
from kernelagent.loop.run import optimize
from kernelagent.report.reproduce import recheck_command
from kernelagent.report.terminal.browse import contents_of
from kernelagent.storage.run_log import LOG, read_events

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "benchmarks" / "results" / "dropin_size.md"
IN_TRANSFORMERS = ("LlamaMLP", "BertLayer", "LlamaDecoderLayer")
_PLAIN = {"rotary_embedding": ("RotaryEmbedding", "example_inputs")}
_DATA = frozenset({"ENVELOPE_VERIFIED", "CERTIFICATE", "_construct"})


def problems(folder: Path, only: list[str]) -> Iterator[tuple[str, ProblemSpec]]:
    """Name and problem of each row."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        if not only or path.stem in only:
            module, inputs = _PLAIN.get(path.stem, (None, None))
            yield path.stem, ProblemSpec(path=str(path), module=module, inputs=inputs)
    for block in (block for block in BLOCKS if block.name in IN_TRANSFORMERS):
        if not only or block.name in only:
            path = folder / f"{block.name}.py"
            path.write_text(block.source, encoding="utf-8")
            yield block.name, ProblemSpec(path=str(path), module=block.kind)


def row(name: str, problem: ProblemSpec, folder: Path) -> str:
    """One line of the table."""
    config = RunConfig(
        turns=1,
        envelope_seconds=0.0,
        device="virtual",
        force=True,
        runs=str(folder / "runs"),
        out=str(folder / f"{name}_optimized.py"),
    )
    return row_of(name, optimize(problem, config).run)


def row_of(name: str, run: Path) -> str:
    """The line of a run that is over."""
    measured = [e.event for e in read_events(run / LOG)]
    winners = [event for event in measured if isinstance(event, WinnerMeasured)]
    if not winners:
        return f"| {name} | no candidate was accepted | | | | | |"
    state = contents_of(run / LOG).state
    candidate = state.history.turn(winners[-1].turn).candidate
    assert candidate is not None
    assert state.facts is not None
    assert state.problem is not None
    module = Path(f"{name}_optimized.py")
    certificate = Certificate(
        run=run.name,
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        policy="triton",
        baseline="eager",
        reproduce=recheck_command(state.problem, RunConfig(device="virtual"), module),
        kernelagent=kernelagent.__version__,
    )
    cells = []
    runtimes: tuple[Runtime, ...] = ("inline", "package")
    for runtime in runtimes:
        text = emit_module(candidate, state.facts, winners[-1].evaluation, certificate, runtime)
        cells.append(parts_of(text, candidate))
    inline, package = cells
    own, head, data, guard = inline
    return (
        f"| {name} | {own} | {head} | {data} | {guard} | **{head + data + guard}** "
        f"| **{sum(package[1:])}** |"
    )


def parts_of(text: str, candidate: Candidate) -> tuple[int, int, int, int]:
    """Lines of the candidate, the header, what was verified, and the guard."""
    tree = ast.parse(text)
    head = tree.body[0].end_lineno or 0
    own = len(candidate.source.strip("\n").splitlines())
    data = sum(
        (node.end_lineno or 0) - node.lineno + 1
        for node in tree.body
        if getattr(node, "name", getattr(getattr(node, "target", None), "id", "")) in _DATA
    )
    return own, head, data, len(text.splitlines()) - own - head - data


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--runs", nargs="*", default=[], metavar="NAME=FOLDER")
    given = parser.parse_args()
    finished = [word.partition("=") for word in given.runs]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [row_of(label, Path(run)) for label, _, run in finished]
        for label, problem in problems(folder, given.only) if not finished else ():
            rows.append(row(label, problem, folder))
            print(rows[-1], flush=True)
    text = f"""# The emitted file beyond its kernels

`python -m benchmarks.dropin_size`, {time.strftime("%Y-%m-%d", time.gmtime())}: lines, blank ones too; the built-in policy, one turn.

| module | kernels and ModelNew | header | what was verified | guard | beyond the kernels, inline | with `--runtime package` |
|---|---|---|---|---|---|---|
""" + "".join(f"{line}\n" for line in rows)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
