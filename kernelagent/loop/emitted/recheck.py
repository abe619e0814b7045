"""`kernelagent recheck`: an emitted file judged again, and its gain compared with its certificate.

For a user's own CI, after an upgrade of torch, triton or the driver, or on another GPU.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from kernelagent.domain.better import standing
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.certificate import Certified, certificate_in
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import ExitStatus
from kernelagent.domain.evaluation import Evaluation, Interval, Stage
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import from_data
from kernelagent.loop.emitted.emitted_candidate import read_without_drop_in
from kernelagent.loop.queries.exclusive_gpu import alone_on
from kernelagent.tools.judge_client import JudgeProcess, WholeModelProcess

Verdict = Literal["holds", "gone", "broken", "cannot_judge"]
STATUS = {
    "holds": ExitStatus.OK,
    "gone": ExitStatus.NOT_FOUND,
    "broken": ExitStatus.NOT_FOUND,
    "cannot_judge": ExitStatus.ENVIRONMENT,
}

_NAMES = ("module", "inputs", "init", "check")
"""What is looked up in a problem's file."""


@dataclass(frozen=True)
class Change:
    """One thing that is not as it was when the certificate was written."""

    what: str
    certified: str
    now: str


@dataclass(frozen=True)
class Recheck:
    """The certificate and the verdict of today."""

    verdict: Verdict
    """`holds`; `gone`: right, no longer faster; `broken`: no longer accepted; `cannot_judge`."""
    why: str
    certified: Certified
    evaluation: Evaluation
    changes: tuple[Change, ...] = ()
    schema: str = "kernelagent.recheck/1"


def recheck(
    emitted: Path,
    problem: ProblemSpec,
    flags: Mapping[str, Any],
    on_stage: Callable[[Stage], None],
    submodule: str | None = None,
) -> Recheck:
    """Judge the file as it was judged then, where `flags` does not say otherwise.

    `submodule`: the part of the model that the file is for; None: the one its certificate names.
    Raises `UsageError` for a file without a certificate, `ProblemError` and `EnvironmentFault` as the
    judge does.
    """
    record = certificate_in(emitted)
    source = emitted.read_text(encoding="utf-8")
    whole = settings_for(record, problem, flags)
    with (
        judged_part(whole, submodule or _part_in(record, problem)) as settings,
        JudgeProcess(settings) as judge,
        alone_on(judge.device, settings.device),
    ):
        evaluation = judge.evaluate_final(Candidate(source), on_stage)
    evaluation = read_without_drop_in(evaluation, source)
    verdict, why = compared(record, evaluation)
    return Recheck(verdict, why, record, evaluation, changes(record, evaluation))


def _part_in(record: Certified, problem: ProblemSpec) -> str | None:
    """The part to capture; a bundle is taken for the part itself, which a live model's run has kept."""
    return None if problem.bundle is not None else record.asked.submodule


@contextmanager
def judged_part(settings: JudgeSettings, submodule: str | None) -> Iterator[JudgeSettings]:
    """For a file of a model's part: that part, captured again with the inputs it gets today."""
    if submodule is None:
        yield settings
        return
    with tempfile.TemporaryDirectory(prefix="kernelagent-recheck-") as folder:
        bundle = Path(folder, "part")
        with WholeModelProcess(settings) as judge:
            judge.capture(submodule, bundle)
        yield replace(settings, problem=ProblemSpec(bundle=str(bundle), submodule=submodule))


def as_certified(record: Certified, problem: ProblemSpec) -> ProblemSpec:
    """The problem with the names that its certificate has, where others are not given.

    A bundle holds one module and its inputs: nothing is looked up by name.
    """
    if problem.bundle is not None:
        return problem
    return replace(
        problem,
        **{name: getattr(problem, name) or getattr(record.asked, name) for name in _NAMES},
    )


