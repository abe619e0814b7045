"""A problem opened for judging: module, oracle, inputs, device and fork server, checked once."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from kernelagent.domain.configuration.judge_settings import (
    DynamicDimension,
    JudgeSettings,
    SandboxChoice,
)
from kernelagent.domain.errors import KernelAgentError
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.problem import DynamicSize, ProblemFacts, Remark, Tolerance
from kernelagent.tools.calls.float32_precision import matmul_precision
from kernelagent.tools.calls.loading import unplaced
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.candidate_runner import shell
from kernelagent.tools.cuda.helper import compiled_helpers
from kernelagent.tools.judge.admission.admit import TimeForAdmission, admission_of
from kernelagent.tools.judge.admission.carried_over import carried_over
from kernelagent.tools.judge.bounds.headroom import Headroom
from kernelagent.tools.judge.canary import ConfinedCanary, examine, require_kernel
from kernelagent.tools.judge.fork_server import open_fork_server
from kernelagent.tools.judge.problem import describe
from kernelagent.tools.judge.problem.devices import JudgeDevice, open_device
from kernelagent.tools.judge.problem.dynamic import Dynamic, dynamic_of
from kernelagent.tools.judge.problem.first_look import (
    described,
    estimates,
    least_of_each,
    output_at_full_size,
    require_portable,
    tried,
)
from kernelagent.tools.judge.problem.load import LoadedProblem, load_problem
from kernelagent.tools.judge.problem.memory_limit import hold_to, memory_limit
from kernelagent.tools.judge.problem.memory_plan import LEVELS, plan
from kernelagent.tools.judge.problem.reference.as_built import AsBuilt
from kernelagent.tools.judge.problem.reference.effects import Effects
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.reference.read_from_outside import read_from_outside
from kernelagent.tools.judge.problem.steps.training import require_trainable
from kernelagent.tools.judge.problem.trials.defined_writes import with_defined_writes
from kernelagent.tools.judge.problem.trials.inputs import InputSource, input_sources
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.sandbox.confinement import require
from kernelagent.tools.sandbox.spawn import ForkServer
from kernelagent.tools.virtual.compiled.compiling import gpu_target

_OF_FORWARDS = (Remark("no_headroom", "no lower bound of the time: there is none for a backward"),)


@dataclass(frozen=True)
class JudgeContext:
    """Everything about the problem that all candidates share."""

    settings: JudgeSettings
    problem: LoadedProblem
    judge_device: JudgeDevice
    oracle: Oracle
    sources: tuple[InputSource, ...]
    facts: ProblemFacts
    fork_server: ForkServer
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
    sample: int = field(default_factory=fresh_seed)
    """Draws the programs of large grids that are counted: the same in all counts that a writer compares."""
    level: int = 0
    """How small it is executed: 0 as usual, then for candidates that took too long."""
    of_the_machine: tuple[Remark, ...] = ()
    """What this machine lacks, whatever the problem."""
    as_built: AsBuilt = field(default_factory=AsBuilt)
    """What was reached before anything called the module."""
    closes_fork_server: bool = False
    """Whether `fork_server` ends with this context."""

    @property
    def module_at_full_size(self) -> torch.nn.Module:
        """With contents only where nothing but rows was made fewer."""
        return self.oracle.module if self.whole_module is None else self.whole_module

    @cached_property
    def sources_with_results(self) -> tuple[InputSource, ...]:
        """The input sets for which the reference returns anything: of an empty batch nothing depends on a kernel.

        All of them where it returns nothing for any.
        """
        return _with_results(self.oracle, self.sources)

    @cached_property
    def smaller(self) -> JudgeContext | None:
        """The same problem at sizes that are executed sooner, planned once; None where there are none."""
        if self.device.kind != "virtual":
            return None
        executed = [item.executed for item in self.facts.input_sets]
        # What had to be made small for other reasons may be as small as the next level would have it.
        for level in range(self.level + 1, LEVELS):
            try:
                made = self._opened(
                    self.settings,
                    self.judge_device,
                    self.fork_server,
                    self.of_the_machine,
                    folder=self.folder,
                    scratch=self.scratch,
                    level=level,
                    as_built=self.as_built,
                )
            except KernelAgentError:
                return None
            if executed != [item.executed for item in made.facts.input_sets]:
                return replace(made, sample=self.sample)
        return None

    @classmethod
    def open(cls, settings: JudgeSettings, fork_server: ForkServer | None = None) -> JudgeContext:
        """Read the problem and try it; raises `ProblemError` or `EnvironmentFault`.

        `fork_server`: of `open_fork_server` for this device, which several judges share and the caller
        closes; without it the context has its own.
        """
        folder = Path.cwd()
        device = open_device(settings.device, settings.target)
        if device.kind == "virtual":
            gpu_target(device.facts.target)
        closes = fork_server is None
        # Both need it before the first stand-in for CUDA's names, and it takes long to import.
        fork_server = fork_server or open_fork_server(
            device.kind, meanwhile=partial(import_module, "torch._dynamo")
        )
        scratch = tempfile.TemporaryDirectory(prefix="kernelagent-context-")
        try:
            if settings.sandbox == "require":
                require(fork_server.sandbox)
            remarks = make_ready(device, fork_server, settings.sandbox, Path(scratch.name))
            made = cls._opened(
                settings, device, fork_server, remarks, folder=folder, scratch=scratch
            )
            return replace(made, closes_fork_server=closes)
        except BaseException:
            if closes:
                fork_server.close()
            scratch.cleanup()
            raise

    @classmethod
    def _opened(
        cls,
        settings: JudgeSettings,
        device: JudgeDevice,
        fork_server: ForkServer,
        of_the_machine: tuple[Remark, ...],
        *,
        folder: Path,
        scratch: tempfile.TemporaryDirectory[str],
        level: int = 0,
        as_built: AsBuilt | None = None,
    ) -> JudgeContext:
        as_built = as_built or AsBuilt()
        with device.scope():
            problem = whole = as_built.watching(load_problem(settings.problem))
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
        require_portable(sources, problem)
        at_full_size = oracle.module if whole_module is None else whole_module
        effects = Effects.of(oracle.module)
        output, remarks = tried(oracle, sources, problem)
        remarks += of_the_machine + effects.remarks()
        remarks += read_from_outside(at_full_size, as_built.changed(oracle.module))
        sources = tuple(with_defined_writes(oracle, source) for source in sources)
        trains = settings.mode == "train"
        if trains:
            require_trainable(oracle, sources)
        remarks += carried_over(oracle, sources, trains=trains)
        tolerances: list[Tolerance] = []
        time = TimeForAdmission()
        said: dict[tuple[str, str], list[str]] = {}
        answered = {source.name for source in _with_results(oracle, sources)}
        for source in sources:
            admitted, allowed = admission_of(oracle, source, time=time)
            tolerances += allowed if source is sources[0] else ()
            if source.name not in answered:
                # Nothing is wrong in an answer without elements, whatever it was made of.
                continue
            for told in admitted.disclosures:
                said.setdefault((told.code, told.message), []).append(source.name)
        for (code, message), names in said.items():
            of_some = "" if len(names) == len(answered) else f"on input set {', '.join(names)}: "
            remarks += (Remark(code, f"{of_some}{message}"),)
        headroom, unknown = (
            ({}, _OF_FORWARDS) if trains else least_of_each(at_full_size, sources, device)
        )
        remarks += unknown
        declared = [DynamicDimension.read(text) for text in settings.dynamic]
        dynamic = {source.name: dynamic_of(source, declared, oracle) for source in sources}
        facts = describe.problem_facts(
            whole,
            at_full_size,
            tuple(described(source, oracle.module) for source in sources),
            output_at_full_size(at_full_size, sources, device, output),
            mode=settings.mode,
            matmul_precision=matmul_precision(),
            convolutions_round=oracle.rounds_convolutions,
            dynamic=tuple(dict.fromkeys(item.written_out for d in dynamic.values() for item in d)),
            dynamic_sizes=tuple(
                DynamicSize(source.name, item.numbered(source.full))
                for source in sources
                for item in dynamic[source.name]
            ),
            executed_arguments=renamed,
            estimates=() if trains else estimates(at_full_size, sources, device),
            tolerances=tuple(tolerances),
            disclosures=tuple(dict.fromkeys(remarks)),
        )
        return cls(
            settings,
            problem,
            device,
            oracle,
            sources,
            facts,
            fork_server,
            "off" if settings.sandbox == "off" else fork_server.sandbox.summary,
            folder=folder,
            scratch=scratch,
            mode_independent=all(oracle.same_in_train_mode(source.draw(2)) for source in sources),
            dynamic=dynamic,
            whole=whole if whole_module is not None else None,
            whole_module=whole_module,
            level=level,
            of_the_machine=of_the_machine,
            as_built=as_built,
            keeps_random_state=all(oracle.keeps_random_state(s.draw(2)) for s in sources),
            headroom=headroom,
        )

    def at(self, source: InputSource) -> JudgeContext:
        """The same problem with one other input set, executed as it is."""
        module = self.oracle.module
        headroom: Mapping[str, Headroom] = {}
        if not self.trains:
            headroom, _ = least_of_each(module, (source,), self.judge_device)
        facts = replace(
            self.facts,
            input_sets=(described(source, module),),
            estimates=() if self.trains else estimates(module, (source,), self.judge_device),
        )
        return replace(self, sources=(source,), dynamic={}, facts=facts, headroom=headroom)

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
        if self.closes_fork_server:
            self.fork_server.close()
        self.scratch.cleanup()

    @property
    def construction(self) -> tuple[str, Any]:
        """How `ModelNew` is built, and of what."""
        return _construction(self.problem, self.oracle.module)

    def construct(self, process: CandidateProcess) -> list[Mapping[str, Any]]:
        """Build `ModelNew` as the reference is built; returns a row for each entry of its state."""
        how, value = self.construction
        return process.construct(
            how, value, training=self.training, keeps_random_state=self.keeps_random_state
        )

    def construct_at_full_size(
        self, process: CandidateProcess, module: torch.nn.Module | None = None
    ) -> None:
        """Build `ModelNew` at the user's sizes; `module`: the reference there, with contents; else without them."""
        how, value = _construction(self.whole or self.problem, module or self.module_at_full_size)
        process.construct(
            how,
            value,
            training=self.training,
            keeps_random_state=self.keeps_random_state,
            empty=module is None,
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
        elsewhere = [str(row.get("name")) for row in rows if row.get("placed") is not True]
        elsewhere = sorted(set(elsewhere) - set(unplaced(self.oracle.module)))
        if elsewhere:
            raise Rejected(
                "state_mismatch",
                f"{', '.join(elsewhere)}: shown by state_dict, and no parameter or buffer of that name, so "
                f"that the original's weights would never reach it in the emitted module; register it under "
                f"its own name",
                {"elsewhere": elsewhere},
            )

    def executed_text(self, name: str) -> str | None:
        """The shrunk shapes of an input set, None when it ran as given."""
        for item in self.facts.input_sets:
            if item.name == name and item.executed is not None:
                shapes = (f"{t.name}: {t.dtype}{list(t.shape)}" for t in item.executed)
                return ", ".join(shapes)
        return None


def _construction(problem: LoadedProblem, module: torch.nn.Module) -> tuple[str, Any]:
    """`module`: the problem's at these sizes, which a candidate sees where the arguments cannot cross."""
    if problem.constructor == "from_reference":
        return "from_reference", shell.describe(module)
    return "init", problem.init_args()


def make_ready(
    device: JudgeDevice, fork_server: ForkServer, sandbox: SandboxChoice, scratch: Path
) -> tuple[Remark, ...]:
    """On a GPU: compile what all candidates need, and see that a confined kernel runs at all.

    Returns what a reader of the verdicts must know; raises `EnvironmentFault` when none can be given.
    """
    if device.kind != "cuda":
        return ()
    fork_server.triton_cache = compiled_helpers(fork_server, scratch)
    canary = ConfinedCanary(fork_server, device, scratch)
    result = examine(canary, sandboxed=sandbox != "off")
    remarks = [] if device.unmeasured is None else [Remark("not_measured", device.unmeasured)]
    without = require_kernel(result, required=sandbox == "require")
    if without:
        why = (
            f"in the whole sandbox no kernel runs here ({result.refused()}): candidates run without "
            f"{', '.join(without)}"
        )
        fork_server.go_on_without(without, why)
        remarks.append(Remark("weaker_sandbox", why))
    return tuple(remarks)


def _with_results(
    oracle: Oracle,
    sources: tuple[InputSource, ...],
) -> tuple[InputSource, ...]:
    """Those for which the reference returns anything; all where it returns nothing for any."""

    def returns_something(source: InputSource) -> bool:
        arguments = draw(source)
        if all(tensor.numel() for tensor in tensors_of(arguments)):
            return True
        return any(tensor.numel() for tensor in tensors_of(oracle.eager(arguments)))

    return tuple(filter(returns_something, sources)) or sources
