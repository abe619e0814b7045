"""Modules of other people's packages, before and after: `docs/gallery.md`.

    python -m benchmarks.gallery [--only NAME...] [--turns N] [--anew]

Each is one `kernelagent optimize` with the built-in policy at the sizes of a model that people run; on a machine
without a GPU times are estimates. What came of it is kept in `results/gallery.jsonl`: a module that is there is not
run again, `--anew` forgets them first, and `--page` writes the page from what is kept.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import kept_rows
from benchmarks.commit import head_of
from benchmarks.gallery_exhibits import EXHIBITS, Exhibit
from benchmarks.gpu_first.record import table, write_whole

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).parent / "results" / "gallery.jsonl"
PAGE = ROOT / "docs" / "gallery.md"
_ORDER = {exhibit.name: at for at, exhibit in enumerate(EXHIBITS)}


@dataclass(frozen=True)
class Shown:
    """What came of one module; times in µs."""

    name: str
    commit: str
    day: str
    seconds: float
    outcome: str
    """As in the command's report: `better`, `not_better`, …"""
    why: str
    label: str
    """`estimate` or `measured`; empty: no candidate was accepted."""
    device: str
    eager: tuple[float, float, float] | None
    """The time with the ends of its 80 % interval."""
    compiled: tuple[float, float, float] | None
    candidate: tuple[float, float, float] | None
    bound: str
    trials: int
    kernels: list[dict[str, Any]]
    """Name, share of the device time, registers, occupancy."""
    disclosures: list[str]
    source: str
    """Of the kernel with the largest share; empty: none was accepted."""


