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
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.calls.memory_sharing import Watched
from kernelagent.tools.calls.own_state import with_own_state
from kernelagent.tools.calls.result_form import form_of
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
from kernelagent.tools.calls.training_step import Packed, TrainingStep, differentiable, take
from kernelagent.tools.calls.whereabouts import Before, Whereabouts
from kernelagent.tools.calls.writes import Writes, exchanged, held_by
from kernelagent.tools.judge.problem.load import Arguments, LoadedProblem, users_traceback
from kernelagent.tools.judge.problem.memory_limit import is_lack_of_memory
from kernelagent.tools.judge.problem.reference.attributes import Attributes, left_under
from kernelagent.tools.judge.problem.reference.copies import (
    cloned,
    copied,
    copied_with,
    detached,
    same_bits,
    state_of,
    was_written,
)
from kernelagent.tools.judge.problem.reference.expected import INPUTS, Expected
from kernelagent.tools.judge.problem.reference.in_float64 import (
    NO_FLOAT64,
    InFloat64,
    double,
    doubled_once,
    typed_as,
)
from kernelagent.tools.judge.problem.reference.lowered_precision import (
    as_allowed,
    convolutions_among,
)
from kernelagent.tools.judge.problem.state_entries import require_same_entries
from kernelagent.tools.virtual.device.repeated_indices import WRITES

