"""The candidate's file: plain kernels, and a `ModelNew` that allocates, launches and returns."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from kernelagent.models.compiler.capturing.capture import Captured, PolicyCannot
from kernelagent.models.compiler.capturing.capture_step import Pair
from kernelagent.models.compiler.capturing.kept_weights import KEPT
from kernelagent.models.compiler.choices import Alternative, Choice, Config
from kernelagent.models.compiler.kernels.layout import folded
from kernelagent.models.compiler.kernels.naming import identifier, unique
from kernelagent.models.compiler.module.checks import CHECKS
from kernelagent.models.compiler.module.constructor import (
    NO_SHAPES,
    ORIGINAL,
    Shapes,
    arguments,
    signature,
    state_lines,
    training_matters,
    written_parameters,
)
from kernelagent.models.compiler.module.fixed_arguments import Fixed, refusal_lines
from kernelagent.models.compiler.module.host import (
    device_lines,
    empty,
    host_names,
    input_lines,
    place,
    results,
    whole_tensors,
    without_unread_sizes,
)
from kernelagent.models.compiler.module.kept_state import FIELD as KEPT_FIELD
from kernelagent.models.compiler.module.kept_state import kept_lines, kept_method
from kernelagent.models.compiler.module.kernel_writing import KernelWriter, bare
from kernelagent.models.compiler.module.limits import limit_lines, raising
from kernelagent.models.compiler.module.repeated_sizes import named_once
from kernelagent.models.compiler.module.spelling import Whole, spelled, torch_line
from kernelagent.models.compiler.module.step_function import BACKWARD, StepFunction, function_name
from kernelagent.models.compiler.program.algebra import factored
from kernelagent.models.compiler.program.calls import Call, by_module, dispatch, variables_of
from kernelagent.models.compiler.program.numbers import sizes_of
from kernelagent.models.compiler.program.program import (
    Allocate,
    Launch,
    Program,
    Size,
    parse_program,
)
from kernelagent.models.compiler.templates import Context, Site, sites_of
from kernelagent.models.compiler.templates.layouts import apart, unneeded
from kernelagent.models.compiler.templates.matmul.row_statistics import with_row_statistics
from kernelagent.tools.virtual.cost.ceilings import ceilings_for


@dataclass(frozen=True)
class Written:
    """A candidate's source and the configuration of each of its kernels."""

    source: str
    configs: dict[str, Config]
    kinds: dict[str, str]
    """`pointwise`, `reduction` or `persistent_reduction`, or a template's own, by kernel name."""
    alternatives: dict[str, tuple[Alternative, ...]] = field(default_factory=dict)
    """Other configurations of a template's kernels, by kernel name."""
    sites: dict[str, bool] = field(default_factory=dict)
    """What a template could take over, and whether it did."""
    remarks: tuple[str, ...] = ()
    """What each template does here, a sentence each."""


