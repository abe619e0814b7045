"""The reference as an oracle: computed once as the user gave it and once in float64.

`y64` is the module on the same, already rounded inputs and weights with every floating type raised
to float64, casts inside the module included; `e` is the module exactly as given (docs/how-verification-works.md).
"""

from __future__ import annotations

import contextlib
import copy
import gc
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.calls.memory_sharing import Watched
from kernelagent.tools.calls.result_form import Part, form_of
from kernelagent.tools.calls.surroundings import (
    Surroundings,
    as_asked,
    as_given,
    forward_in,
    in_its_thread,
    other_weights,
    settings_of,
)
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.calls.torch_dtypes import FLOAT_TYPES
from kernelagent.tools.calls.training_step import TrainingStep, differentiable, same_bytes, take
from kernelagent.tools.calls.whereabouts import Before, Whereabouts
from kernelagent.tools.calls.writes import Writes, exchanged, held_by
from kernelagent.tools.judge.problem.load import Arguments, LoadedProblem, users_traceback
from kernelagent.tools.judge.problem.memory_limit import is_lack_of_memory
from kernelagent.tools.judge.problem.reference.attributes import Attributes, left_under
from kernelagent.tools.judge.problem.reference.lowered_precision import as_allowed

Scope = Callable[[], AbstractContextManager[Any]]
_FLOATS = frozenset(FLOAT_TYPES)
_CASTS = {"float", "half", "bfloat16"}
INPUTS = ""
"""Stands for them among the names of what a call writes to."""
_NO_FLOAT64 = (RuntimeError, TypeError, NotImplementedError)
"""What torch raises for an operation without a float64 path."""


class InFloat64(TorchFunctionMode):
    """Raises every floating type asked for inside a module to float64, the usual one too."""

    def __enter__(self) -> Self:
        self._usual = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        return super().__enter__()  # type: ignore[no-untyped-call, no-any-return]

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        torch.set_default_dtype(self._usual)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        raised = tuple(_raised(arg) for arg in args)
        named = {key: _raised(value) for key, value in (kwargs or {}).items()}
        if getattr(func, "__name__", "") in _CASTS and args and isinstance(args[0], torch.Tensor):
            return args[0].double()
        return func(*raised, **named)


