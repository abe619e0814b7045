"""The inputs of each submodule, recorded by forward hooks while the user's whole model runs once."""

from __future__ import annotations

import copy
import difflib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import torch
from torch.utils._pytree import tree_leaves, tree_map

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import ProblemError
from kernelagent.tools.calls.result_form import foreign_container
from kernelagent.tools.judge.problem.bundle import save_bundle
from kernelagent.tools.judge.problem.devices import JudgeDevice, open_device
from kernelagent.tools.judge.problem.load import Arguments, LoadedProblem, load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.input_domain import fresh_like
from kernelagent.tools.judge.problem.trials.layouts import in_layout_of
from kernelagent.tools.judge.problem.trials.trials import fresh_seed
from kernelagent.tools.judge.whole_model.held import NotCopied, is_foreign, mapped, opened

_MOST_SETS = 4
_MOST_NEAR, _MOST_NAMED, _MOST_INSIDE = 3, 20, 3
_SMALL = 4096
"""Elements of a tensor in a cache whose values are kept: a counter or an index may decide what a call does."""


@dataclass
class Heard:
    """The calls of one submodule in one forward of the whole."""

    path: str
    calls: int = 0
    arguments: dict[str, Arguments] = field(default_factory=dict)
    """The first call of each form, by what the form looks like."""
    counts: dict[str, int] = field(default_factory=dict)
    """Calls by form."""
    names: dict[str, str] = field(default_factory=dict)
    """By form, the whole's input set in which it came first."""
    returns: str | None = None
    """The class of its result where that is another package's container."""
    uncopied: str | None = None
    """Why an object that it is called with could not be kept as it was before the call."""
    alike: set[str] = field(default_factory=set)
    """The forms without what foreign objects hold: a cache is fuller with every layer that has been called."""


@dataclass(frozen=True)
class Whole:
    """The user's whole model and its inputs, for inspecting its submodules; runs no candidate code."""

    problem: LoadedProblem
    device: JudgeDevice
    oracle: Oracle
    inputs: Mapping[str, Arguments]
    trains: bool = False
    """Whether its parts are to be replaced for training as well."""

    @classmethod
    def open(cls, settings: JudgeSettings) -> Whole:
        """Read the model and its inputs; raises `ProblemError` or `EnvironmentFault`."""
        device = open_device(settings.device, settings.target)
        with device.scope():
            problem = load_problem(settings.problem)
            oracle = Oracle(problem, device.torch_device, scope=device.scope)
            made = problem.input_sets()
        inputs = {k: _on(v, device.torch_device) for k, v in made.items()}
        return cls(problem, device, oracle, inputs, settings.mode == "train")

    @property
    def module(self) -> torch.nn.Module:
        return self.oracle.module

    def draw(self, name: str) -> Arguments:
        """Inputs of one input set: from the user's function, or the example tensors themselves."""
        with self.device.scope():
            return _on(self.problem.input_sets()[name], self.device.torch_device)

    def draw_like(self, name: str, fresh: Callable[[torch.Tensor], bool]) -> Arguments:
        """Inputs like those of `draw`: new values of the same kind in the tensors that are `fresh`, caches as they are."""
        generator = torch.Generator().manual_seed(fresh_seed())
        args, kwargs = mapped(
            self.draw(name),
            lambda tensor: fresh_like(tensor, generator) if fresh(tensor) else tensor,
            torch.clone,
        )
        return args, kwargs

    def listen(self, sets: Mapping[str, Arguments]) -> dict[str, Heard]:
        """Run the whole on each of these input sets; what each submodule was called with, by path."""
        heard: dict[str, Heard] = {}
        with _ears(self.module, heard):
            for name, arguments in sets.items():
                self.oracle.eager(arguments)
                for item in heard.values():
                    for form in item.arguments:
                        item.names.setdefault(form, name)
        return heard

    def submodule(self, path: str) -> torch.nn.Module:
        """Raises `ProblemError` for a path that leads nowhere."""
        try:
            result = self.module.get_submodule(path)
        except AttributeError as error:
            known = [name for name, _ in self.module.named_modules() if name]
            raise ProblemError(
                f"the model has no submodule {path!r} ({error}); {_there(path, known)}"
            ) from error
        if result is self.module:
            raise ProblemError("--submodule names a part of the model, not the whole")
        return result

    def capture(self, path: str, folder: Path) -> tuple[str, ...]:
        """Save the submodule, its weights and the inputs it really got, from all input sets, as a problem of its own.

        Returns the paths of other parts like it.
        """
        module = self.submodule(path)
        called = self.listen(self.inputs)
        heard = called.get(path)
        if heard is None:
            raise ProblemError(_not_called(module, path, called))
        forms = list(heard.arguments)[:_MOST_SETS]
        why = why_not(module, [heard.arguments[form] for form in forms], self.module)
        if why is not None:
            raise ProblemError(
                f"{path} cannot be optimized alone: {why}{self._such_as(path, called)}"
            )
        given = {}
        for at, form in enumerate(forms):
            args, kwargs = heard.arguments[form]
            name = heard.names[form]
            # A part may be called in several forms in one forward.
            given[name if name not in given else f"{name}_call{at}"] = {
                "args": args,
                "kwargs": kwargs,
            }
        _travel_by_value(module)
        save_bundle(folder, copy.deepcopy(module), given)
        family = self.family(heard)
        return tuple(p for p, h in called.items() if p != path and self.family(h) == family)

    def family(self, heard: Heard) -> str:
        """The same text for parts of one class with the same state, settings and calls."""
        module = self.submodule(heard.path)
        state = {name: (str(t.dtype), tuple(t.shape)) for name, t in module.state_dict().items()}
        return f"{type(module).__qualname__} {state} {sorted(heard.alike)} {module!r}"

    def _such_as(self, path: str, called: Mapping[str, Heard]) -> str:
        """Which parts inside it can be taken, as the end of a sentence; empty where there is none."""
        inside = [
            name
            for name, heard in called.items()
            if name.startswith(f"{path}.")
            and heard.returns is None
            and why_not(self.submodule(name), list(heard.arguments.values()), self.module) is None
        ]
        if not inside:
            return ""
        more = f" and {len(inside) - _MOST_INSIDE} more" if len(inside) > _MOST_INSIDE else ""
        return f"; inside it there are {', '.join(inside[:_MOST_INSIDE])}{more}"


