"""Which training steps a candidate is judged on (`--train`): secret upstream gradients, several backwards.

A step is judged like a call: its outputs and every gradient go through the same gate, against the
same oracle. Upstream gradients come as training makes them: at random, expanded, transposed, and with
the structure of `upstreams`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.evaluation import Disclosure
from kernelagent.domain.probes import names_in
from kernelagent.tools.judge.problem.dynamic import Dynamic, hidden
from kernelagent.tools.judge.problem.inputs import InputSource, meta_twin
from kernelagent.tools.judge.problem.literals import NONE, Literals
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.oracle import Oracle
from kernelagent.tools.judge.problem.planted import patterned_weights, planted_weights
from kernelagent.tools.judge.problem.probes import REFUSALS, Dropped, perturbed_state
from kernelagent.tools.judge.problem.rounds import Round, Trial, in_rounds
from kernelagent.tools.judge.problem.step_probes import StepInputs, StepProbes
from kernelagent.tools.judge.problem.trials import (
    Plan,
    draw,
    fresh_seed,
    trial_on,
    with_an_answer,
)
from kernelagent.tools.judge.problem.upstreams import Output, laid_out, size_of, structured, turns
from kernelagent.tools.judge.verify import compare
from kernelagent.tools.judge.verify.gradients import spoken
from kernelagent.tools.tensors import tensors_of
from kernelagent.tools.training_step import (
    APART,
    GRADIENTS,
    Row,
    TrainingStep,
    apart_names,
    differentiable,
)

_WEIGHTS = ("given", "random", "random", "planted", "random", "patterned", "patterned")
STEPS_AT_THE_END: Plan = tuple(
    (weights, names_in(number, steps=True)) for number, weights in enumerate(_WEIGHTS)
)
"""The steps of a final judging, which see every kind of upstream gradient."""
STEPS_OF_A_TURN: Plan = STEPS_AT_THE_END[:4]
"""Weights, and the steps taken under them; natural ones in full, probes with a single backward."""
AT_OTHER_SIZES: Plan = STEPS_OF_A_TURN[:1]
"""The training steps that neighbouring input sets are tested with."""
_HIDDEN_SIZES_IN = 1
_SHAPES_OF_UPSTREAM = ("plain", "expanded", "transposed")
_FURTHER = 6
"""Structured upstream gradients of one step in full, beside the three."""
_FURTHER_BYTES = 64 << 20
"""They have to be held; of large outputs there are fewer."""
_ALONE = 2
"""Steps of a round with one structured upstream gradient and a single backward, as programs take them."""
_EVERYTHING = "everything"
_ASKED = (_EVERYTHING, "parameters", "inputs")
_TRIES = 8
_MANY = 1 << 62
WITH_BACKWARD = (
    Disclosure(
        "forward_and_backward",
        "the time is that of a forward with its backward, on both sides; of a forward alone no time is told",
    ),
)


@dataclass(frozen=True)
class Trained:
    """What has a gradient in the reference, found by asking it."""

    parameters: tuple[tuple[str, ...], ...]
    """Names of those that require gradients, tied ones together."""
    inputs: int
    """How many inputs are floating."""

    @property
    def has_inputs(self) -> bool:
        return self.inputs > 0

    @property
    def asked(self) -> tuple[str, ...]:
        """The selections that make sense here, everything first."""
        both = bool(self.parameters) and self.has_inputs
        return _ASKED if both else (_EVERYTHING,)

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
    """What may have a gradient: parameters that require one, and floating inputs."""
    groups: dict[int, list[str]] = {}
    for name, parameter in oracle.module.named_parameters(remove_duplicate=False):
        if parameter.requires_grad and parameter.is_floating_point():
            groups.setdefault(id(parameter), []).append(name)
    floating = [t for t in tensors_of(arguments) if t.is_floating_point()]
    return Trained(tuple(tuple(names) for names in groups.values()), len(floating))


def require_trainable(oracle: Oracle, sources: Sequence[InputSource]) -> None:
    """Raises `ProblemError` when gradients of this problem cannot be verified, with the reason."""
    generator = torch.Generator().manual_seed(1)
    for source in sources:
        arguments = source.draw(1)
        step = full_step(oracle, arguments, generator, training=True)
        asked = oracle.asking(step)
        item, two = asked.eager(arguments), asked.eager(arguments, going_on=True)
        for (where, left), (_, right) in zip(
            compare.leaves(item), compare.leaves(two), strict=True
        ):
            if isinstance(left, torch.Tensor) and not torch.allclose(
                left.double(), right.double(), rtol=1e-3, atol=1e-5, equal_nan=True
            ):
                raise ProblemError(
                    f"--train: in training mode the module does not give the same twice "
                    f"({spoken(where)}, set {source.name!r}), and randomness such as dropout "
                    f"cannot be compared; set its probability to 0, or leave --train out"
                )


@in_rounds
def training_rounds(
    oracle: Oracle,
    sources: tuple[InputSource, ...],
    dynamic: Mapping[str, tuple[Dynamic, ...]],
    *,
    constant: bool,
    plan: Plan = STEPS_OF_A_TURN,
    literals: Literals = NONE,
) -> Iterator[Trial | Round]:
    """The steps; each round leaves the oracle with its weights. `literals` as for `rounds`."""
    names = [name for name, _ in oracle.module.named_parameters(remove_duplicate=False)]
    kinds, patterns, of_weights = turns(), *(count(secrets.randbelow(_MANY)) for _ in range(2))
    for number, (kind, probes) in enumerate(plan):
        generator = torch.Generator().manual_seed(fresh_seed())
        weights: Mapping[str, torch.Tensor] = oracle.given_weights
        if kind != "given":
            weights = perturbed_state(oracle.given_weights, names, generator).tensors
        if kind == "planted":
            tried = planted_weights(oracle.given_weights, names, literals, generator)
            weights = with_an_answer(oracle, sources, tried, constant=constant)
        if kind == "patterned":
            tried = patterned_weights(oracle.given_weights, names, generator, next(of_weights))
            weights = with_an_answer(oracle, sources, tried, constant=constant)
        oracle.use_weights(weights)
        trials: list[Trial] = []
        dropped: list[Dropped] = []
        refused: list[str] = []
        for source in sources:
            for made in _of_source(
                oracle, source, probes, generator, number, kinds, patterns, constant=constant
            ):
                if isinstance(made, Trial):
                    trials.append(made)
                    yield made
                else:
                    dropped.append(made)
            if number == _HIDDEN_SIZES_IN:
                others = hidden(source, dynamic.get(source.name, ()), secrets.SystemRandom())
                for other in others:
                    at_size = _of_source(
                        oracle,
                        other,
                        ("natural",),
                        generator,
                        number,
                        kinds,
                        patterns,
                        constant=constant,
                    )
                    try:
                        trials += [replace(m, hidden=True) for m in at_size if isinstance(m, Trial)]
                    except REFUSALS:
                        # As a batch norm that trains refuses a batch of one.
                        refused.append(f"a training step with {other.name}")
        secrets.SystemRandom().shuffle(trials)
        if not number:
            # Of several backwards of one step can be said what is wrong with all of them.
            trials.sort(key=lambda t: t.step is None or len(t.step.upstream) < 2)
        yield Round(weights, tuple(trials), tuple(dropped), tuple(refused))


def _of_source(
    oracle: Oracle,
    source: InputSource,
    probes: tuple[str, ...],
    generator: torch.Generator,
    number: int,
    structures: Iterator[str],
    patterns: Iterator[int],
    *,
    constant: bool,
) -> Iterator[Trial | Dropped]:
    natural = draw(source, constant=constant)
    kinds = trained(oracle, natural)
    plain = _with_upstream(oracle, natural, kinds.step(_EVERYTHING, training=True), generator, 3)
    scale = compare.scales_of(oracle.asking(plain).in_float64_or_eager(natural))
    inputs = StepProbes(source, natural, generator, patterns, constant)
    for at, name in enumerate(probes):
        flag = secrets.choice((True, False)) if at else number % 2 == 0
        moved = None
        if name == "natural":
            arguments = draw(source, constant=constant)
            chosen = kinds.asked[number % len(kinds.asked)]
            step = _in_full(oracle, arguments, kinds.step(chosen, training=flag), generator)
            step = _with_further(oracle, arguments, step, generator, structures)
            step = replace(step, beside=draw(source, constant=constant))
        else:
            begun = kinds.step(_EVERYTHING, training=flag)
            step = _with_upstream(oracle, natural, begun, generator, 1)
            made = inputs.of(name, oracle.asking(step), _scaled(scale, step))
            if isinstance(made, Dropped):
                yield made
            if not isinstance(made, StepInputs):
                continue
            arguments, moved = made.arguments, made.moved
        flips = secrets.choice((True, False))
        step, sizes = replace(step, watched=True, flips=flips), _scaled(scale, step)
        trial = trial_on(oracle.asking(step), source.name, name, arguments, sizes, generator)
        yield replace(trial, step=step, compared=replace(trial.compared, moved=moved))
    for _ in range(_ALONE):
        arguments = draw(source, constant=constant)
        step = _alone(oracle, arguments, kinds, generator, structures)
        step, sizes = replace(step, watched=True), _scaled(scale, step)
        trial = trial_on(oracle.asking(step), source.name, "natural", arguments, sizes, generator)
        yield replace(trial, step=step)
    # Also the forward in training mode without gradients.
    arguments, without = draw(source, constant=constant), TrainingStep(training=True)
    trial = trial_on(oracle.asking(without), source.name, "natural", arguments, scale, generator)
    yield replace(trial, step=without)


def full_step(
    oracle: Oracle, arguments: Arguments, generator: torch.Generator, *, training: bool
) -> TrainingStep:
    """Gradients of everything, three backwards; raises `ProblemError` when nothing has a gradient."""
    begun = trained(oracle, arguments).step(_EVERYTHING, training=training)
    return _in_full(oracle, arguments, begun, generator)


def single_step(oracle: Oracle, arguments: Arguments, generator: torch.Generator) -> TrainingStep:
    """One forward and one backward for gradients of everything: what is counted and timed."""
    begun = trained(oracle, arguments).step(_EVERYTHING, training=True)
    return _with_upstream(oracle, arguments, begun, generator, 1)


def smaller_steps(
    oracle: Oracle, arguments: Arguments, generator: torch.Generator
) -> Iterator[tuple[str, TrainingStep]]:
    """The same for the gradients of the parameters alone, and of the inputs alone, where it has both."""
    kinds = trained(oracle, arguments)
    for chosen in kinds.asked[1:]:
        begun = kinds.step(chosen, training=True)
        if oracle.differentiable(arguments, begun):
            yield chosen, _with_upstream(oracle, arguments, begun, generator, 1)


def step_without_contents(oracle: Oracle, arguments: Arguments) -> TrainingStep:
    """The same for arguments that hold nothing: upstream gradients that hold nothing either."""
    begun = trained(oracle, arguments).step(_EVERYTHING, training=True)
    result = differentiable(meta_twin(oracle.module), arguments, begun)
    return replace(
        begun,
        outputs=tuple(result),
        upstream=(tuple(torch.empty_like(tensor) for tensor in result.values()),),
    )


def _in_full(
    oracle: Oracle, arguments: Arguments, begun: TrainingStep, generator: torch.Generator
) -> TrainingStep:
    step = _with_upstream(oracle, arguments, begun, generator, len(_SHAPES_OF_UPSTREAM))
    shapes = list(_SHAPES_OF_UPSTREAM)
    secrets.SystemRandom().shuffle(shapes)
    rows = zip(step.upstream, shapes, strict=True)
    return replace(
        step,
        upstream=tuple(
            tuple(None if g is None else _laid_out(g, shape) for g in row) for row, shape in rows
        ),
    )


def _with_further(
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
    return replace(step, upstream=(*step.upstream, *made))


def _alone(
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
        begun = kinds.step(_EVERYTHING, training=training)
    step = _with_upstream(oracle, arguments, begun, generator, 1)
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
    floating = [t for t in tensors_of(arguments) if t.is_floating_point()]
    if any(tensor.is_complex() for tensor in result.values()):
        return ()
    outputs = [
        Output(
            tensor,
            _drawn(tensor, generator),
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


def _scaled(scale: Mapping[str, float], step: TrainingStep) -> dict[str, float]:
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


def _with_upstream(
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


def _random_like(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if tensor.is_complex():
        parts = (torch.randn(tensor.shape, generator=generator) for _ in range(2))
        return torch.complex(*parts).to(device=tensor.device, dtype=tensor.dtype)
    return _drawn(tensor, generator).to(tensor.dtype)


def _drawn(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
    return drawn.to(device=tensor.device, dtype=wide)


def _laid_out(gradient: torch.Tensor, shape: str) -> torch.Tensor:
    """A gradient as `.sum()` sends it, or one that comes through a transposition."""
    if shape == "expanded" and gradient.numel() > 1:
        return gradient.reshape(-1)[:1].reshape([1] * gradient.dim()).expand(gradient.shape)
    return laid_out(gradient, shape) if shape == "transposed" else gradient
