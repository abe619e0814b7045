"""The whole model with an accepted candidate in place of submodules: is its answer still right?

The candidate runs in a process of its own, as always; its answers come back into the user's model,
which runs on to its end in the judge.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import ProblemError
from kernelagent.domain.evaluation import Case
from kernelagent.domain.whole_model import WholeModel
from kernelagent.tools.candidate_runner import shell
from kernelagent.tools.judge.fork_server import open_fork_server
from kernelagent.tools.judge.problem.context import make_ready
from kernelagent.tools.judge.verify.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.limits import Limits
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.judge.whole_model.scan import scan
from kernelagent.tools.judge.whole_model.submodules import Whole
from kernelagent.tools.sandbox.spawn import ForkServer
from kernelagent.tools.sandbox.sweeping import sweep

_TRIALS = 3


def verify_whole(
    settings: JudgeSettings, paths: Sequence[str], source: str, ratio: float | None
) -> WholeModel:
    """Run the model as it is and with the candidate at `paths`, on fresh inputs each time.

    `ratio`: the submodule's own estimate, eager over candidate, where there is no GPU.
    """
    whole = Whole.open(settings)
    fork_server = open_fork_server(whole.device.kind)
    scratch = Path(tempfile.mkdtemp(prefix="kernelagent-whole-"))
    cases: list[Case] = []
    calls = [0]
    try:
        weaker = make_ready(whole.device, fork_server, settings.sandbox, scratch)
        with ExitStack() as stack:
            for at, path in enumerate(paths):
                process = _process(whole, path, source, fork_server, scratch / str(at), settings)
                stack.enter_context(process)
                stack.callback(_put_back, whole.submodule(path))
                _put_in(whole.submodule(path), process, calls)
            trials, why = _trials(whole, paths, cases)
        right = why is None
    except Rejected as refused:
        right, why, trials = False, f"{refused.reason.code}: {refused.reason.message}", 0
    finally:
        fork_server.close()
        sweep(scratch)
    before, after = _times(whole, paths, ratio) if right else (None, None)
    return WholeModel(
        model=whole.problem.name,
        paths=tuple(paths),
        right=right,
        why=why or _right(trials, trains=settings.mode == "train"),
        trials=trials,
        calls=calls[0],
        device=whole.device.facts,
        cases=tuple(cases),
        before_us=before,
        after_us=after,
        disclosures=(*_disclosures(whole, right=right), *(item.message for item in weaker)),
    )


def _trials(whole: Whole, paths: Sequence[str], cases: list[Case]) -> tuple[int, str | None]:
    done = 0
    for name in whole.inputs:
        for _ in range(_TRIALS):
            arguments = whole.draw(name)
            with _as_given(whole, paths):
                expected = whole.oracle.expect(arguments)
            natural = compare.scales_of(expected.output64)
            wanted = compare.Expected(expected.output, expected.output64, natural)
            output = whole.oracle.eager(arguments)
            result = compare.compare(output, wanted, input_set=name, probe="natural")
            cases += result.cases
            done += 1
            if result.reason is not None:
                return done, f"{result.reason.code}: {result.reason.message}"
    return done, None


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


def _put_in(module: torch.nn.Module, process: CandidateProcess, calls: list[int]) -> None:
    def forward(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
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
    whole: Whole, paths: Sequence[str], ratio: float | None
) -> tuple[float | None, float | None]:
    if whole.device.kind == "cuda" or not ratio:
        return None, None
    result = scan(whole)
    replaced = sum(row.device_us for row in result.rows if row.path in paths)
    return round(result.total_us, 3), round(result.total_us - replaced + replaced / ratio, 3)


def _right(trials: int, *, trains: bool) -> str:
    only = " (its outputs: no gradient was taken through the whole)" if trains else ""
    return f"the whole model's answer stayed right on {trials} fresh inputs{only}"


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