def _there(path: str, known: Sequence[str]) -> str:
    """Which submodules there are: those of nearly this name first, never a name cut short."""
    if not known:
        return "it has none: leave --submodule out"
    # A path that lacks its beginning, as of the model that this one wraps, is near too.
    ends = [name for name in known if name.endswith(f".{path}")]
    near = list(dict.fromkeys([*ends, *difflib.get_close_matches(path, known, _MOST_NEAR)]))
    meant = f"did you mean {' or '.join(near[:_MOST_NEAR])}? " if near else ""
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    return f"{meant}there are: {', '.join(known[:_MOST_NAMED])}{more}"


def _not_called(module: torch.nn.Module, path: str, called: Mapping[str, Heard]) -> str:
    parts = [f"{path}.{name}" for name, _ in module.named_children() if f"{path}.{name}" in called]
    text = f"{path} is not called in a forward of the whole model"
    if isinstance(module, torch.nn.ModuleList | torch.nn.ModuleDict):
        text += f": it is a {type(module).__name__}, which only holds others"
    if parts:
        more = f" and {len(parts) - 8} more" if len(parts) > 8 else ""
        text += f"; name one of its parts: {', '.join(parts[:8])}{more}"
    return text


def why_not(
    module: torch.nn.Module, sets: list[Arguments], whole: torch.nn.Module | None = None
) -> str | None:
    """Why a submodule of `whole` cannot be judged by itself, and what to do instead; None when it can."""
    for arguments in sets:
        for leaf in tree_leaves(arguments):
            plain = leaf is None or isinstance(leaf, bool | int | float | str | torch.dtype)
            if not plain and type(leaf) not in (torch.Tensor, torch.nn.Parameter):
                return f"it is called with a {type(leaf).__name__}{_instead(module, leaf, whole)}"
        if not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(arguments)):
            return "it is called without a tensor"
    return None


def _instead(module: torch.nn.Module, leaf: Any, whole: torch.nn.Module | None) -> str:
    steps = []
    taken = () if whole is None else inspect.signature(whole.forward).parameters
    if "use_cache" in taken and "cache" in type(leaf).__name__.lower():
        steps.append("give use_cache=False among the model's inputs, so that it gets none")
    if any(True for _ in module.children()):
        steps.append("take a part inside it")
    return f": {', or '.join(steps)}" if steps else ""


def form_of(arguments: Any, *, inside: bool = True) -> str:
    """Types, shapes and strides of a call, as text; `inside`: of what objects of other classes hold as well."""

    def form(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return str(value.dtype), tuple(value.shape), tuple(value.stride())
        if not is_foreign(value):
            return repr(value)
        kind = type(value).__qualname__
        return (kind, form_of(opened(value).nest)) if inside else kind

    return str(tree_map(form, arguments))


@contextmanager
def _ears(module: torch.nn.Module, heard: dict[str, Heard]) -> Iterator[None]:
    names: dict[int, str] = {}
    handles = []
    for path, part in module.named_modules():
        names[id(part)] = path
        if path:
            handles.append(part.register_forward_pre_hook(_ear(path, heard), with_kwargs=True))
            handles.append(part.register_forward_hook(_ear_of_results(path, heard)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _ear(path: str, heard: dict[str, Heard]) -> Any:
    def hear(module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        item = heard.setdefault(path, Heard(path))
        item.calls += 1
        form = form_of((args, kwargs))
        item.alike.add(form_of((args, kwargs), inside=False))
        item.counts[form] = item.counts.get(form, 0) + 1
        if form not in item.arguments:
            try:
                item.arguments[form] = _detached((args, kwargs))
            except NotCopied as error:
                item.uncopied = str(error)
                item.arguments[form] = args, kwargs

    return hear


def _ear_of_results(path: str, heard: dict[str, Heard]) -> Any:
    def hear(module: torch.nn.Module, args: Any, result: Any) -> None:
        heard[path].returns = foreign_container(result)

    return hear


def _detached(arguments: Any) -> Arguments:
    """As it was before the call, which may write into a cache; of a cache's large tensors only the form is kept.

    Copies lie in memory as what the part got: its kernels are written for that.
    """

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        return in_layout_of(tensor.detach().clone(), tensor)

    args, kwargs = mapped(arguments, copied, _form_alone)
    return args, kwargs


def _form_alone(tensor: torch.Tensor) -> torch.Tensor:
    # A copy of the cache for each layer and step would fill the memory.
    kept = tensor.detach()
    return kept.clone() if tensor.numel() <= _SMALL else kept.to("meta")


def _on(arguments: Any, device: str) -> Arguments:
    args, kwargs = mapped(arguments, lambda tensor: in_layout_of(tensor.to(device), tensor))
    return args, kwargs


def _travel_by_value(module: torch.nn.Module) -> None:
    """Classes of the user's file have no name that another process could import them by."""
    for part in module.modules():
        home = sys.modules.get(type(part).__module__)
        if home is not None and type(part).__module__ == "kernelagent_problem":
            cloudpickle.register_pickle_by_value(home)
