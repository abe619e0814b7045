"""Under what a call is made: what a user's program may do around a module that answers the same.

The runner calls the candidate in them, the judge the reference where a candidate failed in them alone.
"""

from __future__ import annotations

import copy
import pickle
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch.utils._pytree import tree_map

from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.calls.loading import EXCHANGES, Loading, plain_weights
from kernelagent.tools.calls.torch_dtypes import widened
from kernelagent.tools.virtual.device.repeated_indices import WRITES

Result = TypeVar("Result")


Fresh = Literal["filled", "noted", "found", "kept"]
Inside = Literal["no", "16 bytes", "one element"]
Given = Literal["tensors", "parameters"]
_ALIGNED_BYTES = 16
"""What kernels are compiled for, and what copies of whole tiles need."""


@dataclass(frozen=True)
class Surroundings:
    """The usual ones: no gradients recorded, the main thread, the module itself."""

    gradients: Literal["off", "inference", "frozen"] = "off"
    """`frozen`: recorded, but no parameter requires one."""
    thread: bool = False
    """Called in a thread of its own."""
    deterministic: bool = True
    """torch.use_deterministic_algorithms, which also fills fresh memory."""
    toggled: bool = False
    """Put into train mode and back before the call."""
    module: Literal["itself", "copied", "pickled", "copied flatly"] = "itself"
    given: Given = "tensors"
    """`parameters`: floating inputs are nn.Parameters that require gradients, though none are recorded."""
    weights: Literal["parameters", "tensors"] = "parameters"
    """`tensors`: plain ones in their places, as torch.func.functional_call and hypernetworks put them."""
    memory: Fresh = "filled"
    """Contents of freshly allocated memory. `filled`: values that nothing may rely on. `noted`: the same, and what the
    call leaves there is saved. `found`: what an earlier call left there (saved under `noted`), as a GPU's allocator
    hands it out again. `kept`: both, for call after call."""
    inside: Inside = "no"
    """Inputs begin so far into larger memory, as parts of a batch or of a flat buffer do."""
    own_state: str = ""
    """A buffer of the module's own that is given in the place of the first input of its form."""
    another: bool = False
    """Another instance, with other weights, has been called just before with the same inputs."""

    @property
    def looked_at(self) -> bool:
        """What the call reads on the host and changes of its own is told: calls at the end of a round."""
        return self.memory in ("noted", "found")

    @property
    def by_identity(self) -> bool:
        """Nothing is another but what objects are: an error in it is told, where a wrong answer is refused."""
        return (
            self.given != "tensors" or self.weights == "tensors" or self.module == "copied flatly"
        )

    @property
    def described(self) -> str:
        """For the reader of a refusal."""
        parts = {
            "inference": "under torch.inference_mode()",
            "frozen": "with frozen weights (requires_grad_(False)) and gradients enabled",
            "copied": "on a copy.deepcopy of the module",
            "pickled": "on the module once it was pickled and loaded again",
            "copied flatly": "on a copy.copy of the module",
            "parameters": "with inputs that are nn.Parameters and require gradients",
            "tensors": "with plain tensors in the places of its parameters, as by torch.func.functional_call",
        }
        asked: list[str] = [self.gradients, self.module]
        asked += [self.given] if self.given == "parameters" else []
        asked += [self.weights] if self.weights == "tensors" else []
        texts = [parts[key] for key in asked if key in parts]
        texts += ["in another thread"] if self.thread else []
        texts += [] if self.deterministic else ["without torch.use_deterministic_algorithms"]
        if self.memory == "noted":
            texts.append("in a call whose fresh memory a later one gets again")
        if self.memory in ("found", "kept"):
            texts.append("in fresh memory that holds what an earlier call left there")
        if self.inside != "no":
            texts.append(f"with inputs that begin {self.inside} into larger tensors")
        texts += ["after train() and eval()"] if self.toggled else []
        texts += ["after a call of another instance with other weights"] if self.another else []
        return " and ".join(texts)