def _raised(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _FLOATS else value


def _doubled(value: Any) -> Any:
    floating = isinstance(value, torch.Tensor) and value.dtype in _FLOATS
    return value.to(torch.float64) if floating else value


@dataclass(frozen=True)
class Expected:
    """What the reference answers to one call."""

    output: Any
    """As the user gave it (`e`)."""
    output64: Any
    """In float64 (`y64`)."""
    arguments: Arguments
    """The inputs after the call: changed only where the reference changes them."""
    state: Mapping[str, torch.Tensor]
    """Parameters and buffers after the call."""
    state64: Mapping[str, torch.Tensor]
    """In float64, where it is floating: the entries that the call changes."""
    in_float64: bool = True
    """False: an operation has no float64 path, `output64` is a float32 run."""
    whereabouts: Whereabouts = field(default_factory=Whereabouts)
    """Which objects lie where after it, and in whose memory."""
    form: tuple[Part, ...] = ()
    """What the result is besides its values."""
    left: Mapping[str, Any] = field(default_factory=dict)
    """What the call leaves in attributes, other buffers and globals, by `attributes`' names."""
    left64: Mapping[str, Any] = field(default_factory=dict)
    """The same in float64; empty where there is no such run."""
    arguments64: Arguments | None = None
    """The inputs after the call in float64, where it has changed them."""
    written: frozenset[str] = frozenset()
    """Parameters and buffers that the call writes to, whatever they hold afterwards; `""`: inputs."""


@dataclass(frozen=True)
class _Exact:
    """What the float64 run returns and leaves behind."""

    output: Any
    state: dict[str, torch.Tensor]
    arguments: Arguments | None
    """None: it has not written to them."""
    left: dict[str, Any]


class Oracle:
    """Runs the user's module as the reference; weights can be replaced, and state is restored before each call."""

    def __init__(
        self, problem: LoadedProblem, device: str, scope: Scope, *, training: bool = False
    ) -> None:
        """`scope`: in it the user's code may name the device it was written for."""
        self._problem = problem
        self._scope = scope
        self._module = problem.build().to(device).train(training)
        self._given = _state(self._module)
        self._attributes = Attributes.of(self._module)
        self._weights: Mapping[str, torch.Tensor] = self._given
        self._step: TrainingStep | None = None
        # A set, which the copies of `asking` and `beside` share.
        self._lowered = set[str]()

    @property
    def rounds_convolutions(self) -> bool:
        """Whether a float32 convolution of a call so far was rounded to tf32, as torch's settings allow."""
        return bool(self._lowered)

    def beside(self) -> Oracle:
        """The same reference with weights in use of its own; one of the two is asked at a time."""
        return copy.copy(self)

    def asking(self, step: TrainingStep) -> Oracle:
        """The same reference and weights, answering with what a training step leaves."""
        other = copy.copy(self)
        other._step = step
        return other

    def differentiable(self, arguments: Arguments, step: TrainingStep) -> dict[int, torch.Tensor]:
        """Leaves of the output that have a gradient under `step`'s selection, by their place."""
        self._restore(self._module)
        with self._users_forward():
            return differentiable(self._module, _cloned(arguments), step)

    @property
    def module(self) -> torch.nn.Module:
        """With the attributes that it was built with."""
        self._attributes.restore(self._module)
        return self._module

    @property
    def attributes(self) -> Attributes:
        """What it held before any call, besides its state."""
        return self._attributes

    @property
    def weights(self) -> Mapping[str, torch.Tensor]:
        """The parameters and buffers every call starts from."""
        return self._weights

    @property
    def given_weights(self) -> Mapping[str, torch.Tensor]:
        return self._given

    def use_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        # Not copied: a forward works on the module's own tensors, never on these.
        self._weights = {name: tensor.detach() for name, tensor in weights.items()}

    def expect(self, arguments: Arguments) -> Expected:
        """Run both references; raises `ProblemError` with the user's own traceback."""
        self._restore(self._module)
        args, kwargs = _cloned(arguments)
        held = held_by(self._module)
        writes = Writes(held)
        before = Before((args, kwargs), self._module)
        returned = self._run(self._module, args, kwargs)
        written = frozenset(writes.since()) | exchanged(held, held_by(self._module))
        if _was_written(arguments, (args, kwargs)):
            written |= {INPUTS}
        whereabouts = Whereabouts()
        if self._step is None:
            whereabouts = before.after(returned, (args, kwargs), arguments)
        form = form_of(returned) if self._step is None else ()
        output = _copied(returned)
        state = self._state_after()
        changed = {name for name, tensor in state.items() if tensor is not self._weights.get(name)}
        left = self._attributes.changed(self._module)
        try:
            exact = self._in_float64(arguments, changed, left)
            return Expected(
                output,
                exact.output,
                (args, kwargs),
                state,
                exact.state,
                whereabouts=whereabouts,
                form=form,
                left=left,
                left64=exact.left,
                arguments64=exact.arguments,
                written=written,
            )
        except _NO_FLOAT64 as error:
            if is_lack_of_memory(error):
                raise
            doubled = tree_map(_doubled, output)
            return Expected(
                output,
                doubled,
                (args, kwargs),
                state,
                {name: _doubled(state[name]) for name in changed},
                False,
                whereabouts,
                form,
                left,
                written=written,
            )

    def keeps_results(self, arguments: Arguments) -> bool:
        """True when a result's memory lives on in the module once its caller has let go of it."""
        self._restore(self._module)
        result = [self._run(self._module, *_cloned(arguments))]
        memory = Watched(tensors_of(result))
        result.clear()
        gc.collect()
        return memory.alive

    def same_in(self, asked: Surroundings, arguments: Arguments) -> bool:
        """True when the reference answers the same, bit for bit, in these surroundings."""
        usual = self.eager(arguments)
        self._restore(self._module)
        args, kwargs = as_given(_cloned(arguments), replace(asked, inside="no"))

        def forward() -> Any:
            with self._scope(), self._as_allowed():
                if asked.another:
                    _call_another(self._module, *_cloned(arguments))
                return forward_in(as_asked(self._module, asked), args, kwargs, asked)

        try:
            with settings_of(asked):
                other = in_its_thread(asked, forward)
        except Exception:  # noqa: BLE001 - the user's module may refuse them in any way
            return False
        pairs = zip(tree_leaves(usual), tree_leaves(other), strict=True)
        return all(same_bits(a, b) for a, b in pairs if isinstance(a, torch.Tensor))

    def _state_after(self) -> dict[str, torch.Tensor]:
        """Copies of what the run has changed; the rest is the weights it began with."""
        after = {}
        for name, tensor in self._module.state_dict().items():
            before = self._weights.get(name)
            same = before is not None and same_bits(before, tensor)
            after[name] = before if same and before is not None else tensor.detach().clone()
        return after

    def eager(self, arguments: Arguments, *, going_on: bool = False) -> Any:
        """Only the run as given; `going_on`: with the attributes that the run before has left."""
        if going_on:
            self._module.load_state_dict(self._weights, strict=True)
        else:
            self._restore(self._module)
        args, kwargs = _cloned(arguments)
        return _copied(self._run(self._module, args, kwargs))

    def state_after(self, arguments: Arguments) -> dict[str, torch.Tensor]:
        """Parameters and buffers once the run as given has been made from those in use."""
        self._restore(self._module)
        args, kwargs = _cloned(arguments)
        self._run(self._module, args, kwargs)
        return self._state_after()

    def keeps_random_state(self, arguments: Arguments) -> bool:
        """True when a forward draws nothing from torch's random generator."""
        before = torch.get_rng_state()
        self.eager(arguments)
        return torch.equal(before, torch.get_rng_state())

    def same_in_train_mode(self, arguments: Arguments) -> bool:
        """True when train mode changes neither the answer nor the state, bit for bit, here."""
        usual = self.eager(arguments)
        before = _state(self._module)
        training = self._module.training
        self._module.train()
        try:
            other = self.eager(arguments)
        except ProblemError:
            return False
        finally:
            self._module.train(training)
        after = _state(self._module)
        same_state = all(torch.equal(before[name], after[name]) for name in before)
        pairs = zip(tree_leaves(usual), tree_leaves(other), strict=True)
        tensors = [(a, b) for a, b in pairs if isinstance(a, torch.Tensor)]
        return same_state and all(torch.equal(a, b) for a, b in tensors)

    def with_weights(self, weights: Mapping[str, torch.Tensor], arguments: Arguments) -> Any:
        """The float64 answer under other weights; those in use stay in use."""
        kept = self._weights
        self._weights = weights
        try:
            return self.in_float64_or_eager(arguments)
        finally:
            self._weights = kept

    def state_with_weights(
        self, weights: Mapping[str, torch.Tensor], arguments: Arguments, entries: Collection[str]
    ) -> dict[str, torch.Tensor]:
        """What the float64 run leaves in these entries of the state, under other weights."""
        kept = self._weights
        self._weights = weights
        try:
            return self._in_float64(arguments, entries).state
        finally:
            self._weights = kept

    def in_float64_or_eager(self, arguments: Arguments) -> Any:
        """The float64 run; the run as given where an operation has no float64 path."""
        try:
            return self._in_float64(arguments, frozenset()).output
        except _NO_FLOAT64 as error:
            if is_lack_of_memory(error):
                raise
            return tree_map(_doubled, self.eager(arguments))

    def _in_float64(
        self, arguments: Arguments, entries: Collection[str], names: Collection[str] = ()
    ) -> _Exact:
        """`entries`: of the state after it; `names`: of what else it leaves."""
        self._restore(self._module)
        doubled = tree_map(_doubled, _cloned(arguments))
        with self._scope(), InFloat64():
            module = copied_with(self._module, _doubled).double()
            answer = _copied(self._in_users_code(module, doubled))
            state = module.state_dict()
            left = {name: state[name].detach().clone() for name in entries}
            written = _detached(doubled) if _was_written(arguments, doubled) else None
            return _Exact(answer, left, written, left_under(module, names))

    def _run(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._users_forward(), self._as_allowed():
            return self._called(module, (args, kwargs))

    def _as_allowed(self) -> AbstractContextManager[Any]:
        return as_allowed(on_convolution=lambda: self._lowered.add("convolution"))

    @contextmanager
    def _users_forward(self) -> Iterator[None]:
        try:
            with self._scope():
                yield
        except Exception as error:
            if is_lack_of_memory(error):
                raise
            name = self._problem.entry_point
            if self._step is None:
                raise inputs_do_not_fit(name, error) from error
            message = f"--train: there is no forward and backward of {name}"
            raise ProblemError(f"{message}:\n{users_traceback(error)}") from error

    def _in_users_code(self, module: torch.nn.Module, doubled: Any) -> Any:
        """In float64; what is no lack of an operation for it is the module's own refusal."""
        try:
            return self._called(module, doubled, in_float64=True)
        except _NO_FLOAT64:
            raise
        except Exception as error:
            raise inputs_do_not_fit(self._problem.entry_point, error) from error

    def _called(
        self, module: torch.nn.Module, arguments: Arguments, *, in_float64: bool = False
    ) -> Any:
        if self._step is None:
            args, kwargs = arguments
            with torch.no_grad():
                return module(*args, **kwargs)
        value = self._step.as_value()
        return take(
            module,
            arguments,
            TrainingStep.from_value(tree_map(_doubled, value) if in_float64 else value),
        )

    def _restore(self, module: torch.nn.Module) -> None:
        self._attributes.restore(module)
        module.load_state_dict(self._weights, strict=True)


def _call_another(module: torch.nn.Module, args: Any, kwargs: Any) -> None:
    """Call a copy with other weights, whatever comes of it."""
    other = copy.deepcopy(module)
    other_weights(other)
    with contextlib.suppress(Exception), torch.no_grad():
        other(*args, **kwargs)


def inputs_do_not_fit(entry_point: str, error: Exception) -> ProblemError:
    """The sentence for example inputs that the reference refuses, with its own traceback."""
    return ProblemError(
        f"the inputs do not fit the forward of {entry_point}:\n{users_traceback(error)}"
    )


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def copied_with(
    module: torch.nn.Module, of: Callable[[torch.Tensor], torch.Tensor]
) -> torch.nn.Module:
    """A deep copy whose parameters and buffers are `of(tensor)`: they are never copied as they are."""
    memo: dict[int, Any] = {}
    for parameter in module.parameters():
        made = of(parameter.detach())
        if made is parameter or made.data_ptr() == parameter.data_ptr() != 0:
            made = made.clone()
        gradient = parameter.requires_grad and made.is_floating_point()
        memo[id(parameter)] = torch.nn.Parameter(made, requires_grad=gradient)
    for buffer in module.buffers():
        made = of(buffer.detach())
        memo[id(buffer)] = made.clone() if made.data_ptr() == buffer.data_ptr() != 0 else made
    return copy.deepcopy(module, memo)


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether both have the same shape, type and bits."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    # The type first: torch compares no float8 tensor with itself.
    if not left.is_floating_point() and torch.equal(left, right):
        return True
    return same_bytes(left, right)


def _copied(value: Any) -> Any:
    return tree_map(lambda v: _copy(v.detach()) if isinstance(v, torch.Tensor) else v, value)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Fresh memory with the same strides, those of a view with gaps too."""
    fresh = tensor.clone(memory_format=torch.preserve_format)
    if fresh.stride() == tensor.stride() or 0 in tensor.stride() or tensor.numel() == 0:
        return fresh
    return torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    ).copy_(tensor)


def _was_written(before: Arguments, after: Arguments) -> bool:
    """Whether tensors that were cloned for a call were written in it, or their containers changed."""
    (ours, outside), (theirs, inside) = tree_flatten(before), tree_flatten(after)
    return outside != inside or any(
        tensor._version > 0 if isinstance(tensor, torch.Tensor) else tensor is not given
        for given, tensor in zip(ours, theirs, strict=True)
    )


def _detached(arguments: Arguments) -> Arguments:
    args, kwargs = tree_map(lambda v: v.detach() if isinstance(v, torch.Tensor) else v, arguments)
    return args, kwargs


def _cloned(arguments: Arguments) -> Arguments:
    """Fresh memory with the same strides, so that a reference that writes its inputs is seen."""
    made: dict[int, torch.Tensor] = {}

    def clone(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        # One tensor that is given twice stays one.
        if id(value) not in made:
            fresh = value.detach().clone(memory_format=torch.preserve_format)
            fresh.requires_grad_(value.requires_grad and value.is_floating_point())
            made[id(value)] = fresh
        return made[id(value)]

    args, kwargs = tree_map(clone, arguments)
    return args, kwargs
