"""A problem opened for judging: module, oracle, inputs, device and warm parent, checked once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from kernelagent.errors import ProblemError
from kernelagent.evaluation import DeviceFacts
from kernelagent.problem import ProblemFacts, Remark
from kernelagent.tools.cuda.helper import compiled_helper
from kernelagent.tools.judge import compare, describe
from kernelagent.tools.judge.admit import admission_of
from kernelagent.tools.judge.candidate_process import CandidateProcess
from kernelagent.tools.judge.devices import JudgeDevice, open_device
from kernelagent.tools.judge.dynamic import Dynamic, dynamic_of
from kernelagent.tools.judge.headroom import Headroom, headroom_of
from kernelagent.tools.judge.inputs import InputSource, input_sources
from kernelagent.tools.judge.load import LoadedProblem, load_problem
from kernelagent.tools.judge.oracle import Oracle
from kernelagent.tools.judge.rejection import Rejected
from kernelagent.tools.judge.training import require_trainable
from kernelagent.tools.processes.confinement import require
from kernelagent.tools.processes.spawn import WarmParent
from kernelagent.tools.runner import shell
from kernelagent.tools.settings import DynamicDimension, JudgeSettings

_PRELOAD = (
    # Meta tensors pull it in, and inside `pretending_cuda` it would take stand-ins for the real thing.
    "torch._dynamo",
    "kernelagent.tools.runner.main",
    "kernelagent.tools.virtual.driver",
    "kernelagent.tools.virtual.cuda_names",
    "kernelagent.tools.virtual.executor",
    # What compiling needs and Triton imports late, which each executor would do anew.
    "triton.compiler.code_generator",
)
_OF_FORWARDS = (Remark("no_headroom", "no lower bound of the time: there is none for a backward"),)
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Docket:
    """Everything about the problem that all candidates share."""

    settings: JudgeSettings
    problem: LoadedProblem
    judge_device: JudgeDevice
    oracle: Oracle
    sources: tuple[InputSource, ...]
    facts: ProblemFacts
    warm: WarmParent
    sandbox: str
    mode_independent: bool = False
    """The reference answers the same in train mode and changes nothing there."""
    training: bool = False
    dynamic: Mapping[str, tuple[Dynamic, ...]] = field(default_factory=dict)
    """The declared dynamic dimensions by input set."""
    keeps_random_state: bool = True
    """A forward of the reference leaves torch's random generator as it is."""
    scratch: tempfile.TemporaryDirectory[str] = field(
        default_factory=partial(tempfile.TemporaryDirectory, prefix="kernelagent-docket-")
    )
    headroom: Mapping[str, Headroom] = field(default_factory=dict)
    """The least each input set needs; a module that does not run on meta tensors has none."""

    @classmethod
    def open(cls, settings: JudgeSettings) -> Docket:
        """Read the problem and try it; raises `ProblemError` or `EnvironmentFault`."""
        device = open_device(settings.device, settings.target)
        # Both need it before the first stand-in for CUDA's names, and it takes long to import.
        warm = open_warm(device, meanwhile=partial(import_module, "torch._dynamo"))
        try:
            if settings.sandbox == "require":
                require(warm.sandbox)
            sandbox = "off" if settings.sandbox == "off" else warm.sandbox.summary
            return cls._opened(settings, device, warm, sandbox)
        except BaseException:
            warm.close()
            raise

    @classmethod
    def _opened(
        cls, settings: JudgeSettings, device: JudgeDevice, warm: WarmParent, sandbox: str
    ) -> Docket:
        with device.scope():
            problem = load_problem(settings.problem)
            oracle = Oracle(problem, device.torch_device, scope=device.scope)
        sources = input_sources(
            problem,
            oracle.module,
            device.torch_device,
            device.scope,
            may_shrink=device.kind == "virtual",
        )
        output, remarks = _tried(oracle, sources, problem)
        trains = settings.mode == "train"
        if trains:
            require_trainable(oracle, sources)
        for source in sources:
            admitted = admission_of(oracle, source, constant=problem.constant_inputs)
            remarks += tuple(Remark(d.code, d.message) for d in admitted.disclosures)
        headroom, unknown = ({}, _OF_FORWARDS) if trains else _headroom(oracle, sources, device)
        remarks += unknown
        declared = [DynamicDimension.read(text) for text in settings.dynamic]
        dynamic = {source.name: dynamic_of(source, declared, oracle) for source in sources}
        facts = describe.problem_facts(
            problem,
            oracle.module,
            tuple(_described(source, oracle.module) for source in sources),
            output,
            mode=settings.mode,
            precision=f"float32 matmuls at precision {torch.get_float32_matmul_precision()!r}",
            dynamic=tuple(dict.fromkeys(one.written_out for d in dynamic.values() for one in d)),
            disclosures=tuple(dict.fromkeys(remarks)),
        )
        scratch = tempfile.TemporaryDirectory(prefix="kernelagent-docket-")
        if device.kind == "cuda":
            warm.triton_helper = compiled_helper(warm, Path(scratch.name))
        return cls(
            settings,
            problem,
            device,
            oracle,
            sources,
            facts,
            warm,
            sandbox,
            scratch=scratch,
            mode_independent=all(oracle.same_in_train_mode(source.draw(2)) for source in sources),
            dynamic=dynamic,
            keeps_random_state=all(oracle.keeps_random_state(s.draw(2)) for s in sources),
            headroom=headroom,
        )

    @property
    def trains(self) -> bool:
        """Gradients are verified, and time is that of a forward with its backward."""
        return self.settings.mode == "train"

    @property
    def device(self) -> DeviceFacts:
        return self.judge_device.facts

    @property
    def baselines(self) -> Path:
        """The folder in which the user's own module is run and compiled, trusted with it."""
        folder = Path(self.scratch.name, "baselines")
        folder.mkdir(exist_ok=True)
        return folder

    def close(self) -> None:
        self.warm.close()
        self.scratch.cleanup()

    @property
    def construction(self) -> tuple[str, Any]:
        """How `ModelNew` is built, and of what."""
        if self.problem.constructor == "from_reference":
            return "from_reference", shell.describe(self.oracle.module)
        return "init", self.problem.init_args()

    def construct(self, process: CandidateProcess) -> list[Mapping[str, Any]]:
        """Build `ModelNew` as the reference is built; returns a row for each entry of its state."""
        how, value = self.construction
        return process.construct(
            how, value, training=self.training, keeps_random_state=self.keeps_random_state
        )

    def require_same_state(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Raises `Rejected` unless the candidate's state has the reference's names, shapes and dtypes."""
        wanted = {fact.name: (list(fact.shape), fact.dtype) for fact in self.facts.state}
        got = {str(row.get("name")): (row.get("shape"), row.get("dtype")) for row in rows}
        missing, extra = sorted(wanted.keys() - got.keys()), sorted(got.keys() - wanted.keys())
        other = [name for name in wanted.keys() & got.keys() if wanted[name] != got[name]]
        parts = [f"missing: {', '.join(missing)}"] if missing else []
        parts += [f"not in the reference: {', '.join(extra)}"] if extra else []
        parts += [f"{name} is {got[name]} and must be {wanted[name]}" for name in sorted(other)]
        if parts:
            raise Rejected(
                "state_mismatch",
                f"the state_dict of ModelNew differs from the reference's; {'; '.join(parts)}",
                {"missing": missing, "extra": extra},
            )

    def executed_text(self, name: str) -> str | None:
        """The shrunk shapes of an input set, None when it ran as given."""
        for one in self.facts.input_sets:
            if one.name == name and one.executed is not None:
                shapes = (f"{t.name}: {t.dtype}{list(t.shape)}" for t in one.executed)
                return ", ".join(shapes)
        return None


def open_warm(device: JudgeDevice, meanwhile: Callable[[], object] = lambda: None) -> WarmParent:
    """The process that candidates are forked from; the judge itself is held to one thread."""
    # Judge, runner and executor take turns on few cores: a pool of threads only waits for itself.
    torch.set_num_threads(1)
    preload = _PRELOAD if device.kind == "virtual" else ("kernelagent.tools.runner.main",)
    return WarmParent.start(preload=preload, environment=_ONE_THREAD, meanwhile=meanwhile)


def _described(source: InputSource, module: torch.nn.Module) -> Any:
    executed = source.draw(0) if source.shrunk is not None else None
    return describe.input_set(source.name, source.full, module, executed)


def _headroom(
    oracle: Oracle, sources: tuple[InputSource, ...], device: JudgeDevice
) -> tuple[dict[str, Headroom], tuple[Remark, ...]]:
    found: dict[str, Headroom] = {}
    remarks: list[Remark] = []
    for source in sources:
        args, kwargs = source.full
        try:
            with device.scope():
                found[source.name] = headroom_of(
                    oracle.module, args, kwargs, device.ceilings, device.promised
                )
        except Exception as error:  # noqa: BLE001 - the user's own forward, without contents
            said = str(error).strip().splitlines() or [type(error).__name__]
            text = f"no lower bound of the time for input set {source.name!r}: {said[0][:200]}"
            remarks.append(Remark("no_headroom", text))
    return found, tuple(remarks)


def _tried(
    oracle: Oracle, sources: tuple[InputSource, ...], problem: LoadedProblem
) -> tuple[Any, tuple[Remark, ...]]:
    """Run the reference twice on each input set; returns the first set's output and remarks."""
    first: Any = None
    remarks = [Remark("problem", text) for text in problem.disclosures]
    for source in sources:
        arguments = source.draw(1)
        output, again = oracle.eager(arguments), oracle.eager(arguments)
        _require_deterministic(output, again, source.name, problem)
        if not any(isinstance(leaf, torch.Tensor) for _, leaf in compare.leaves(output)):
            raise ProblemError(f"the forward of {problem.entry_point} returns no tensor")
        first = output if first is None else first
        if source.shrunk is not None:
            said = (
                f"input set {source.name!r} was executed with a leading dimension of "
                f"{source.shrunk.now} instead of {source.shrunk.was}"
            )
            remarks.append(Remark("executed_smaller", said))
    if problem.constant_inputs:
        said = "inputs were drawn like the example tensors: there is no input generator"
        remarks.append(Remark("no_input_generator", said))
    return first, tuple(remarks)


def _require_deterministic(one: Any, two: Any, name: str, problem: LoadedProblem) -> None:
    for (where, left), (_, right) in zip(compare.leaves(one), compare.leaves(two), strict=True):
        if isinstance(left, torch.Tensor) and not torch.allclose(
            left.double(), right.double(), rtol=1e-3, atol=1e-5, equal_nan=True
        ):
            raise ProblemError(
                f"the forward of {problem.entry_point} is not deterministic: {where} differs "
                f"between two calls with the same inputs (set {name!r}). Put it into eval mode, "
                f"or pass its randomness in as an argument"
            )