Scope = Callable[[], AbstractContextManager[Any]]


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
        self._given = state_of(self._module)
        self._attributes = Attributes.of(self._module)
        self._weights: Mapping[str, torch.Tensor] = self._given
        self._step: TrainingStep | None = None
        self._own_state = ""
        # Which the copies of `asking` and `beside` share.
        self._lowered = dict[str, float]()
        self.may_pack: tuple[Packed, ...] = ()
        """How what is saved for a backward may come back, so that its gradients are the same."""
        self.may_be_called_between = False
        """Whether they are the same where it is called with the other flag before the backward: torch's own batch norms
        read their running statistics as they are then."""

    @property
    def lowered(self) -> Mapping[str, float]:
        """Which operations of the calls so far rounded float32 factors as torch's settings allow (`as_allowed`).

        More are added as further calls are made.
        """
        return self._lowered

    @property
    def rounds_convolutions(self) -> bool:
        """Whether a float32 convolution of a call so far was rounded to tf32, as torch's settings allow."""
        return convolutions_among(self._lowered)

    def beside(self) -> Oracle:
        """The same reference with weights in use of its own; one of the two is asked at a time."""
        return copy.copy(self)

    def asking(self, step: TrainingStep) -> Oracle:
        """The same reference and weights, answering with what a training step leaves."""
        other = copy.copy(self)
        other._step = step
        return other

    def given_its_own(self, entry: str) -> Oracle:
        """The same, with this buffer of the module's own in the place of the first input of its form; "": none."""
        other = copy.copy(self)
        other._own_state = entry
        return other

    def differentiable(self, arguments: Arguments, step: TrainingStep) -> dict[int, torch.Tensor]:
        """Leaves of the output that have a gradient under `step`'s selection, by their place."""
        self._restore(self._module)
        with self._users_forward():
            return differentiable(self._module, cloned(arguments), step)

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
        args, kwargs = cloned(arguments)
        held = held_by(self._module)
        writes = Writes(held)
        before = Before((args, kwargs), self._module)
        returned = self._run(self._module, args, kwargs)
        written = frozenset(writes.since()) | exchanged(held, held_by(self._module))
        if was_written(arguments, (args, kwargs)):
            written |= {INPUTS}
        whereabouts = Whereabouts()
        if self._step is None:
            whereabouts = before.after(returned, (args, kwargs), arguments)
        form = form_of(returned) if self._step is None else ()
        output = copied(returned)
        state = self._state_after()
        changed = {name for name, tensor in state.items() if tensor is not self._weights.get(name)}
        # Batch norms count their statistics on in place, of which torch's versions tell nothing.
        written |= changed
        left = self._attributes.changed(self._module)
        try:
            exact = self._in_float64(arguments, changed, left, also_moved=True)
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
        except NO_FLOAT64 as error:
            if is_lack_of_memory(error):
                raise
            doubled = tree_map(double, output)
            return Expected(
                output,
                doubled,
                (args, kwargs),
                state,
                {name: double(state[name]) for name in changed},
                False,
                whereabouts,
                form,
                left,
                written=written,
            )

    def keeps_results(self, arguments: Arguments) -> bool:
        """True when a result's memory lives on in the module once its caller has let go of it."""
        self._restore(self._module)
        result = [self._run(self._module, *cloned(arguments))]
        memory = Watched(tensors_of(result))
        result.clear()
        gc.collect()
        return memory.alive

    def same_in(self, asked: Surroundings, arguments: Arguments) -> bool:
        """True when the reference answers the same, bit for bit, in these surroundings."""
        usual = self.eager(arguments)
        self._restore(self._module)
        args, kwargs = as_given(cloned(arguments), replace(asked, inside="no"))

        def forward() -> Any:
            with self._scope(), self._as_allowed():
                if asked.another:
                    _call_another(self._module, *cloned(arguments))
                return forward_in(as_asked(self._module, asked), args, kwargs, asked)

        try:
            with settings_of(asked):
                other = in_its_thread(asked, forward)
        except Exception:  # noqa: BLE001 - the user's module may refuse them in any way
            return False
        pairs = zip(tree_leaves(usual), tree_leaves(other), strict=True)
        return all(same_bits(a, b) for a, b in pairs if isinstance(a, torch.Tensor))

    def writes_by_index(self, arguments: Arguments) -> bool:
        """Whether the run as given makes any of the writes by index whose order torch leaves open."""
        before = WRITES.seen
        self.eager(arguments)
        return WRITES.seen > before

    def order_of_writes_shows(self, arguments: Arguments) -> bool:
        """True when two of torch's writes by index go to one place and which comes last is to be seen afterwards.

        Such an answer is undefined: on a GPU either may come last.
        """
        before = WRITES.seen
        usual = self.all_it_leaves(arguments)
        if WRITES.seen == before:
            return False
        with WRITES.turned():
            other = self.all_it_leaves(arguments)
        pairs = zip(tree_leaves(usual), tree_leaves(other), strict=True)
        return not all(same_bits(a, b) for a, b in pairs if isinstance(a, torch.Tensor))

    def all_it_leaves(self, arguments: Arguments) -> Any:
        """The result of the run as given, the arguments after it, and the state."""
        self._restore(self._module)
        args, kwargs = cloned(arguments)
        output = copied(self._run(self._module, args, kwargs))
        return output, detached((args, kwargs)), self._state_after()

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
        args, kwargs = cloned(arguments)
        return copied(self._run(self._module, args, kwargs))

    def state_after_refusal(self, arguments: Arguments) -> dict[str, torch.Tensor] | None:
        """Parameters and buffers once it has refused these; None where it does not."""
        self._restore(self._module)
        args, kwargs = cloned(arguments)
        try:
            self._run(self._module, args, kwargs)
        except ProblemError:
            return self._state_after()
        return None

    def state_after(self, arguments: Arguments) -> dict[str, torch.Tensor]:
        """Parameters and buffers once the run as given has been made from those in use."""
        self._restore(self._module)
        args, kwargs = cloned(arguments)
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
        before = state_of(self._module)
        training = self._module.training
        self._module.train()
        try:
            other = self.eager(arguments)
        except ProblemError:
            return False
        finally:
            self._module.train(training)
        after = state_of(self._module)
        same_state = all(torch.equal(before[name], after[name]) for name in before)
        pairs = zip(tree_leaves(usual), tree_leaves(other), strict=True)
        tensors = [(a, b) for a, b in pairs if isinstance(a, torch.Tensor)]
        return same_state and all(torch.equal(a, b) for a, b in tensors)

    def with_weights(
        self,
        weights: Mapping[str, torch.Tensor],
        arguments: Arguments,
        natural: Arguments | None = None,
    ) -> Any:
        """The float64 answer under other weights; those in use stay in use. `natural`: arguments of the types given."""
        kept = self._weights
        self._weights = weights
        try:
            return self.in_float64_or_eager(arguments, natural)
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

    def in_float64_or_eager(self, arguments: Arguments, natural: Arguments | None = None) -> Any:
        """The float64 run; the run as given where an operation has no float64 path.

        `natural`: arguments of the types that such a run is given, where `arguments` have others.
        """
        try:
            return self._in_float64(arguments, frozenset()).output
        except NO_FLOAT64 as error:
            if is_lack_of_memory(error):
                raise
            given = arguments if natural is None else typed_as(arguments, natural)
            return tree_map(double, self.eager(given))

    def _in_float64(
        self,
        arguments: Arguments,
        entries: Collection[str],
        names: Collection[str] = (),
        *,
        also_moved: bool = False,
    ) -> _Exact:
        """`entries`: of the state after it; `names`: of what else it leaves.

        `also_moved`: buffers that it moves, too. Statistics that have come close move by less than the last place of the
        type they are kept in, so that eager leaves them as they were.
        """
        self._restore(self._module)
        doubled = doubled_once(cloned(arguments))
        with self._scope(), InFloat64():
            module = copied_with(self._module, double).double()
            answer = copied(self._in_users_code(module, doubled))
            state = module.state_dict()
            moved = self._moved_buffers(module) if also_moved else ()
            left = {name: state[name].detach().clone() for name in {*entries, *moved}}
            written = detached(doubled) if was_written(arguments, doubled) else None
            return _Exact(answer, left, written, left_under(module, names))

    def _moved_buffers(self, module: torch.nn.Module) -> Iterator[str]:
        """Those of the module in float64 that its call moves by less than a unit of the type they are kept in."""
        for name, after in module.named_buffers(remove_duplicate=False):
            before = self._weights.get(name)
            plain = after.layout == torch.strided and is_inexact(after) and after.numel() > 0
            if before is None or not plain:
                continue
            was = double(before)
            same = (after == was) | (was.isnan() & after.isnan())
            if bool(same.all()):
                continue
            unit = torch.finfo(before.real.dtype).eps * was.abs()
            if bool((same | ((after - was).abs() <= unit)).all()):
                yield name

    def _run(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._users_forward(), self._as_allowed():
            result = self._called(module, (args, kwargs))
        require_same_entries(module, self._given, self._problem.entry_point)
        return result

    def _as_allowed(self) -> AbstractContextManager[Any]:
        return as_allowed(self._lowered)

    @contextmanager
    def _users_forward(self) -> Iterator[None]:
        try:
            with self._scope():
                yield
        except Exception as error:  # the user's forward raises anything
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
        except NO_FLOAT64:
            raise
        except Exception as error:  # the user's forward raises anything
            raise inputs_do_not_fit(self._problem.entry_point, error) from error

    def _called(
        self, module: torch.nn.Module, arguments: Arguments, *, in_float64: bool = False
    ) -> Any:
        if self._step is None:
            args, kwargs = with_own_state(module, arguments, self._own_state)
            with torch.no_grad():
                return module(*args, **kwargs)
        value = self._step.as_value()
        return take(
            module,
            arguments,
            TrainingStep.from_value(tree_map(double, value) if in_float64 else value),
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