USUAL = Surroundings()
_VARIED = (
    Surroundings(gradients="frozen"),
    Surroundings(thread=True),
    Surroundings(deterministic=False),
    Surroundings(toggled=True),
    Surroundings(module="copied"),
    Surroundings(module="pickled"),
    Surroundings(module="copied flatly"),
    Surroundings(given="parameters"),
    Surroundings(weights="tensors"),
    Surroundings(another=True),
    Surroundings(another=True),
    Surroundings(inside="16 bytes"),
    Surroundings(gradients="frozen", thread=True, deterministic=False),
)
_LATE = Surroundings(gradients="inference")
"""Buffers that a module makes in inference mode can be written to nowhere else: so not in early calls."""
_LATE_FROM = 10
_ODD = Surroundings(inside="one element")
"""Triton compiles kernels anew for addresses that are not multiples of 16 bytes: in long judgings only."""
PLACES = (Surroundings(inside="16 bytes"), _ODD)
_ODD_FROM = 40
_FOR_THESE_ALONE = 0.5
"""How often a call that changes no state takes what only such calls can take: there are few of them."""
_SMALLER = 0.75
"""Another instance's weights are this many times those of the one that is judged, each moved by one element."""


class Deck:
    """Surroundings of the calls of one judging: each once, at places that nobody knows before."""

    def __init__(self, *, binds: bool = True) -> None:
        """`binds`: each entry of the state is a parameter or a buffer, which another can replace."""
        self._chance = random.SystemRandom()
        self._binds = binds
        self._left = [*_VARIED, *(USUAL for _ in _VARIED[:3])]
        self._chance.shuffle(self._left)
        self._calls = 0
        self._called = False
        """Whether the instance itself, with its own parameters, was the last to be called since its weights came."""
        self._loadings: list[Loading] = []

    def next(self, *, keeps_state: bool) -> Surroundings:
        """The surroundings of the next call; `keeps_state`: the call changes no state of the module.

        A call that does cannot be made on a copy, which would take the change with it, nor in inference mode,
        outside which a buffer replaced there cannot be written to. Another instance is called in between only where
        there is something of this one's to take: once it has been called with its weights.
        """
        self._calls += 1
        if self._calls == _LATE_FROM:
            self._left.append(_LATE)
        if self._calls == _ODD_FROM:
            self._left.append(_ODD)
        places = [*reversed(range(len(self._left)))]
        if keeps_state and self._chance.random() < _FOR_THESE_ALONE:
            places.sort(key=lambda at: _any_call_can(self._left[at]))
        for at in places:
            asked = self._left[at]
            if asked.another and not self._called:
                continue
            if keeps_state or _any_call_can(asked):
                return self._dealt(self._left.pop(at))
        return self._dealt(USUAL)

    def _dealt(self, asked: Surroundings) -> Surroundings:
        self._called = asked.weights == "parameters" and (self._called or asked.module == "itself")
        return asked

    def loading(self) -> Loading:
        """How the next weights come in: as usual at first, then in each way in turn."""
        self._called = False
        if not self._loadings:
            ways: list[Loading] = ["in place", "in a parent"]
            ways += EXCHANGES if self._binds else ()
            ways += ["load"] if self._calls else []
            self._chance.shuffle(ways)
            self._loadings = ways if self._calls else [*ways, "load"]
        return self._loadings.pop()


def _any_call_can(asked: Surroundings) -> bool:
    return asked.module == "itself" and asked.gradients != "inference"


@contextmanager
def settings_of(surroundings: Surroundings) -> Iterator[None]:
    """torch's settings, put back afterwards."""
    if surroundings.deterministic:
        yield
        return
    enabled = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    torch._C._set_deterministic_algorithms(False)
    try:
        with WRITES.turned():
            yield
    finally:
        torch._C._set_deterministic_algorithms(enabled, warn_only=warns)