def show(exhibit: Exhibit, turns: int) -> Shown:
    """Optimize one module in a folder of its own; raises RuntimeError where the command says nothing."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / f"{exhibit.name}.py"
        file.write_text(exhibit.source, encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "kernelagent",
            *_words(exhibit, turns, str(file)),
            "--json",
        ]
        command += ["--runs", f"{name}/runs", "--out", f"{name}/out.py"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        if not done.stdout.strip():
            raise RuntimeError(
                f"{exhibit.name}: no report; exit {done.returncode}: {done.stderr[-800:]}"
            )
        report = json.loads(done.stdout)
        return _shown(exhibit.name, report, time.monotonic() - began)


def _words(exhibit: Exhibit, turns: int, file: str) -> list[str]:
    return ["optimize", file, "--module", exhibit.kind, "--turns", str(turns), "--force"]


def _shown(name: str, report: Mapping[str, Any], seconds: float) -> Shown:
    winner = report["winner"] or {}
    estimate = winner.get("timing") or winner.get("estimate") or {}
    kernels = sorted(winner.get("kernels", ()), key=lambda k: -(k["share_of_device_time"] or 0.0))
    kept = ("name", "share_of_device_time", "registers", "occupancy", "tensor_core")
    return Shown(
        name=name,
        commit=head_of(ROOT),
        day=time.strftime("%Y-%m-%d", time.gmtime()),
        seconds=round(seconds, 1),
        outcome=report["outcome"],
        why=report["why"],
        label=estimate.get("label", "measured") if estimate else "",
        device=report["device"]["name"],
        eager=_interval(estimate.get("eager")),
        compiled=_interval(estimate.get("compile")),
        candidate=_interval(estimate.get("candidate")),
        bound=estimate.get("bound", ""),
        trials=winner["correctness"]["trials"] if winner else 0,
        kernels=[{key: kernel[key] for key in kept} for kernel in kernels],
        disclosures=[item["message"] for item in winner.get("disclosures", ())],
        source=_text_of(report, kernels[0]["name"]) if kernels else "",
    )


def _interval(value: Mapping[str, float] | None) -> tuple[float, float, float] | None:
    return None if value is None else (value["value"], value["low"], value["high"])


def _text_of(report: Mapping[str, Any], kernel: str) -> str:
    """The text of one kernel of the best candidate; of the latest that has it where none was written."""
    best = report["best_turn"]
    pattern = "*.py" if best is None else f"{best:03d}-*.py"
    for file in sorted(Path(report["folder"], "candidates").glob(pattern), reverse=True):
        source = file.read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name == kernel:
                first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
                return "\n".join(source.splitlines()[first - 1 : node.end_lineno])
    return ""


def page(shown: Sequence[Shown], turns: int) -> str:
    """The page for users: a table of all, then each by itself."""
    rows = [_row(item) for item in shown]
    columns = ("module", "as it is", "`torch.compile`", "found", "against as it is", "bound by")
    better = sum(item.outcome == "better" for item in shown)
    parts = [part for item in shown for part in _exhibit(item, turns)]
    return (
        "\n".join(
            [
                "# Modules before and after",
                "",
                f"Modules of `transformers` and `diffusers` at the sizes of models that people run, float32, the built-in policy, {turns} turns, no key.",
                "Nothing here was measured on a GPU: every time is an *estimate* for the card named, in µs, with its 80 % interval",
                "([how good estimates are](how-estimates-work.md)). Written by `python -m benchmarks.gallery`.",
                f"{len(shown)} of {len(EXHIBITS)} have been run so far; {better} became faster beyond the doubt of the estimate; the others are shown as they came.",
                "",
                *table(columns, rows),
                "",
                *parts,
            ]
        ).rstrip()
        + "\n"
    )


def _row(item: Shown) -> tuple[str, ...]:
    title = EXHIBITS[_ORDER[item.name]].title
    if item.eager is None or item.candidate is None:
        return (title, "", "", f"nothing: {item.why}", "", "")
    ratio = item.eager[0] / item.candidate[0]
    found = f"{_us(item.candidate)}" + (
        "" if item.outcome == "better" else " (not written: in doubt)"
    )
    return (title, _us(item.eager), _us(item.compiled), found, f"{ratio:.2f}×", item.bound)


def _us(value: tuple[float, float, float] | None) -> str:
    return "not known" if value is None else f"{value[0]:.0f} ({value[1]:.0f} to {value[2]:.0f})"


def _exhibit(item: Shown, turns: int) -> list[str]:
    exhibit = EXHIBITS[_ORDER[item.name]]
    command = " ".join(["kernelagent", *_words(exhibit, turns, f"{exhibit.name}.py")])
    lines = [
        f"## {exhibit.title}",
        "",
        f"`{command}` on {item.day} at {item.commit}, {item.seconds:.0f} s: {item.why}.",
        "",
        *_folded(f"{exhibit.name}.py", exhibit.source),
    ]
    if not item.kernels:
        return lines
    kernels = [
        (
            f"`{kernel['name']}`",
            f"{100 * (kernel['share_of_device_time'] or 0.0):.0f} %",
            str(kernel["registers"] or ""),
            f"{100 * kernel['occupancy']:.0f} %" if kernel["occupancy"] else "",
            str(kernel["tensor_core"] or ""),
        )
        for kernel in item.kernels
    ]
    columns = ("kernel", "share of the time", "registers", "occupancy", "tensor cores")
    lines += [f"Accepted on {item.trials} trials. Kernels:", "", *table(columns, kernels), ""]
    lines += _folded(f"the kernel {item.kernels[0]['name']}", item.source)
    lines += ["What the verdict tells:", "", *(f"- {line}" for line in item.disclosures), ""]
    return lines


def _folded(title: str, source: str) -> list[str]:
    summary = f'<details markdown="1"><summary>{title}</summary>'
    return [summary, "", "```python", source.rstrip(), "```", "", "</details>", ""]


def _read() -> dict[str, Shown]:
    return {row.name: row for row in kept_rows.read(KEPT, Shown)}


def _write(shown: Iterable[Shown], turns: int) -> None:
    ordered = sorted(shown, key=lambda item: _ORDER[item.name])
    write_whole(KEPT, kept_rows.lines_of(ordered))
    write_whole(PAGE, page(ordered, turns))


def main() -> None:
    """Run what is not kept yet, then write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--anew", action="store_true", help="forget what is kept of these first")
    parser.add_argument("--page", action="store_true", help="run nothing")
    options = parser.parse_args()
    chosen = [x for x in EXHIBITS if not options.only or x.name in options.only]
    kept = _read()
    if options.anew:
        kept = {name: row for name, row in kept.items() if name not in {x.name for x in chosen}}
    for exhibit in chosen if not options.page else ():
        if exhibit.name in kept:
            continue
        kept[exhibit.name] = item = show(exhibit, options.turns)
        _write(kept.values(), options.turns)
        print(f"{item.name} {item.outcome} {_row(item)[1:]} {item.seconds:.0f} s", flush=True)
    _write(kept.values(), options.turns)


if __name__ == "__main__":
    main()