class Writer(KernelWriter):
    """Writes one candidate for a module; several input sets share its file."""

    def __init__(
        self,
        module: torch.nn.Module,
        constructor: str,
        choice: Choice,
        state: Shapes = NO_SHAPES,
        target: str = "sm_90",
        *,
        fixed: Sequence[Fixed] = (),
        train: bool = False,
    ) -> None:
        """`state`: the sizes of the module's state that its constructor's arguments decide.

        `target`: the GPU whose estimates choose between templates and torch's library. `fixed`: what the
        constructor must be given. `train`: whether the module is right in training mode, too.
        """
        super().__init__(type(module).__name__, choice)
        self._fixed = list(fixed)
        self._refused = not train and training_matters(module)
        self._module = module
        self._state = state
        self._constructor = constructor
        self._gpu = ceilings_for(target)
        self._alternatives: dict[str, tuple[Alternative, ...]] = {}
        self._sites: dict[str, bool] = {}
        self._remarks: list[str] = []
        self._functions: dict[str, str] = {}
        self._kept: list[str] = []

    def write(self, calls: Sequence[Call]) -> Written:
        """The whole file; raises `PolicyCannot`."""
        self._variables.update(*(variables_of(call) for call in calls))
        methods = [self._method(call, alone=len(calls) == 1) for call in calls]
        if not self._kernels:
            raise PolicyCannot(
                self._what,
                "the compiler leaves all of it to torch's own libraries, without a kernel",
            )
        forward = [] if len(calls) == 1 else [dispatch(self._module, calls)]
        extra = ["from triton.language.extra import libdevice"] if self._libdevice else []
        head = [
            "import torch",
            "import triton",
            "import triton.language as tl",
            "from torch import nn",
        ]
        if self._functions:
            head.append("from torch.autograd.function import once_differentiable")
        methods += self._kept
        made = [*methods, *self._functions.values()]
        parts = [
            "\n".join([*head, *extra]),
            *self._kernels.values(),
            *(text for name, text in CHECKS.items() if any(f"{name}(" in m for m in made)),
            *self._functions.values(),
            "\n\n".join(
                [self._class(), *(textwrap.indent(m, "    ") for m in [*forward, *methods])]
            ),
        ]
        source = "\n\n\n".join(parts) + "\n"
        return Written(
            source,
            self._configs,
            self._kinds,
            self._alternatives,
            self._sites,
            tuple(self._remarks),
        )

    def _class(self) -> str:
        lines = ["class ModelNew(nn.Module):", *self._about(), *self._constructor_lines()]
        return "\n".join(lines)

    def _about(self) -> list[str]:
        """The docstring."""
        gradients = "with its backward" if self._functions else "forward only: it has no gradient"
        return [
            f'    """`{self._what}` in Triton, {gradients}.',
            "",
            f"    Blocks, warps and stages are chosen for {self._gpu.name}.",
            '    """',
            "",
        ]

    def _constructor_lines(self) -> list[str]:
        parameters = ["self"]
        if self._constructor == "init":
            parameters += signature(type(self._module).__init__)
        elif self._state:
            parameters.append(ORIGINAL)
        lines = [f"    def __init__({', '.join(parameters)}):", "        super().__init__()"]
        state = state_lines(self._module, self._state)
        if any("torch.empty(" in line for line in state):
            state.insert(0, _UNINITIALISED)
        state += [KEPT_FIELD] if self._kept else []
        for line in [*refusal_lines(self._fixed), *state]:
            lines += textwrap.indent(folded(line), "        ").splitlines()
        if self._constructor != "init":
            lines += [
                "",
                "    @classmethod",
                f"    def from_reference(cls, {ORIGINAL}):",
                f"        return cls({ORIGINAL if self._state else ''})",
            ]
        return lines

    def _method(self, call: Call, *, alone: bool) -> str:
        name = "forward" if alone else f"_{identifier(call.name)}"
        head = [f"def {name}(self, {written_parameters(arguments(self._module))}):"]
        if isinstance(call.captured, Captured):
            self._sites |= {moved.key: moved.done for moved in call.captured.moved}
            self._remarks += [moved.words for moved in call.captured.moved if moved.done]
            body = self._body(call.captured, "" if alone else identifier(call.name))
        else:
            body = self._steps(call.captured, "" if alone else identifier(call.name))
        return folded("\n".join([*head, *(f"    {line}" for line in body)]))

    def _body(self, captured: Captured, name: str) -> list[str]:
        """The lines of a forward; `name`: of its input set, where there are several."""
        kept = []
        if captured.kept is not None:
            self._sites[KEPT] = captured.kept.program is not None
            if captured.kept.program is not None:
                self._remarks.append(captured.kept.words)
                program = captured.kept.program
                made = self._lines(program, of_weights=True)
                self._kept.append(folded(kept_method(program, made, name)))
                kept = kept_lines(captured, name)
        refused = raising("self.training", _EVAL_ONLY) if self._refused else []
        return [*refused, *self._lines(captured, kept)]

    def _lines(
        self, captured: Captured, kept: Sequence[str] = (), *, of_weights: bool = False
    ) -> list[str]:
        """What a program does, and that it returns its results; `kept`: the lines that get what the weights decide."""
        part = OF_WEIGHTS if of_weights else ""
        program = with_row_statistics(
            self._context(captured, parse_program(captured.source, self._what), part)
        )
        hosts = host_names(captured, program)
        return [
            *input_lines(captured, hosts),
            *device_lines(captured),
            *kept,
            *self._computed(captured, program, hosts, part),
            f"return {results(captured, program, hosts, apart(captured, program))}",
        ]

    def _computed(
        self, captured: Captured, program: Program, hosts: Mapping[str, str], part: str = ""
    ) -> list[str]:
        """The steps of a program; `part`: which program of the candidate it is, where there are several."""
        lines = limit_lines(captured, program, hosts)
        context = self._context(captured, program, part)
        full, small = context.sizes
        sites = self._used(context, part)
        starts = {site.at: site for site in sites}
        gone = unneeded(captured, program, sites)
        known = whole_tensors(captured, program, hosts)
        ending = "_backward" if part.endswith(BACKWARD) else ""
        names = _FileNames(self, hosts, known, ending)
        for at, step in enumerate(program.steps):
            for site in sites:
                lines += site.allocated(names) if site.begins == at else []
            if at in starts:
                lines += self._site(starts[at], names)
            elif at in gone:
                continue
            elif isinstance(step, Allocate):
                lines.append(f"{hosts[step.name]} = {empty(step, (full, small), hosts)}")
            elif isinstance(step, Size):
                name, value = hosts[step.name], factored(spelled(step.value, hosts))
                if name.isidentifier() and name != value and step.name not in captured.sizes.full:
                    lines.append(f"{name} = {value}")
            elif isinstance(step, Launch):
                lines += self._launch(program, step, hosts, full, ending=ending)
            else:
                lines += filter(None, [torch_line(step.statement, hosts, known)])
        named = {hosts[step.name] for step in program.steps if isinstance(step, Size)}
        returned = [spelled(result, hosts, known) for result in program.results]
        lines = without_unread_sizes(lines, named, returned)
        sizes = {hosts[symbol] for symbol in captured.sizes.full if symbol in hosts} | named
        return named_once(lines, {name for name in sizes if name.isidentifier()}, hosts.values())

    def _context(self, captured: Captured, program: Program, part: str) -> Context:
        """What templates may look at; `part`: which program it is, where there are several."""
        full, small = (
            sizes_of(program, symbols, self._what)
            for symbols in (captured.sizes.full, captured.sizes.small)
        )
        chosen = {
            key.removeprefix(part): taken
            for key, taken in self._choice.sites.items()
            if key.startswith(part)
        }
        return Context(captured, program, (full, small), self._gpu, self._what, chosen)

    def _steps(self, pairs: Mapping[bool, Pair], of: str) -> list[str]:
        """The body of a method that is trained: it calls a function of autograd, one for each flag."""
        trained, other = pairs[True], pairs[False]
        # A call with the other flag may come between a forward and its backward.
        written = {
            place(pair.values[at])
            for pair in pairs.values()
            for at in (*pair.overwritten, *pair.counters)
        }
        applied = self._applied(trained, of, written)
        if trained is other:
            return applied
        return [
            "if self.training:",
            *(f"    {line}" for line in applied),
            *self._applied(other, f"{of}_in_eval".strip("_"), written),
        ]

    def _applied(self, pair: Pair, of: str, written: Collection[str]) -> list[str]:
        """The checked call of the function that a pair is written as."""
        name = unique(function_name(self._what, of), self._functions)
        function = StepFunction(pair, self._what, self._computed, written)
        self._functions[name] = function.source(name, f"{of} " if of else "")
        return function.applied(name, by_module(pair))

    def _used(self, context: Context, part: str) -> list[Site]:
        """The sites that a template takes over: those that pay, and any where nothing else is a kernel."""
        sites = sites_of(context)
        steps = {at for at, step in enumerate(context.program.steps) if isinstance(step, Launch)}
        alone = not steps and not any(site.pays for site in sites)
        used = []
        for site in sites:
            key = f"{part}{site.key}"
            wanted = True
            if site.has_library_form:
                wanted = self._choice.sites.get(key, site.pays or alone)
                self._sites[key] = wanted
            if wanted:
                self._sites |= {f"{part}{key}": inside for key, inside in site.options.items()}
            self._remarks.append(_remark_on(site, wanted=wanted))
            used += [site] if wanted else []
        return used

    def _site(self, site: Site, names: _FileNames) -> list[str]:
        printed = site.printed(names)
        self._kernels.update(printed.kernels)
        self._configs[printed.name] = printed.config
        self._kinds[printed.name] = printed.kind
        self._alternatives[printed.name] = tuple(printed.alternatives)
        self._libdevice |= printed.uses_libdevice
        return list(printed.launch)


