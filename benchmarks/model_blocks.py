"""Blocks of today's models through every door: `scan`, `optimize`, `--submodule`, the library call.

    python -m benchmarks.model_blocks [--only NAME...] [--ways scan,optimize,submodule,library]

writes `benchmarks/results/model_blocks.md` and `docs/model-blocks.md` from
`benchmarks/results/model_blocks.jsonl`, to which each answer is appended as it comes: a block that is
there already is left out, `--anew` forgets them first.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks import kept_rows
from benchmarks.model_blocks_list import BLOCKS, Block
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import KernelAgentError
from kernelagent.domain.events import Evaluated, RunFinished
from kernelagent.domain.problem import ProblemSpec
from kernelagent.prompts.wording import summary as verdict_line
from kernelagent.storage.run_log import LOG, read_events

RESULTS = Path(__file__).parent / "results" / "model_blocks"
PAGE = Path(__file__).parents[1] / "docs" / "model-blocks.md"
_LONGEST = 150
_CONFIG = RunConfig(turns=1, envelope_seconds=0.0, device="virtual", force=True)


@dataclass(frozen=True)
class Answer:
    """What came of one block through one door."""

    block: str
    package: str
    way: str
    outcome: str
    """`works`, `refused`, or `fails`: a traceback, or an answer that is none."""
    text: str
    seconds: float


def scan(block: Block, folder: Path) -> tuple[str, str]:
    """The block inside a model, looked at as a whole."""
    from kernelagent.loop.submodule import scanned

    result = scanned(_around(folder), _CONFIG)
    parts = [row for row in result.rows if row.cannot is None]
    if not result.rows:
        return "fails", "no part was seen"
    named = next((row.cannot for row in result.rows if row.path == "part"), None)
    return "works", named or f"{len(parts)} of {len(result.rows)} parts can be optimized alone"


def optimize(block: Block, folder: Path) -> tuple[str, str]:
    """The block from its file."""
    from kernelagent.loop.run import optimize as run

    spec = ProblemSpec(path=str(folder / "model.py"), module=block.kind)
    result = run(spec, _config(folder, "alone"))
    return _told(result.outcome, _last_verdict(result.run) or result.why)


def submodule(block: Block, folder: Path) -> tuple[str, str]:
    """The block as a part of the model around it, put back and verified in its place."""
    from kernelagent.loop.submodule import optimize_parts

    result = optimize_parts(_around(folder), _config(folder, "part"), [("part",)])
    part = result.parts[0]
    return _told("better" if part.emitted is not None else "none", part.why)


def library(block: Block, folder: Path) -> tuple[str, str]:
    """The live block, handed over by a program."""
    import kernelagent

    spec = importlib.util.spec_from_file_location(f"model_{block.kind}", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    live = getattr(module, block.kind)(*module.get_init_inputs()).eval()
    given = module.get_inputs()
    given = tuple(given) if isinstance(given, list) else given
    config = _config(folder, "library")
    result = kernelagent.optimize(
        live,
        given,
        turns=1,
        envelope_seconds=0.0,
        device="virtual",
        force=True,
        runs=config.runs,
        out=config.out,
    )
    outcome = "better" if result.path is not None else "none"
    return _told(outcome, _last_verdict(result.run) or _why_finished(result.run))


WAYS: dict[str, Callable[[Block, Path], tuple[str, str]]] = {
    "scan": scan,
    "optimize": optimize,
    "submodule": submodule,
    "library": library,
}


def _around(folder: Path) -> ProblemSpec:
    return ProblemSpec(path=str(folder / "model.py"), module="Around", init="no_arguments")


def _config(folder: Path, name: str) -> RunConfig:
    changed = asdict(_CONFIG) | {"runs": str(folder / "runs"), "out": str(folder / f"{name}.py")}
    kept = {
        key: changed[key] for key in ("runs", "out", "turns", "envelope_seconds", "device", "force")
    }
    return RunConfig(**kept)


def _told(outcome: str, why: str) -> tuple[str, str]:
    """A verified module that is no better is an answer; a candidate that was rejected is none."""
    if outcome == "better":
        return "works", "verified and written"
    spoilt = "no candidate was accepted" in why
    return ("fails" if spoilt else "works"), _short(f"not written: {why}")


def _last_verdict(folder: Path) -> str | None:
    """Why the last candidate was rejected, where it was."""
    judged = [e.event for e in read_events(folder / LOG) if isinstance(e.event, Evaluated)]
    if not judged or judged[-1].evaluation.accepted:
        return None
    return f"no candidate was accepted: {verdict_line(judged[-1].evaluation)}"


def _why_finished(folder: Path) -> str:
    ends = [e.event for e in read_events(folder / LOG) if isinstance(e.event, RunFinished)]
    return ends[-1].why if ends else "its log has no end"


def _short(text: str) -> str:
    line = " ".join(text.split()).replace("|", "/")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1].rsplit(' ', 1)[0]} …"


def answer(block: Block, way: str) -> Answer:
    """One block through one door, in a folder of its own."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.py").write_text(block.source, encoding="utf-8")
        try:
            outcome, text = WAYS[way](block, folder)
        except KernelAgentError as error:
            trace = "Traceback" in str(error)
            outcome, text = ("fails" if trace else "refused"), _short(str(error))
        except Exception as error:  # noqa: BLE001 - the table names what nobody should ever see
            outcome, text = "fails", _short(f"{type(error).__name__}: {error}")
    return Answer(block.name, block.package, way, outcome, text, time.perf_counter() - began)


