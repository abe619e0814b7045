"""The client against an endpoint that fails: every fault, streaming or not, before a reply or in its middle.

`python -m benchmarks.model_faults --write benchmarks/results/model_faults.md`

Each row is a real session of three turns over real HTTP; the second ask meets the fault. Only waiting
between asks is simulated. A reply counts as lost when text of it reached this machine and is not in
the run's log.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

from kernelagent.domain.candidate import Candidate  # noqa: E402
from kernelagent.domain.configuration.budget import Budget  # noqa: E402
from kernelagent.domain.errors import KernelAgentError  # noqa: E402
from kernelagent.domain.evaluation import Evaluation  # noqa: E402
from kernelagent.domain.events import Remarked, ReplyReceived, TurnVoid  # noqa: E402
from kernelagent.loop.session import Session  # noqa: E402
from kernelagent.models.litellm_model import LitellmModel, Surroundings  # noqa: E402
from kernelagent.storage.run_log import EventLog, RunFolder, read_events  # noqa: E402
from kernelagent.storage.secrets import Redactor  # noqa: E402
from kernelagent.strategies.sequential import Sequential  # noqa: E402
from tests.evaluations import DEVICE, FACTS, accepted  # noqa: E402
from tests.models.fault_server import Answer, FaultServer, Rules, failing, mid  # noqa: E402

NAME = "openai/writer-1"
TURNS = 3
HANGS_AFTER_S = 60.0


def reply(number: int, words: str = "") -> str:
    """A whole reply; each number is another program."""
    body = f"import torch\n\n\nclass ModelNew(torch.nn.Module):\n    number = {number}\n"
    return f"Version {number}. {words}\n\n```python\n{body}```\nThat is all.\n"


_REASONS = "One pass over each row is enough, so the kernel keeps the row in registers. " * 8
GOOD = [Answer(reply(number, _REASONS)) for number in range(TURNS + 2)]
"""As long as replies are: a prompt without one of them is a shorter prompt."""
LATE = mid(Answer(reply(1)), "drop", 0.97)
"""Broken off after the code block has been closed."""


@dataclass(frozen=True)
class Case:
    """One fault and what must come of it."""

    fault: str
    when: str
    answer: Answer
    expected: str
    """`asked again`, `void`, `kept`, `stopped` (the run ends with exit status 3), or `as usual`."""
    rules: Rules = field(default_factory=Rules)
    silence_s: float = 60.0


def cases() -> list[Case]:
    """All faults; those that have a middle come twice."""
    slow = replace(GOOD[1], wait_s=30.0)
    result = [
        Case("delay beyond patience", "before", slow, "asked again", silence_s=3.0),
        Case("delay", "before", replace(GOOD[1], wait_s=0.3), "as usual"),
        Case("slow pace", "mid", replace(GOOD[1], pace_s=0.005), "as usual"),
        Case("connection dropped", "before", Answer(then="drop"), "asked again"),
        Case("cut at its length", "mid", Answer(reply(1)[:60], finish="length"), "void"),
        Case("429", "before", failing(429, "slow down", "rate_limit_exceeded"), "asked again"),
        Case(
            "429 with Retry-After",
            "before",
            failing(429, "slow down", "rate_limit_exceeded", retry_after="7"),
            "asked again",
        ),
        Case("500", "before", failing(500, "oops"), "asked again"),
        Case("503", "before", failing(503, "overloaded"), "asked again"),
        Case("quota used up", "before", failing(429, "insufficient_quota"), "stopped"),
        Case(
            "key revoked", "before", failing(401, "Incorrect API key", "invalid_api_key"), "stopped"
        ),
        Case("unknown model", "before", failing(404, "The model does not exist"), "stopped"),
        Case("context overflow", "before", _overflow(), "asked again"),
        Case("refusal by status", "before", failing(400, "content_policy_violation"), "void"),
        Case("refusal by finish", "mid", Answer("", finish="content_filter"), "void"),
        Case("no usage", "mid", replace(GOOD[1], usage=False), "as usual"),
        Case("thinking apart", "mid", replace(GOOD[1], thinking=reply(9)), "as usual"),
        Case("empty reply", "mid", Answer(""), "void"),
    ]
    for then, name in (
        ("drop", "connection dropped"),
        ("fade", "connection closed early"),
        ("stall", "silence"),
        ("garbage", "malformed chunk"),
        ("error_chunk", "error in the stream"),
    ):
        silence = 3.0 if then == "stall" else 60.0
        early, late = mid(GOOD[1], then, 0.4), replace(LATE, then=then)
        result.append(Case(name, "mid, code incomplete", early, "void", silence_s=silence))
        result.append(Case(name, "mid, code complete", late, "kept", silence_s=silence))
    for refused in ("system_role", "temperature", "stream", "stream_options", "max_tokens"):
        rules = Rules(**{refused: False})
        result.append(Case(f"no {refused}", "before", GOOD[1], "as usual", rules))
    silent = Rules(system_role=False, max_tokens=False, explains=False)
    result.append(Case("refusals without a reason", "before", GOOD[1], "as usual", silent))
    return result


def _overflow() -> Answer:
    return failing(
        400, "This model's maximum context length is 4096 tokens", "context_length_exceeded"
    )


@dataclass(frozen=True)
class Row:
    """What happened."""

    case: Case
    streaming: bool
    happened: str
    asks: int
    waited_s: float
    wall_s: float
    lost: int
    traceback: str | None
    said: str

    @property
    def hang(self) -> bool:
        return self.wall_s > HANGS_AFTER_S

    @property
    def expected(self) -> str:
        """Without a stream there is no middle: half a body is no reply at all, and is asked for again."""
        broken = self.case.answer.then not in {"end"} and self.case.when.startswith("mid")
        return "asked again" if broken and not self.streaming else self.case.expected

    @property
    def right(self) -> bool:
        wanted = self.happened == self.expected
        return wanted and self.lost == 0 and self.traceback is None and not self.hang


class Judging:
    """Accepts every candidate; the judge is not what is measured here."""

    def evaluate(self, candidate: Candidate, on_stage: object) -> Evaluation:
        return accepted(1.0)


def row(case: Case, *, streaming: bool) -> Row:
    """One session that meets `case` in its second ask."""
    waits: list[float] = []
    rules = case.rules if streaming else replace(case.rules, stream=False)
    plan = [GOOD[0], case.answer, *GOOD[2:]]
    with FaultServer(plan, otherwise=GOOD[-1], rules=rules) as server, _folder() as name:
        folder = RunFolder.create(Path(name) / "runs", "toy", now=0.0)
        log = EventLog(folder)
        model = LitellmModel(
            NAME,
            api_base=server.url,
            redact=Redactor(),
            surroundings=Surroundings(sleep=waits.append, silence_s=case.silence_s),
        )
        session = Session(
            facts=FACTS,
            device=DEVICE,
            strategy=Sequential((NAME,)),
            models={NAME: model},
            evaluator=Judging(),
            budget=Budget(turns=TURNS, tokens=200_000),
            publish=log.publish,
            clock=time.monotonic,
            keep_prompt=folder.keep_prompt,
            keep_candidate=folder.keep_candidate,
        )
        began, stopped, traceback = time.monotonic(), None, None
        try:
            session.run()
        except KernelAgentError as error:
            stopped = error
        except Exception as error:  # noqa: BLE001 - this is what is counted
            traceback = repr(error)
        wall = time.monotonic() - began
        log.close()
        events = [logged.event for logged in read_events(folder.log)]
        asks = len(server.asks)
        lost = _lost(server, events, streaming=streaming)
    void = [e.turn for e in events if isinstance(e, TurnVoid)]
    received = [e for e in events if isinstance(e, ReplyReceived)]
    if stopped is not None:
        happened = "stopped" if int(stopped.exit_status) == 3 else f"status {stopped.exit_status}"
    elif 1 in void:
        happened = "void"
    elif any(e.turn == 1 and e.finish == "lost" for e in received):
        happened = "kept"
    else:
        again = asks - len(_refused(case, server)) > TURNS
        happened = "asked again" if again else "as usual"
    message = str(stopped) if stopped is not None else _said(events)
    return Row(case, streaming, happened, asks, sum(waits), wall, lost, traceback, message)


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(ignore_cleanup_errors=True)


def _refused(case: Case, server: FaultServer) -> list[object]:
    """Asks that only taught the client what the endpoint takes."""
    return [item for item in server.asks if item.taught]


def _lost(server: FaultServer, events: Sequence[object], *, streaming: bool) -> int:
    """Replies of which text reached us and which are in no event."""
    kept = [e.text for e in events if isinstance(e, ReplyReceived)]
    lost = 0
    for answer in server.given:
        whole = answer.then == "end"
        text = answer.text[: int(len(answer.text) * answer.stops_at)]
        arrived = bool(text) and answer.status == 200 and answer.wait_s < 1.0
        if arrived and (whole or streaming) and text not in kept:
            lost += 1
    return lost


def _said(events: Sequence[object]) -> str:
    void = [e.why for e in events if isinstance(e, TurnVoid)]
    remarks = [e.message for e in events if isinstance(e, Remarked)]
    reported = [item for item in remarks if "price" not in item or "broke off" in item]
    return "; ".join([*void, *reported])


def rows() -> list[Row]:
    """The whole matrix."""
    return [row(case, streaming=streaming) for case in cases() for streaming in (True, False)]


def table(found: Sequence[Row]) -> str:
    """Markdown."""
    wrong = [item for item in found if not item.right]
    lines = [
        "# The client against an endpoint that fails",
        "",
        "`python -m benchmarks.model_faults --write benchmarks/results/model_faults.md`: a session of "
        f"{TURNS} turns over HTTP for each row, whose second ask meets the fault.",
        "",
        f"{len(found)} rows: **{sum(r.lost for r in found)} lost replies, "
        f"{sum(r.hang for r in found)} hangs, {sum(r.traceback is not None for r in found)} "
        f"tracebacks**, {len(wrong)} rows that went otherwise than expected. Longest row "
        f"{max(r.wall_s for r in found):.1f} s.",
        "",
        "Without a stream a reply that breaks off never arrives (half a JSON body), so it is asked "
        "for again; with a stream what had arrived is the reply. Waits are simulated.",
        "",
        "| fault | when | stream | what happened | asks | waited s | lost | what the user reads |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in found:
        mark = "" if r.right else f" (**expected {r.expected}**)"
        message = r.said.replace("|", "/").replace("\n", " ")
        # The port is another one each time.
        message = " ".join(
            "http://127.0.0.1/v1" if "127.0.0.1" in w else w for w in message.split(" ")
        )
        lines.append(
            f"| {r.case.fault} | {r.case.when} | {'yes' if r.streaming else 'no'} | "
            f"{r.happened}{mark} | {r.asks} | {r.waited_s:.0f} | {r.lost} | {message[:220]} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    result = rows()
    text = table(result)
    if options.write is not None:
        options.write.write_text(text, encoding="utf-8")
    print(text)
    sys.exit(0 if all(item.right for item in result) else 1)


if __name__ == "__main__":
    main()
