"""The whole model with an accepted candidate in place of submodules: is its answer still right?

The candidate runs in a process of its own, as always; its answers come back into the user's model,
which runs on to its end in the judge.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from kernelagent.errors import ProblemError
from kernelagent.evaluation import Case
from kernelagent.tools.judge import compare
from kernelagent.tools.judge.candidate_process import CandidateProcess, Limits
from kernelagent.tools.judge.docket import open_warm
from kernelagent.tools.judge.rejection import Rejected
from kernelagent.tools.judge.scan import scan
from kernelagent.tools.judge.submodules import Whole
from kernelagent.tools.processes.spawn import WarmParent
from kernelagent.tools.runner import shell
from kernelagent.tools.settings import JudgeSettings
from kernelagent.whole_model import WholeModel

_TRIALS = 3


def verify_whole(
    settings: JudgeSettings, paths: Sequence[str], source: str, ratio: float | None
) -> WholeModel:
    """Run the model as it is and with the candidate at `paths`, on fresh inputs each time.

    `ratio`: the submodule's own estimate, eager over candidate, where there is no GPU.
    """
    whole = Whole.open(settings)
    warm = open_warm(whole.device)
    scratch = Path(tempfile.mkdtemp(prefix="kernelagent-whole-"))
    cases: list[Case] = []
    calls = [0]
    try:
        with ExitStack() as stack:
            for at, path in enumerate(paths):
                process = _process(whole, path, source, warm, scratch / str(at), settings)
                stack.enter_context(process)
                stack.callback(_put_back, whole.submodule(path))
                _put_in(whole.submodule(path), process, calls)
            trials, why = _trials(whole, paths, cases)
        right = why is None
    except Rejected as refused:
        right, why, trials = False, f"{refused.reason.code}: {refused.reason.message}", 0
    finally:
        warm.close()
        shutil.rmtree(scratch, ignore_errors=True)
    before, after = _times(whole, paths, ratio) if right else (None, None)
    return WholeModel(
        model=whole.problem.name,
        paths=tuple(paths),
        right=right,
        why=why or f"the whole model's answer stayed right on {trials} fresh inputs",
        trials=trials,
        calls=calls[0],
        device=whole.device.facts,
        cases=tuple(cases),
        before_us=before,
        after_us=after,
        disclosures=_disclosures(whole, right=right),
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
            found = compare.compare(output, wanted, input_set=name, probe="natural")
            cases += found.cases
            done += 1
            if found.reason is not None:
                return done, f"{found.reason.code}: {found.reason.message}"
    return done, None


def _process(
    whole: Whole,
    path: str,
    source: str,
    warm: WarmParent,
    scratch: Path,
    settings: JudgeSettings,
) -> CandidateProcess:
    module = whole.submodule(path)
    process = CandidateProcess(
        warm,
        source=source,
        device=whole.device.kind,
        target=whole.device.facts.target,
        scratch=scratch,
        limits=Limits(),
        sandboxed=settings.sandbox != "off",
        torch_device=whole.device.torch_device,
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
    found = scan(whole)
    replaced = sum(row.device_us for row in found.rows if row.path in paths)
    return round(found.total_us, 3), round(found.total_us - replaced + replaced / ratio, 3)


def _disclosures(whole: Whole, *, right: bool) -> tuple[str, ...]:
    said = ["verified on the model's own weights and on natural inputs only"]
    if whole.device.kind == "cuda":
        said.append("the whole model was not timed: only the submodule was")
    elif right:
        said.append("before and after are estimates; nothing was timed")
    return tuple(said)


def captured(settings: JudgeSettings, path: str, folder: Path) -> None:
    """Save one submodule as a problem; raises `ProblemError`."""
    if settings.dynamic:
        raise ProblemError(
            "--dynamic does not go with --submodule: its inputs are the captured ones"
        )
    Whole.open(settings).capture(path, folder)