def table(answers: Iterable[Answer]) -> str:
    """Markdown: a row for each block, a column for each door, and why not where it is not."""
    by_block: dict[str, dict[str, Answer]] = {}
    for item in answers:
        by_block.setdefault(item.block, {})[item.way] = item
    ways = list(WAYS)
    lines = [
        f"| block | from | {' | '.join(ways)} | what it said |",
        "|---" * (len(ways) + 3) + "|",
    ]
    for block in BLOCKS:
        row = by_block.get(block.name, {})
        words = [row[way].outcome if way in row else "not tried" for way in ways]
        texts = [
            row[way].text for way in ("optimize", "library", "submodule", "scan") if way in row
        ]
        text = next((t for t in texts if t), "")
        lines.append(
            f"| {block.name} | {block.package or 'torch'} | {' | '.join(words)} | {text} |"
        )
    return "\n".join(lines)


def summary(answers: list[Answer]) -> str:
    """One line for each door."""
    lines = []
    for way in WAYS:
        of_it = [item for item in answers if item.way == way]
        counts = {
            w: sum(item.outcome == w for item in of_it) for w in ("works", "refused", "fails")
        }
        numbers = ", ".join(f"{n} {word}" for word, n in counts.items())
        lines.append(f"- `{way}`: {len(of_it)} of {len(BLOCKS)} blocks tried: {numbers}")
    return "\n".join(lines)


def page(answers: list[Answer]) -> str:
    """The page for users."""
    result = [
        f"{name} {version(name)}"
        for name in ("torch", "triton", "transformers", "diffusers")
        if importlib.util.find_spec(name) is not None
    ]
    return f"""# Blocks of models that work

On {time.strftime("%Y-%m-%d", time.gmtime())}, with {", ".join(result)}, without a GPU and with the
built-in policy, one turn each. Made by `python -m benchmarks.model_blocks`, small configurations.

- *works*: the answer is a verified module, or that the verified one is not better; for `scan` a list.
- *refused*: nothing was written, and the sentence says what stands in the way and what to do.
- *fails*: no candidate was accepted, or a defect of ours; the sentence says which. `scan` looks at a model around the block, `submodule` replaces it in there.

{summary(answers)}

{table(answers)}
"""


def main() -> None:
    """Try what is not tried yet, then write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--anew", action="store_true")
    options = parser.parse_args()
    kept = RESULTS.with_suffix(".jsonl")
    if options.anew:
        kept.unlink(missing_ok=True)
    known = {(item.block, item.way) for item in kept_rows.read(kept, Answer)}
    chosen = [b for b in BLOCKS if not options.only or b.name in options.only]
    for way in options.ways.split(","):
        for block in chosen:
            installed = not block.package or importlib.util.find_spec(block.package) is not None
            if (block.name, way) in known or not installed:
                continue
            got = answer(block, way)
            kept_rows.append(kept, got)
            print(
                f"{way:10} {got.outcome:8} {block.name} {got.seconds:.0f} s: {got.text}", flush=True
            )
    text = page(kept_rows.read(kept, Answer))
    RESULTS.with_suffix(".md").write_text(text, encoding="utf-8")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