def settings_for(
    record: Certified, problem: ProblemSpec, flags: Mapping[str, Any]
) -> JudgeSettings:
    """What the certificate was given with; flags that are not None win."""
    asked = {name: value for name, value in asdict(record.asked).items() if name not in _NAMES}
    settings = {
        "problem": asdict(as_certified(record, problem)),
        "device": record.device.kind,
        "policy": record.policy,
        "baseline": record.baseline,
        "mode": record.mode,
        **asked,
    }
    if record.device.kind == "virtual":
        settings["target"] = record.device.gpu or record.device.target
    return from_data(settings | {k: v for k, v in flags.items() if v is not None}, JudgeSettings)


def compared(record: Certified, now: Evaluation) -> tuple[Verdict, str]:
    """Whether what the certificate says is still so, in a word and a sentence."""
    if now.verdict == "error":
        assert now.reason is not None
        return "cannot_judge", f"{now.reason.code}: {now.reason.message}"
    if now.reason is not None:
        return "broken", f"{now.reason.code}: {now.reason.message}"
    if now.timing is not None:
        return _timed(record, now)
    if record.device.kind == "cuda":
        return "cannot_judge", (
            "the answers are still right; the gain was measured on a GPU and there is none here"
        )
    estimate = now.estimate
    if estimate is not None and standing(now) == "slower":
        return "gone", (
            f"the answers are still right; the estimate is now {estimate.ratio:.2f} of the eager "
            f"module's speed, which is slower even at the estimate's best"
        )
    if estimate is not None and standing(now) == "not told apart":
        return "holds", (
            f"verified again, not timed; by its estimate ({estimate.ratio:.2f} of the eager module's "
            f"speed) it cannot be told apart from the eager module"
        )
    return "holds", "verified again, not timed: no GPU is used, and its speed is an estimate"


def changes(record: Certified, now: Evaluation) -> tuple[Change, ...]:
    """Versions, device and sources that differ from the certificate's."""
    rows = [
        (name, getattr(record.device, name), getattr(now.device, name))
        for name in ("torch", "triton", "driver", "name", "target")
    ]
    if record.hashes is not None and now.hashes is not None:
        rows.append(("problem", record.hashes.problem[:12], now.hashes.problem[:12]))
        rows.append(("judge", record.hashes.harness[:12], now.hashes.harness[:12]))
    return tuple(
        Change("device" if what == "name" else what, str(before), str(after))
        for what, before, after in rows
        if before != after
    )


def as_text(result: Recheck) -> str:
    """The result for a person."""
    word = {
        "holds": "it holds",
        "gone": "the gain is gone",
        "broken": "it is no longer right",
        "cannot_judge": "this machine cannot say",
    }[result.verdict]
    lines = [f"{word}: {result.why}"]
    record = result.certified
    lines.append(
        f"  certified: {_gain(record)} ({record.date}, {record.device.name}, {record.run})"
    )
    now = _gain_now(result.evaluation)
    if now is not None:
        lines.append(f"  now:       {now} ({result.evaluation.device.name})")
    lines += [f"  changed:   {c.what}: {c.certified} -> {c.now}" for c in result.changes]
    return "\n".join(lines) + "\n"


def _timed(record: Certified, now: Evaluation) -> tuple[Verdict, str]:
    assert now.timing is not None
    measured = now.timing.speedup_eager
    against = f"{_shown(measured)} against eager, measured now"
    if not now.faster:
        return "gone", (
            f"the answers are still right; it is not faster than {record.asked.min_speedup:g}x of "
            f"the baseline `{now.baseline}`: {against}"
        )
    before = record.speedup_eager
    if before is not None and measured.high < before.low:
        return "holds", f"still faster, by less than certified: {against}"
    return "holds", f"still faster: {against}"


def _gain(record: Certified) -> str:
    if record.speedup_eager is not None:
        return f"{_shown(record.speedup_eager)} against eager"
    if record.estimate_ratio is not None:
        return f"verified, not timed; estimate {record.estimate_ratio:.2f}x"
    return "verified, not timed"


def _gain_now(now: Evaluation) -> str | None:
    if now.timing is not None:
        return f"{_shown(now.timing.speedup_eager)} against eager"
    if now.estimate is not None:
        return f"verified, not timed; estimate {now.estimate.ratio:.2f}x"
    return None


def _shown(interval: Interval) -> str:
    return f"{interval.value:.3g}x [{interval.low:.3g}, {interval.high:.3g}]"