class _FileNames:
    """The names of the file that is written, for a template: see `templates.Namer`."""

    def __init__(self, writer: Writer, hosts: Mapping[str, str], known: Whole, ending: str) -> None:
        self._writer = writer
        self._ending = ending
        self._hosts = hosts
        self._known = known

    def host(self, node: ast.expr) -> str:
        return bare(spelled(node, self._hosts, self._known))

    def local(self, name: str) -> str:
        return unique(name, self._hosts.values())

    def kernel(self, text: str, wanted: str) -> str:
        # Of one launch several are named before any is written.
        named = self._writer._by_text.values()
        taken = {*self._writer._kernels, *self._writer._variables, *named}
        name = unique(f"{wanted}{self._ending}", taken)
        return self._writer._by_text.setdefault(text, name)

    def chosen(self, name: str) -> Config | None:
        return self._writer._choice.configs.get(name)


_UNINITIALISED = "# Uninitialised until the original's state_dict is loaded, whose keys these are."
OF_WEIGHTS = "of the weights "
"""How keys of sites begin in the program that the weights alone decide."""
_EVAL_ONLY = "these kernels are for eval mode alone: call .eval()"


def _remark_on(site: Site, *, wanted: bool) -> str:
    if not wanted:
        return f"torch's library does {site.words}"
    if site.pays:
        return site.words
    return f"{site.words}: slower than the library by this estimate, and for the judge to compare"
