"""The whole model with an accepted candidate in place of submodules: is its answer still right?

The candidate runs in a process of its own, as always; its answers come back into the user's model,
which runs on to its end in the judge. Calls that the emitted module leaves to the original are left to it here too,
and counted: a file whose kernels never answer in the model is of no use there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import ProblemError
from kernelagent.domain.whole_model import WholeModel
from kernelagent.tools.candidate_runner import shell
from kernelagent.tools.judge.envelope.admits import why_not_admitted
from kernelagent.tools.judge.fork_server import open_fork_server
from kernelagent.tools.judge.problem.context import make_ready
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.process.limits import Limits
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.judge.whole_model.answers import Answers, answers
from kernelagent.tools.judge.whole_model.scan import scan
from kernelagent.tools.judge.whole_model.submodules import Whole
from kernelagent.tools.sandbox.spawn import ForkServer
from kernelagent.tools.sandbox.sweeping import sweep

_MOST_NAMED = 3


@dataclass
class _Calls:
    """Of the part, in all trials with the candidate in its place."""

    by_kernels: int = 0
    by_original: int = 0
    why: str = ""
    """What of a call's arguments was not verified."""

    @property
    def all(self) -> int:
        return self.by_kernels + self.by_original


def verify_whole(
    settings: JudgeSettings,
    paths: Sequence[str],
    source: str,
    ratio: float | None,
    envelope: Mapping[str, Any],
    shared: ForkServer | None = None,
) -> WholeModel:
    """Run the model as it is and with the candidate at `paths`, on fresh inputs each time.

    `ratio`: the submodule's own estimate, eager over candidate, where there is no GPU. `envelope`: the inputs that the
    emitted module answers with its kernels. `shared`: of `open_fork_server` for this device, which the caller closes;
    without it one is opened.
    """
    whole = Whole.open(settings)
    fork_server = shared or open_fork_server(whole.device.kind)
    scratch = Path(tempfile.mkdtemp(prefix="kernelagent-whole-"))
    found = Answers((), 0, 0)
    calls = _Calls()
    try:
        weaker = make_ready(whole.device, fork_server, settings.sandbox, scratch)
        with ExitStack() as stack:
            for at, path in enumerate(paths):
                process = _process(whole, path, source, fork_server, scratch / str(at), settings)
                stack.enter_context(process)
                stack.callback(_put_back, whole.submodule(path))
                _put_in(whole.submodule(path), process, calls, envelope)
            found = answers(whole, partial(_as_given, whole, paths))
    except (Rejected, ProblemError) as error:
        # Where the part is called, the model's forward has passed on the candidate's fault as one of its own.
        refused = error if isinstance(error, Rejected) else error.__cause__
        if not isinstance(refused, Rejected):
            raise
        found = replace(found, why=f"{refused.reason.code}: {refused.reason.message}")
    finally:
        if shared is None:
            fork_server.close()
        sweep(scratch)
    if found.why is None and not calls.by_kernels:
        found = replace(found, why=_never_answered(calls))
    right = found.why is None
    before, after = _times(whole, paths, ratio, calls) if right else (None, None)
    return WholeModel(
        model=whole.problem.name,
        paths=tuple(paths),
        right=right,
        why=found.why or _right(found, calls, trains=settings.mode == "train"),
        trials=found.trials,
        calls=calls.by_kernels,
        by_original=calls.by_original,
        device=whole.device.facts,
        cases=found.cases,
        before_us=before,
        after_us=after,
        trains=settings.mode == "train",
        disclosures=(
            *_disclosures(whole, right=right),
            *_not_compared(found.left_out),
            *(item.message for item in weaker),
        ),
    )


def _process(
    whole: Whole,
    path: str,
    source: str,
    fork_server: ForkServer,
    scratch: Path,
    settings: JudgeSettings,
) -> CandidateProcess:
    module = whole.submodule(path)
    process = CandidateProcess(
        fork_server,
        source=source,
        device=whole.device.kind,
        target=whole.device.facts.target,
        scratch=scratch,
        limits=Limits(),
        sandboxed=settings.sandbox != "off",
        torch_device=whole.device.torch_device,
        may_compile=settings.policy == "any",
    )
    try:
        process.load()
        process.construct(
            "from_reference", shell.describe(module), training=False, keeps_random_state=True
        )
        process.use_weights(module.state_dict())
    except BaseException:
        process.close()
        raise
    return process


def _put_in(
    module: torch.nn.Module,
    process: CandidateProcess,
    calls: _Calls,
    envelope: Mapping[str, Any],
) -> None:
    original = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        why = why_not_admitted(envelope, (args, kwargs))
        if why is not None:
            calls.by_original += 1
            calls.why = calls.why or why
            return original(*args, **kwargs)
        calls.by_kernels += 1
        return process.call((args, kwargs)).output

    module.__dict__["forward"] = forward


def _put_back(module: torch.nn.Module) -> None:
    module.__dict__.pop("forward", None)


@contextmanager
def _as_given(whole: Whole, paths: Sequence[str]) -> Iterator[None]:
    """The model without the candidate, for the reference's own answer."""
    taken = {path: whole.submodule(path).__dict__.pop("forward") for path in paths}
    try:
        yield
    finally:
        for path, forward in taken.items():
            whole.submodule(path).__dict__["forward"] = forward


def _times(
    whole: Whole, paths: Sequence[str], ratio: float | None, calls: _Calls
) -> tuple[float | None, float | None]:
    if whole.device.kind == "cuda" or not ratio:
        return None, None
    result = scan(whole)
    every = sum(row.device_us for row in result.rows if row.path in paths)
    replaced = every * calls.by_kernels / calls.all
    return round(result.total_us, 3), round(result.total_us - replaced + replaced / ratio, 3)


def _right(found: Answers, calls: _Calls, *, trains: bool) -> str:
    only = " (its outputs: no gradient was taken through the whole)" if trains else ""
    runs = f"{found.trials} fresh inputs"
    if found.inputs < found.trials:
        runs = f"{found.trials} runs, with {found.inputs} different inputs among them"
    left = found.left_out
    unseen = f"; not compared: {_listed(left)}" if left else ""
    text = f"the whole model's answer stayed right on {runs}{only}{unseen}"
    if calls.by_original:
        text += (
            f"; the original answered {calls.by_original} of {calls.all} calls of the part, because what they are given "
            f"was not verified ({calls.why})"
        )
    return text


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"


def _not_compared(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    why = "neither tensors nor plain values, or other ones in each run of the model as it is"
    return (f"not compared, as they are {why}: {_listed(names)}",)


def _never_answered(calls: _Calls) -> str:
    if not calls.all:
        return "kernels_not_used: the whole model did not call the part"
    return (
        f"kernels_not_used: in the whole model the part is given what was not verified ({calls.why}), so the original "
        f"answered all {calls.all} calls of it and the kernels none"
    )


def _disclosures(whole: Whole, *, right: bool) -> tuple[str, ...]:
    message = ["verified on the model's own weights and on natural inputs only"]
    if whole.device.kind == "cuda":
        message.append("the whole model was not timed: only the submodule was")
    elif right:
        message.append("before and after are estimates; nothing was timed")
    return tuple(message)


def captured(settings: JudgeSettings, path: str, folder: Path) -> tuple[str, ...]:
    """Save one submodule as a problem; the paths of parts like it. Raises `ProblemError`."""
    if settings.dynamic:
        raise ProblemError(
            "--dynamic does not go with --submodule: its inputs are those that the whole model gives it. Give the whole "
            "model several input sets of the sizes you need: its get_inputs may return a dict of them by name"
        )
    return Whole.open(settings).capture(path, folder)
