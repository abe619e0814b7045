"""One training step: for which gradients it is taken, and the upstream gradients of its backwards."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.calls.backwards import APART, Row, apart_names
from kernelagent.tools.calls.complex_numbers import in_each_part, is_inexact
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.calls.training_step import GRADIENTS, TrainingStep, differentiable
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.steps.upstreams import (
    Output,
    laid_out,
    layouts_of,
    size_of,
    structured,
)
from kernelagent.tools.judge.problem.trials.interpreted_work import meta_twin

_SHAPES_OF_UPSTREAM = ("plain", "expanded", "strided")
_FURTHER = 6
"""Structured upstream gradients of one step in full, beside the three."""
_FURTHER_BYTES = 64 << 20
"""They have to be held; of large outputs there are fewer."""
EVERYTHING = "everything"
_ASKED = (EVERYTHING, "parameters", "inputs")
_TRIES = 8


@dataclass(frozen=True)
class Trained:
    """What has a gradient in the reference, found by asking it."""

    parameters: tuple[tuple[str, ...], ...]
    """Names of those that require gradients, tied ones together."""
    inputs: int
    """How many inputs are floating or complex."""

    @property
    def has_inputs(self) -> bool:
        return self.inputs > 0

    @property
    def asked(self) -> tuple[str, ...]:
        """The selections that make sense here, everything first."""
        both = bool(self.parameters) and self.has_inputs
        return _ASKED if both else (EVERYTHING,)

    def step(self, chosen: str, *, training: bool) -> TrainingStep:
        """A step without upstream gradients yet."""
        return TrainingStep(
            training=training,
            parameters=() if chosen == "inputs" else self.parameters,
            inputs=self.has_inputs and chosen != "parameters",
        )

    def _kinds(self) -> list[set[int]]:
        """Places of parameters whose names end alike, or begin alike."""
        result: dict[tuple[int, str], set[int]] = {}
        for at, names in enumerate(self.parameters):
            layer, _, kind = names[0].rpartition(".")
            result.setdefault((0, kind), set()).add(at)
            result.setdefault((1, layer), set()).add(at)
        return [kind for kind in result.values() if len(kind) < len(self.parameters) + self.inputs]

    def some(self, *, training: bool) -> TrainingStep:
        """A step for the gradients of any of them, drawn at random: one of them at least."""
        chance = secrets.SystemRandom()
        everything = [*range(len(self.parameters) + self.inputs)]
        chosen = {*chance.sample(everything, chance.randint(1, max(1, len(everything))))}
        kinds = self._kinds()
        if len(kinds) > 1 and chance.randrange(2):
            # As programs choose: all biases, one layer, everything but the inputs' or one kind.
            alike = chance.choice(kinds)
            chosen = alike if chance.randrange(3) else {*everything} - alike
        named = [n for at, n in enumerate(self.parameters) if at in chosen]
        left_out = [n for n in range(self.inputs) if n + len(self.parameters) not in chosen]
        return TrainingStep(
            training=training,
            parameters=tuple(named),
            inputs=len(left_out) < self.inputs,
            left_out=tuple(left_out),
        )


def trained(oracle: Oracle, arguments: Arguments) -> Trained:
    """What may have a gradient: parameters that require one, and floating and complex inputs."""
    floating = [t for t in tensors_of(arguments) if is_inexact(t)]
    return Trained(_floating_parameters(oracle, required=True), len(floating))


def _floating_parameters(oracle: Oracle, *, required: bool) -> tuple[tuple[str, ...], ...]:
    """Names of those that require gradients, or of those that do not, tied ones together."""
    groups: dict[int, list[str]] = {}
    for name, parameter in oracle.module.named_parameters(remove_duplicate=False):
        if parameter.requires_grad is required and is_inexact(parameter):
            groups.setdefault(id(parameter), []).append(name)
    return tuple(tuple(names) for names in groups.values())


def full_step(
    oracle: Oracle, arguments: Arguments, generator: torch.Generator, *, training: bool
) -> TrainingStep:
    """Gradients of everything, three backwards; raises `ProblemError` when nothing has a gradient."""
    begun = trained(oracle, arguments).step(EVERYTHING, training=training)
    return in_full(oracle, arguments, begun, generator)


def single_step(oracle: Oracle, arguments: Arguments, generator: torch.Generator) -> TrainingStep:
    """One forward and one backward for gradients of everything: what is counted and timed."""
    begun = trained(oracle, arguments).step(EVERYTHING, training=True)
    return with_upstream(oracle, arguments, begun, generator, 1)


def thawed_step(
    oracle: Oracle, arguments: Arguments, generator: torch.Generator
) -> tuple[tuple[str, ...], TrainingStep] | None:
    """The same where the parameters that are frozen require gradients as well, with their names; None without any."""
    known = trained(oracle, arguments)
    frozen = _floating_parameters(oracle, required=False)
    if not frozen:
        return None
    begun = replace(known, parameters=(*known.parameters, *frozen)).step(EVERYTHING, training=True)
    names = tuple(group[0] for group in frozen)
    return names, with_upstream(oracle, arguments, begun, generator, 1)


def smaller_steps(
    oracle: Oracle, arguments: Arguments, generator: torch.Generator
) -> Iterator[tuple[str, TrainingStep]]:
    """The same for the gradients of the parameters alone, and of the inputs alone, where it has both."""
    kinds = trained(oracle, arguments)
    for chosen in kinds.asked[1:]:
        begun = kinds.step(chosen, training=True)
        if oracle.differentiable(arguments, begun):
            yield chosen, with_upstream(oracle, arguments, begun, generator, 1)


def step_without_contents(oracle: Oracle, arguments: Arguments) -> TrainingStep:
    """The same for arguments that hold nothing: upstream gradients that hold nothing either."""
    begun = trained(oracle, arguments).step(EVERYTHING, training=True)
    result = differentiable(meta_twin(oracle.module), arguments, begun)
    return replace(
        begun,
        outputs=tuple(result),
        upstream=(tuple(torch.empty_like(tensor) for tensor in result.values()),),
    )


def in_full(
    oracle: Oracle, arguments: Arguments, begun: TrainingStep, generator: torch.Generator
) -> TrainingStep:
    step = with_upstream(oracle, arguments, begun, generator, len(_SHAPES_OF_UPSTREAM))
    shapes = list(_SHAPES_OF_UPSTREAM)
    secrets.SystemRandom().shuffle(shapes)
    rows = zip(step.upstream, shapes, strict=True)
    return replace(
        step,
        upstream=tuple(
            tuple(None if g is None else _laid_out(g, shape) for g in row) for row, shape in rows
        ),
    )


def with_further(
    oracle: Oracle,
    arguments: Arguments,
    step: TrainingStep,
    generator: torch.Generator,
    structures: Iterator[str],
) -> TrainingStep:
    """The same with structured upstream gradients as well."""
    size = sum(g.numel() * g.element_size() for g in step.upstream[0] if g is not None)
    count = min(_FURTHER, _FURTHER_BYTES // max(1, size))
    made = _structured(oracle, arguments, step, generator, structures, count)
    # Of every second one in turn (`training_step._backwards`), so that one tensor comes twice in a row.
    again = made[:1] if len(made) > 1 else ()
    return replace(step, upstream=(*step.upstream, *made[:2], *again, *made[2:]))


def step_alone(
    oracle: Oracle,
    arguments: Arguments,
    kinds: Trained,
    generator: torch.Generator,
    structures: Iterator[str],
) -> TrainingStep:
    """One structured upstream gradient, for the gradients of some or of everything."""
    training = secrets.choice((True, False))
    begun = kinds.some(training=training)
    if not oracle.differentiable(arguments, begun):
        begun = kinds.step(EVERYTHING, training=training)
    step = with_upstream(oracle, arguments, begun, generator, 1)
    made = _structured(oracle, arguments, step, generator, structures, 1)
    return replace(step, upstream=(made or step.upstream)[:1])


def _structured(
    oracle: Oracle,
    arguments: Arguments,
    step: TrainingStep,
    generator: torch.Generator,
    structures: Iterator[str],
    count: int,
) -> tuple[Row, ...]:
    result = oracle.differentiable(arguments, step)
    floating = [t for t in tensors_of(arguments) if is_inexact(t)]
    outputs = [
        Output(
            tensor,
            _random_like(tensor, generator, wide=True),
            tuple(t for t in floating if t.shape == tensor.shape),
        )
        for tensor in result.values()
    ]
    rows: list[Row] = []
    for _ in range(count * _TRIES):
        if len(rows) == count:
            break
        made = structured(next(structures), outputs, generator)
        rows += [] if made is None else [made]
    return tuple(rows)


def scaled(scale: Mapping[str, float], step: TrainingStep) -> dict[str, float]:
    """The usual size of each gradient for these upstream gradients, in which it is linear."""
    result = dict(scale)
    names = (APART,) if len(step.upstream) == 1 else apart_names(len(step.upstream))
    rows = step.upstream if len(step.upstream) == 1 else step.upstream[3:]
    for name, row in zip(names, rows, strict=True):
        factor = size_of(row)
        result |= {
            key.replace(f"['{APART}']", f"['{name}']", 1): value * factor
            for key, value in scale.items()
            if f"['{GRADIENTS}']['{APART}']" in key
        }
    return result


def with_upstream(
    oracle: Oracle,
    arguments: Arguments,
    begun: TrainingStep,
    generator: torch.Generator,
    count: int,
) -> TrainingStep:
    result = oracle.differentiable(arguments, begun)
    if not result:
        raise ProblemError(
            "--train: nothing the forward returns has a gradient with respect to a parameter or "
            "a floating input; leave --train out"
        )
    rows = (tuple(_random_like(t, generator) for t in result.values()) for _ in range(count))
    return replace(begun, outputs=tuple(result), upstream=tuple(rows))


def _random_like(
    tensor: torch.Tensor, generator: torch.Generator, *, wide: bool = False
) -> torch.Tensor:
    """In its type, or `wide`: as exact as float32 at least."""
    made = in_each_part(lambda part: _drawn(part, generator), tensor)
    return made if wide else made.to(tensor.dtype)


def _drawn(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
    return drawn.to(device=tensor.device, dtype=wide)


def _laid_out(gradient: torch.Tensor, shape: str) -> torch.Tensor:
    """A gradient as `.sum()` sends it, or one that comes through a transposition, a stack or a slice."""
    if shape == "expanded" and gradient.numel() > 1:
        return gradient.reshape(-1)[:1].reshape([1] * gradient.dim()).expand(gradient.shape)
    layouts = layouts_of(gradient) if shape == "strided" else []
    return laid_out(gradient, secrets.choice(layouts)) if layouts else gradient