def in_its_thread(surroundings: Surroundings, call: Callable[[], Result]) -> Result:
    """The call's result, or its exception, from a thread of its own where one is asked for."""
    if not surroundings.thread:
        return call()
    results: list[Result] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def as_asked(module: torch.nn.Module, surroundings: Surroundings) -> torch.nn.Module:
    """The module or a copy of it; raises whatever copying it raises."""
    if surroundings.module == "copied flatly":
        return copy.copy(module)
    if surroundings.module == "copied":
        return copy.deepcopy(module)
    if surroundings.module == "pickled":
        loaded: torch.nn.Module = pickle.loads(pickle.dumps(module))
        return loaded
    return module


def as_given(value: Any, asked: Surroundings) -> Any:
    """The same nest with tensors of the kind and in the place that are asked for."""
    placed = placed_inside(value, asked.inside)
    if asked.given == "tensors":
        return placed
    made: dict[int, torch.nn.Parameter] = {}

    def parameter(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not is_inexact(leaf):
            return leaf
        # One tensor that is given twice stays one.
        return made.setdefault(id(leaf), torch.nn.Parameter(leaf.detach()))

    return tree_map(parameter, placed)


def placed_inside(value: Any, inside: Inside) -> Any:
    """The same nest, its tensors so far into larger memory; one that is given twice stays one."""
    made: dict[int, Any] = {}

    def placed(leaf: Any) -> Any:
        if id(leaf) not in made:
            made[id(leaf)] = _placed(leaf, inside)
        return made[id(leaf)]

    return value if inside == "no" else tree_map(placed, value)


def _placed(leaf: Any, inside: Inside) -> Any:
    if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or not leaf.numel():
        return leaf
    if (
        isinstance(leaf, torch.nn.Parameter)
        or 0 in leaf.stride()
        or leaf.is_neg()
        or leaf.is_conj()
    ):
        return leaf
    size = leaf.element_size()
    begins = 1 if inside == "one element" else max(1, _ALIGNED_BYTES // size)
    steps = ((n - 1) * step for n, step in zip(leaf.shape, leaf.stride(), strict=True))
    count = 1 + sum(steps) + 2 * begins
    # All bits set: NaN, for who reads beyond the input.
    memory = torch.full((count * size,), 255, dtype=torch.uint8, device=leaf.device)
    whole = memory.view(leaf.dtype) if leaf.dtype != torch.bool else memory.bitwise_and_(1).bool()
    fresh = whole.as_strided(leaf.shape, leaf.stride(), begins)
    fresh.copy_(leaf.detach())
    return fresh.requires_grad_(leaf.requires_grad)


def other_weights(module: torch.nn.Module) -> None:
    """Exchange its parameters for others that suit it as well, at the same places."""
    suitable_others(module.parameters())


def suitable_others(parameters: Iterable[torch.Tensor]) -> None:
    """Write to each tensor its own elements in other places, and smaller ones."""
    with torch.no_grad():
        for tensor in parameters:
            if is_inexact(tensor) and tensor.numel():
                rolled = tensor.detach().reshape(-1).roll(1).reshape(tensor.shape)
                tensor.copy_(_SMALLER * widened(rolled))


def forward_in(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Surroundings
) -> Any:
    """One forward with gradients off, enabled over frozen weights, or in inference mode."""
    if asked.toggled:
        training = module.training
        module.train(not training)
        module.train(training)
    if asked.gradients == "inference":
        with torch.inference_mode():
            return module(*args, **kwargs)
    if asked.gradients == "off":
        exchanged = asked.weights == "tensors"
        with torch.no_grad(), plain_weights(module) if exchanged else nullcontext():
            return module(*args, **kwargs)
    with _frozen(module), torch.enable_grad():
        return module(*args, **kwargs)


@contextmanager
def _frozen(module: torch.nn.Module) -> Iterator[None]:
    required = [p for p in module.parameters() if p.requires_grad]
    for parameter in required:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in required:
            parameter.requires_grad_(True)
