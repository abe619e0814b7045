"""What a long streamed reply costs this program: CPU seconds a token, and memory.

`python -m benchmarks.streaming_cost --write benchmarks/results/streaming_cost.md`

The server, a process of its own, sends as fast as it can; the clock by which pieces are logged runs as
if 200 tokens a second came, so that as many events are written as in the real thing.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

from kernelagent.domain.candidate import Candidate  # noqa: E402
from kernelagent.domain.configuration.budget import Budget  # noqa: E402
from kernelagent.domain.evaluation import Evaluation  # noqa: E402
from kernelagent.domain.events import ReplyProgressed  # noqa: E402
from kernelagent.loop.session import Session  # noqa: E402
from kernelagent.models.litellm_model import LitellmModel  # noqa: E402
from kernelagent.storage.run_log import EventLog, RunFolder, read_events  # noqa: E402
from kernelagent.storage.secrets import Redactor  # noqa: E402
from kernelagent.strategies.sequential import Sequential  # noqa: E402
from tests.models.fault_server import Answer, FaultServer  # noqa: E402

TOKENS_A_SECOND = 200
MOST_SHARE = 0.05
_LINE = "x = 1 + 2 * 3  # a line of forty characters\n"
_PIECE = 4
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Cost:
    """One reply."""

    model: str
    tokens: int
    cpu_s: float
    early_mib: float
    """Resident memory when a tenth of the text had come."""
    end_mib: float
    events: int

    @property
    def share(self) -> float:
        """Of one core, at 200 tokens a second."""
        return self.cpu_s / self.tokens * TOKENS_A_SECOND

    @property
    def growth_mib(self) -> float:
        return self.end_mib - self.early_mib


class _Nothing:
    """No evaluation; the reply holds no code."""

    def evaluate(self, candidate: Candidate, on_stage: object) -> Evaluation:
        raise AssertionError("the reply holds no candidate")


def measure(tokens: int, model: str = "openai/writer-1") -> Cost:
    """Ask for one reply of so many tokens, through session and log; the second of two, warm."""
    with serving(tokens) as url:
        _ask(model, url, tokens)
        return _ask(model, url, tokens)


def _ask(name: str, url: str, tokens: int) -> Cost:
    characters, early = 0, 0.0

    def on_text(text: str) -> None:
        nonlocal characters, early
        characters += len(text)
        if not early and characters >= tokens * _PIECE / 10:
            early = resident_mib()

    with tempfile.TemporaryDirectory() as place:
        from tests.evaluations import DEVICE, FACTS

        folder = RunFolder.create(Path(place) / "runs", "toy", now=0.0)
        secrets = Redactor()
        secrets.add("sk-a-key-of-the-usual-length-0123456789abcdef")
        log = EventLog(folder, redact=secrets)
        session = Session(
            facts=FACTS,
            device=DEVICE,
            strategy=Sequential((name,)),
            models={name: LitellmModel(name, api_base=url, redact=secrets)},
            evaluator=_Nothing(),
            budget=Budget(turns=1, tokens=10_000_000),
            publish=log.publish,
            clock=lambda: characters / _PIECE / TOKENS_A_SECOND,
            keep_prompt=folder.keep_prompt,
            keep_candidate=folder.keep_candidate,
            on_text=on_text,
            redact=secrets,
        )
        began = time.process_time()
        session.run()
        cpu, end = time.process_time() - began, resident_mib()
        log.close()
        events = sum(isinstance(e.event, ReplyProgressed) for e in read_events(folder.log))
    if characters < tokens * _PIECE:
        raise RuntimeError(f"only {characters} characters of {tokens * _PIECE} arrived")
    return Cost(name, tokens, cpu, early, end, events)


def resident_mib() -> float:
    """Memory of this process that is in use now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / 2**20


@contextmanager
def serving(tokens: int) -> Iterator[str]:
    """The url of a server in a process of its own, whose every reply has so many tokens."""
    words = [sys.executable, "-m", "benchmarks.streaming_cost", "--serve", str(tokens)]
    server = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.stdin.close()
        server.wait(30)
        server.stdout.close()


def _serve(tokens: int) -> None:
    text = (_LINE * (tokens * _PIECE // len(_LINE) + 1))[: tokens * _PIECE]
    with FaultServer(otherwise=Answer(text, piece=_PIECE)) as server:
        print(server.url, flush=True)
        sys.stdin.read()


def table(costs: list[Cost]) -> str:
    """Markdown."""
    lines = [
        "# What a streamed reply costs",
        "",
        "`python -m benchmarks.streaming_cost --write benchmarks/results/streaming_cost.md`, Python "
        f"{platform.python_version()}, {os.cpu_count()} cores, other work on them. CPU is that of "
        "the whole process from ask to logged reply, litellm and HTTP included; the share is of one "
        f"core at {TOKENS_A_SECOND} tokens a second. Memory is resident, when a tenth has come and "
        "at the end.",
        "",
        "| model | tokens | CPU s | µs a token | share of a core | memory | growth | events |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for c in costs:
        lines.append(
            f"| {c.model} | {c.tokens} | {c.cpu_s:.2f} | {c.cpu_s / c.tokens * 1e6:.0f} | "
            f"{c.share:.1%} | {c.end_mib:.0f} MiB | {c.growth_mib:+.1f} MiB | {c.events} |"
        )
    worst = max(c.share for c in costs)
    lines += ["", f"Worst share {worst:.1%}, limit {MOST_SHARE:.0%}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--serve", type=int, metavar="TOKENS", help="be the server")
    options = parser.parse_args()
    if options.serve is not None:
        _serve(options.serve)
        return
    names = ("openai/writer-1", "hosted_vllm/writer-1")
    costs = [measure(options.tokens, name) for name in names]
    text = table(costs)
    if options.write is not None:
        options.write.write_text(text, encoding="utf-8")
    print(text)
    sys.exit(0 if max(cost.share for cost in costs) < MOST_SHARE else 1)


if __name__ == "__main__":
    main()
