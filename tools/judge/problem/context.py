"""A problem opened for judging: module, oracle, inputs, device and fork server, checked once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

from kernelagent.domain.errors import KernelAgentError, ProblemError
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.judge_settings import DynamicDimension, JudgeSettings, SandboxChoice
from kernelagent.domain.problem import ProblemFacts, ReferenceEstimate, Remark
from kernelagent.tools.candidate_runner import shell
from kernelagent.tools.cuda.helper import compiled_helper
from kernelagent.tools.estimates.library import library_for
from kernelagent.tools.judge.admission.admit import admission_of
from kernelagent.tools.judge.bounds.headroom import Headroom, headroom_of
from kernelagent.tools.judge.canary import ConfinedCanary, examine, require_kernel
from kernelagent.tools.judge.problem import describe
from kernelagent.tools.judge.problem.devices import JudgeDevice, open_device
from kernelagent.tools.judge.problem.dynamic import Dynamic, dynamic_of
from kernelagent.tools.judge.problem.inputs import InputSource, input_sources, meta_twin
from kernelagent.tools.judge.problem.load import LoadedProblem, load_problem
from kernelagent.tools.judge.problem.memory_limit import hold_to, memory_limit
from kernelagent.tools.judge.problem.memory_plan import LEVELS, plan
from kernelagent.tools.judge.problem.oracle import Oracle
from kernelagent.tools.judge.problem.training import require_trainable
from kernelagent.tools.judge.verify import compare
from kernelagent.tools.judge.verify.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.sandbox.confinement import require
from kernelagent.tools.sandbox.spawn import ForkServer
from kernelagent.tools.tensors import NotPortable, pack
from kernelagent.tools.virtual.compiling import gpu_target
from kernelagent.tools.virtual.eager import eager_rows

_OF_EVERY_RUNNER = (
    # Meta tensors and function modes pull it in. Inside `pretending_cuda` it would take stand-ins for
    # the real thing, and in a candidate's turn it would look as if the candidate replaced functions.
    # Never its compile_fx: that asks CUDA for devices, after which no fork can use them.
    "torch._dynamo",
    "kernelagent.tools.candidate_runner.main",
)
PRELOAD = {
    "cuda": _OF_EVERY_RUNNER,
    "virtual": (
        *_OF_EVERY_RUNNER,
        "kernelagent.tools.virtual.driver",
        "kernelagent.tools.virtual.fake_cuda",
        "kernelagent.tools.virtual.executor",
        # What compiling needs and Triton imports late, which each executor would do anew.
        "triton.compiler.code_generator",
    ),
}
"""What the fork server imports for candidates, by the kind of device."""
_OF_FORWARDS = (Remark("no_headroom", "no lower bound of the time: there is none for a backward"),)
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class JudgeContext:
    """Everything about the problem that all candidates share."""

    settings: JudgeSettings
    problem: LoadedProblem
    judge_device: JudgeDevice
    oracle: Oracle
    sources: tuple[InputSource, ...]
    facts: ProblemFacts
    warm: ForkServer
    sandbox: str
    mode_independent: bool = False
    """The reference answers the same in train mode and changes nothing there."""
    training: bool = False
    dynamic: Mapping[str, tuple[Dynamic, ...]] = field(default_factory=dict)
    """The declared dynamic dimensions by input set."""
    keeps_random_state: bool = True
    """A forward of the reference leaves torch's random generator as it is."""
    folder: Path = field(default_factory=Path.cwd)
    """Where the user started: what a relative path in the problem, or in the user's code, means."""
    scratch: tempfile.TemporaryDirectory[str] = field(
        default_factory=partial(tempfile.TemporaryDirectory, prefix="kernelagent-context-")
    )
    headroom: Mapping[str, Headroom] = field(default_factory=dict)
    """The least each input set needs; a module that does not run on meta tensors has none."""
    whole: LoadedProblem | None = None
    """The problem at the user's sizes, where `problem` has smaller inner ones."""
    whole_module: torch.nn.Module | None = None
    """Its module, on the meta device."""
    level: int = 0
    """How small it is executed: 0 as usual, then for candidates that took too long."""
    of_the_machine: tuple[Remark, ...] = ()
    """What this machine lacks, whatever the problem."""

    @property
    def module_at_full_size(self) -> torch.nn.Module:
        """With contents only where nothing but rows was made fewer."""
        return self.oracle.module if self.whole_module is None else self.whole_module

    def smaller(self) -> JudgeContext | None:
        """The same problem at sizes that are executed sooner; None where there are none."""
        if self.device.kind != "virtual" or self.level + 1 >= LEVELS:
            return None
        try:
            made = self._opened(
                self.settings,
                self.judge_device,
                self.warm,
                self.of_the_machine,
                folder=self.folder,
                scratch=self.scratch,
                level=self.level + 1,
            )
        except KernelAgentError:
            return None
        executed = [item.executed for item in made.facts.input_sets]
        if executed == [item.executed for item in self.facts.input_sets]:
            return None
        return made

    @classmethod
    def open(cls, settings: JudgeSettings) -> JudgeContext:
        """Read the problem and try it; raises `ProblemError` or `EnvironmentFault`."""
        folder = Path.cwd()
        device = open_device(settings.device, settings.target)
        if device.kind == "virtual":
            gpu_target(device.facts.target)
        # Both need it before the first stand-in for CUDA's names, and it takes long to import.
        warm = open_fork_server(device, meanwhile=partial(import_module, "torch._dynamo"))
        scratch = tempfile.TemporaryDirectory(prefix="kernelagent-context-")
        try:
            if settings.sandbox == "require":
                require(warm.sandbox)
            remarks = make_ready(device, warm, settings.sandbox, Path(scratch.name))
            return cls._opened(settings, device, warm, remarks, folder=folder, scratch=scratch)
        except BaseException:
            warm.close()
            scratch.cleanup()
            raise

    @classmethod
    def _opened(
        cls,
        settings: JudgeSettings,
        device: JudgeDevice,
        warm: ForkServer,
        of_the_machine: tuple[Remark, ...],
        *,
        folder: Path,
        scratch: tempfile.TemporaryDirectory[str],
        level: int = 0,
    ) -> JudgeContext:
        with device.scope():
            problem = whole = load_problem(settings.problem)
        whole_module: torch.nn.Module | None = None
        renamed: tuple[tuple[int, int], ...] = ()
        if device.kind == "virtual":
            limit = memory_limit(settings)
            planned = plan(whole, device.torch_device, device.scope, limit, level=level)
            problem, sources = planned.problem, planned.sources
            whole_module = planned.whole if planned.inner else None
            renamed = tuple(sorted(planned.arguments.items()))
            hold_to(limit)
        with device.scope():
            oracle = Oracle(problem, device.torch_device, scope=device.scope)
        if device.kind != "virtual":
            sources = input_sources(
                problem, oracle.module, device.torch_device, device.scope, may_shrink=False
            )
        _require_portable(sources, problem)
        at_full_size = oracle.module if whole_module is None else whole_module
        output, remarks = _tried(oracle, sources, problem)
        remarks += of_the_machine
        trains = settings.mode == "train"
        if trains:
            require_trainable(oracle, sources)
        for source in sources:
            admitted = admission_of(oracle, source, constant=problem.constant_inputs)
            remarks += tuple(Remark(d.code, d.message) for d in admitted.disclosures)
        headroom, unknown = (
            ({}, _OF_FORWARDS) if trains else _headroom(at_full_size, sources, device)
        )
        remarks += unknown
        declared = [DynamicDimension.read(text) for text in settings.dynamic]
        dynamic = {source.name: dynamic_of(source, declared, oracle) for source in sources}
        facts = describe.problem_facts(
            whole,
            at_full_size,
            tuple(_described(source, oracle.module) for source in sources),
            _output_at_full_size(at_full_size, sources, device, output),
            mode=settings.mode,
            precision=f"float32 matmuls at precision {torch.get_float32_matmul_precision()!r}",
            dynamic=tuple(dict.fromkeys(item.written_out for d in dynamic.values() for item in d)),
            executed_arguments=renamed,
            estimates=() if trains else _estimates(at_full_size, sources, device),
            disclosures=tuple(dict.fromkeys(remarks)),
        )
        return cls(
            settings,
            problem,
            device,
            oracle,
            sources,
            facts,
            warm,
            "off" if settings.sandbox == "off" else warm.sandbox.summary,
            folder=folder,
            scratch=scratch,
            mode_independent=all(oracle.same_in_train_mode(source.draw(2)) for source in sources),
            dynamic=dynamic,
            whole=whole if whole_module is not None else None,
            whole_module=whole_module,
            level=level,
            of_the_machine=of_the_machine,
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

    def construct_at_full_size(self, process: CandidateProcess) -> None:
        """Build `ModelNew` at the user's sizes without contents, where others are executed."""
        assert self.whole is not None
        process.construct(
            "init",
            self.whole.init_args(),
            training=self.training,
            keeps_random_state=self.keeps_random_state,
            empty=True,
        )

    def require_same_state(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Raises `Rejected` unless the candidate's state has the reference's names, shapes and dtypes."""
        executed = describe.state_facts(self.oracle.module)
        wanted = {fact.name: (list(fact.shape), fact.dtype) for fact in executed}
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
        for item in self.facts.input_sets:
            if item.name == name and item.executed is not None:
                shapes = (f"{t.name}: {t.dtype}{list(t.shape)}" for t in item.executed)
                return ", ".join(shapes)
        return None


def open_fork_server(
    device: JudgeDevice, meanwhile: Callable[[], object] = lambda: None
) -> ForkServer:
    """The process that candidates are forked from; the judge itself is held to one thread."""
    # Judge, runner and executor take turns on few cores: a pool of threads only waits for itself.
    torch.set_num_threads(1)
    return ForkServer.start(
        preload=PRELOAD[device.kind], environment=_ONE_THREAD, meanwhile=meanwhile
    )


def make_ready(
    device: JudgeDevice, warm: ForkServer, sandbox: SandboxChoice, scratch: Path
) -> tuple[Remark, ...]:
    """On a GPU: compile what all candidates need, and see that a confined kernel runs at all.

    Returns what a reader of the verdicts must know; raises `EnvironmentFault` when none can be given.
    """
    if device.kind != "cuda":
        return ()
    warm.triton_helper = compiled_helper(warm, scratch)
    canary = ConfinedCanary(warm, device, scratch)
    result = examine(canary, sandboxed=sandbox != "off")
    remarks = [] if device.unmeasured is None else [Remark("not_measured", device.unmeasured)]
    without = require_kernel(result, required=sandbox == "require")
    if without:
        why = (
            f"in the whole sandbox no kernel runs here ({result.refused()}): candidates run without "
            f"{', '.join(without)}"
        )
        warm.go_on_without(without, why)
        remarks.append(Remark("weaker_sandbox", why))
    return tuple(remarks)


def _require_portable(sources: tuple[InputSource, ...], problem: LoadedProblem) -> None:
    """A candidate is called with tensors and plain values; raises `ProblemError` naming anything else."""
    for source in sources:
        for path, leaf in tree_flatten_with_path(source.full)[0]:
            try:
                pack(leaf, [])
            except NotPortable:
                kind = type(leaf)
                raise ProblemError(
                    f"the forward of {problem.entry_point} is called with a "
                    f"{kind.__module__}.{kind.__qualname__} (input set {source.name!r}, "
                    f"{keystr(path)}), which cannot cross to a candidate's process; wrap the module in "
                    f"one whose forward takes tensors and plain values and makes the "
                    f"{kind.__name__} itself"
                ) from None


def _described(source: InputSource, module: torch.nn.Module) -> Any:
    executed = source.draw(0) if source.shrunk is not None else None
    return describe.input_set(source.name, source.full, module, executed)


def _output_at_full_size(
    module: torch.nn.Module, sources: tuple[InputSource, ...], device: JudgeDevice, executed: Any
) -> Any:
    """What the first input set gives at the user's sizes; as executed where that needs values."""
    if all(source.shrunk is None for source in sources):
        return executed
    args, kwargs = sources[0].full
    try:
        with device.scope(), torch.no_grad():
            return meta_twin(module)(*args, **kwargs)
    except Exception:  # noqa: BLE001 - the user's own forward, without contents
        return executed


def _headroom(
    module: torch.nn.Module, sources: tuple[InputSource, ...], device: JudgeDevice
) -> tuple[dict[str, Headroom], tuple[Remark, ...]]:
    result: dict[str, Headroom] = {}
    remarks: list[Remark] = []
    for source in sources:
        args, kwargs = source.full
        try:
            with device.scope():
                result[source.name] = headroom_of(
                    module, args, kwargs, device.ceilings, device.promised
                )
        except Exception as error:  # noqa: BLE001 - the user's own forward, without contents
            message = str(error).strip().splitlines() or [type(error).__name__]
            text = f"no lower bound of the time for input set {source.name!r}: {message[0][:200]}"
            remarks.append(Remark("no_headroom", text))
    return result, tuple(remarks)


def _estimates(
    module: torch.nn.Module, sources: tuple[InputSource, ...], device: JudgeDevice
) -> tuple[ReferenceEstimate, ...]:
    """Of the reference at the user's sizes; nothing for a forward that needs values."""
    if device.kind != "virtual":
        return ()
    library = library_for(device.promised)
    result = []
    for source in sources:
        args, kwargs = source.full
        try:
            with device.scope():
                rows = eager_rows(meta_twin(module), args, kwargs, device.facts.target)
        except Exception:  # noqa: BLE001 - the user's own forward, without contents
            continue
        operations = tuple(row.operation for row in rows if row.operation is not None)
        eager, compiled = library.eager(operations).us, library.compiled(operations).us
        result.append(ReferenceEstimate(source.name, eager, compiled))
    return tuple(result)


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
            message = f"input set {source.name!r} was executed with {source.shrunk}"
            remarks.append(Remark("executed_smaller", message))
    if problem.constant_inputs:
        message = "inputs were drawn like the example tensors: there is no input generator"
        remarks.append(Remark("no_input_generator", message))
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
