"""The judge under test: both corpora, the same verdict again and again, what it costs.

python -m benchmarks.judge [--repeat 50] [--honest 20] [--only SECTION...] [--write FILE]
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from statistics import median

from benchmarks.turn_latency import ROOT, rms_norm_candidate
from kernelagent.cli.self_test import Proof, run_self_test
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.corpus.catalogue import threats
from kernelagent.tools.corpus.check import check
from kernelagent.tools.corpus.fixture import honest_kernel, problem_path
from kernelagent.tools.corpus.honest.honest import HONEST
from kernelagent.tools.judge_client import JudgeProcess
from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.sandbox.spawn import ForkServer

_FORKS = 20
_TOLD_EVERY = 200
_NOTHING = "kernelagent.tools.corpus.nothing:run"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=50)
    parser.add_argument("--honest", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=("corpora", "cost", "stability", "honest"))
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    sections = {
        "corpora": _corpora(),
        "cost": _cost(),
        "stability": _stability(arguments.repeat),
        "honest": _false_alarms(arguments.honest),
    }
    chosen = [sections[name] for name in arguments.only or sections]
    text = ""
    for line in chain(_head(arguments.repeat, arguments.honest), *chosen):
        print(line, flush=True)
        text += f"{line}\n"
        # Kept line by line: all of it takes more than an hour.
        if arguments.write:
            arguments.write.write_text(text, encoding="utf-8")


def _head(repeat: int, honest: int) -> Iterator[str]:
    yield "# The judge under test, on the virtual device"
    yield ""
    yield (
        f"`python -m benchmarks.judge --repeat {repeat} --honest {honest}`, {platform.machine()}, "
        f"{os.cpu_count()} cores, Python {platform.python_version()}. The corpora alone: "
        f"`kernelagent doctor --judge`."
    )
    yield ""


def _corpora() -> Iterator[str]:
    proof = run_self_test("virtual", extent="full")
    yield "| corpus | as it must be | of | seconds of judging |"
    yield "|---|---|---|---|"
    for kind in ("cheat", "twin", "honest"):
        right, of = proof.count(kind)
        spent = sum(row.seconds for row in proof.rows if row.kind == kind)
        yield f"| {kind} | {right} | {of} | {spent:.0f} |"
    yield ""
    yield f"{proof.seconds:.0f} s from start to end, two judges side by side."
    yield ""
    codes = Counter(row.got for row in proof.rows if row.kind == "cheat")
    yield "What the cheats were refused with: " + ", ".join(
        f"`{code}` {count}" for code, count in codes.most_common()
    )
    yield ""
    yield from _open(proof)


def _false_alarms(times: int) -> Iterator[str]:
    on_virtual = [fixture for fixture in HONEST if not fixture.needs_gpu]
    yield (
        f"The honest corpus ({len(on_virtual)} kernels), each of them {times} times over, each judging "
        f"with seeds of its own:"
    )
    yield ""
    yield "| judgings | of | refused |"
    yield "|---|---|---|"
    of = len(on_virtual) * times
    refused = []
    for judged, item in enumerate(
        check(on_virtual, device="virtual", jobs=2, times=times), start=1
    ):
        refused += [] if item.code is None else [item]
        if judged % _TOLD_EVERY == 0 or judged == of:
            yield f"| {judged} | {of} | {len(refused)} |"
    yield ""
    yield from (f"- {item.fixture.name}: {item.code}: {item.message}" for item in refused)


def _stability(times: int) -> Iterator[str]:
    yield "| the same honest candidate, judged again and again | times | accepted | median s | slowest s |"
    yield "|---|---|---|---|---|"
    for name in ("relu_affine", "row_softmax", "linear_gelu"):
        verdicts, seconds = _judged_again(name, times)
        yield (
            f"| {name} | {times} | {verdicts['accepted']} | {median(seconds):.2f} | "
            f"{max(seconds):.2f} |"
        )
    yield ""


def _judged_again(name: str, times: int) -> tuple[Counter[str], list[float]]:
    verdicts: Counter[str] = Counter()
    seconds = []
    settings = JudgeSettings(ProblemSpec(path=str(problem_path(name))), device="virtual")
    with JudgeProcess(settings) as judge:
        for _ in range(times):
            began = time.perf_counter()
            verdicts[judge.evaluate(Candidate(honest_kernel(name)), lambda _: None).verdict] += 1
            seconds.append(time.perf_counter() - began)
    return verdicts, seconds


def _cost() -> Iterator[str]:
    problem = ROOT / "examples" / "rms_norm_residual.py"
    verify = []
    with JudgeProcess(JudgeSettings(ProblemSpec(path=str(problem)), device="virtual")) as judge:
        for _ in range(6):
            result = judge.evaluate(Candidate(rms_norm_candidate()), lambda _: None)
            verify.append(sum(s.seconds for s in result.stages if s.name == "verify"))
    plain, confined = _fork_seconds(sandboxed=False), _fork_seconds(sandboxed=True)
    yield "| cost | measured | asked |"
    yield "|---|---|---|"
    yield f"| verification of the RMSNorm example in a warm turn | {median(verify[1:]):.2f} s | < 2 s |"
    yield (
        f"| sandbox start over a plain fork | {1e3 * (confined - plain):.1f} ms "
        f"({1e3 * confined:.1f} against {1e3 * plain:.1f}) | < 50 ms |"
    )
    yield ""


def _fork_seconds(*, sandboxed: bool) -> float:
    seconds = []
    with ForkServer.start(preload=["torch"]) as warm, tempfile.TemporaryDirectory() as folder:
        for number in range(_FORKS):
            scratch = Path(folder) / str(number)
            scratch.mkdir()
            began = time.perf_counter()
            child = warm.fork(_NOTHING, {}, [], Confinement(scratch, sandboxed=sandboxed))
            child.wait(10.0)
            seconds.append(time.perf_counter() - began)
    return median(seconds)


def _open(proof: Proof) -> Iterator[str]:
    yield "| entry | not closed here, because |"
    yield "|---|---|"
    for threat in threats():
        if threat.closed == "cuda":
            yield f"| {threat.number} {threat.title} | it needs a GPU: {threat.how} |"
    for row in proof.rows:
        if not row.as_expected:
            yield f"| {row.threat or ''} {row.name} | expected {row.expected}, got {row.got} |"
    yield ""


if __name__ == "__main__":
    main()
