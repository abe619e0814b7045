"""Compares a wrong output with known tensors: an input, an earlier output, the output without an operand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Any

import torch

from kernelagent.tools.calls.torch_dtypes import name_of
from kernelagent.tools.judge.problem.trials.one_trial import STATE
from kernelagent.tools.judge.problem.trials.probes import named_tensors
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.compare import Comparison, Failure
from kernelagent.tools.judge.verify.compare.ulps import ulps_between
from kernelagent.tools.judge.verify.diagnosis.diagnosis import Diagnosis, diagnose
from kernelagent.tools.judge.verify.diagnosis.gradients import spoken
from kernelagent.tools.judge.verify.rejection import Rejected

_KEPT = 12
"""Earlier answers that a stale one is looked for among."""
_LARGEST = 16 << 20
"""Bytes of an answer that is still kept."""
_MOST_OPERANDS = 16
_MOST_MATRICES = 4
_MOST_EXCHANGES = 6
_BLOCKS = (16, 32, 64, 128, 256, 512, 1024)
_LARGEST_MATRIX = 1 << 20
"""Each of them costs a call of the reference in float64, which is short only for small ones."""
_SCALES = frozenset({"weight", "scale", "gamma"})
_FEWEST_WRONG = 8
"""Wrong elements that tell a pattern; in a small output half of it do."""
_OLD_WEIGHTS = "the last change of the weights"


@dataclass
class Memory:
    """What the candidate answered and which weights it was given, up to now."""

    answers: deque[dict[str, torch.Tensor]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    weights: list[Mapping[str, torch.Tensor]] = field(default_factory=list)

    def keep(self, output: Any) -> None:
        """Remember an answer, unless it is large."""
        tensors = {n: t for n, t in compare.leaves(output) if isinstance(t, torch.Tensor)}
        if sum(t.numel() * t.element_size() for t in tensors.values()) <= _LARGEST:
            self.answers.append(tensors)

    def keep_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        self.weights.append(weights)


def explain(failure: Failure, trial: Trial, memory: Memory) -> Diagnosis:
    """The diagnosis of a wrong output of one call, with everything known about it."""
    inputs = dict(compare.leaves(trial.arguments, "argument"))
    return diagnose(
        failure,
        inputs={name: t for name, t in inputs.items() if isinstance(t, torch.Tensor)},
        without=dict(_without(failure, trial, memory)),
        instead=dict(_answers(failure, trial, _exchanged(memory))),
        shortened=_answers(failure, trial, _shortened(trial)),
        vectors=_vectors(trial, memory),
        previous=_repeated(failure, memory),
    )


def _repeated(failure: Failure, memory: Memory) -> torch.Tensor | None:
    """An earlier answer that this one is, or else the last one of the same shape."""
    alike = [
        tensor
        for answer in memory.answers
        if (tensor := answer.get(failure.output)) is not None
        and tensor.shape == failure.candidate.shape
    ]
    same = [tensor for tensor in alike if torch.equal(tensor, failure.candidate)]
    result = same or alike
    return result[-1] if result else None


def _without(failure: Failure, trial: Trial, memory: Memory) -> Iterator[tuple[str, torch.Tensor]]:
    """The reference's answers with one operand neutral, by that operand's name."""
    yield from _answers(failure, trial, _neutral(trial, memory))


def _exchanged(memory: Memory) -> Iterator[tuple[str, dict[str, torch.Tensor]]]:
    """Weights of one shape in each other's place, and square matrices that are read by the wrong stride."""
    weights = {
        STATE + name: tensor
        for name, tensor in (memory.weights[-1] if memory.weights else {}).items()
        if tensor.is_floating_point() and 1 < tensor.numel() <= _LARGEST_MATRIX
    }
    alike = ((a, b) for a, b in combinations(weights, 2) if weights[a].shape == weights[b].shape)
    for first, other in islice(alike, _MOST_EXCHANGES):
        words = f"{first} and {other} have changed places"
        yield words, {first: weights[other], other: weights[first]}
    square = (n for n, t in weights.items() if t.dim() == 2 and t.shape[0] == t.shape[1])
    for name in islice(square, _MOST_MATRICES):
        yield f"{name} is transposed", {name: weights[name].T.contiguous()}


def _shortened(trial: Trial) -> Iterator[tuple[str, dict[str, torch.Tensor]]]:
    """Arguments with zeros in their first or last place or block, as a loop that ends too early leaves them out."""
    for name, tensor in named_tensors(trial.arguments).items():
        if not tensor.is_floating_point() or tensor.numel() > _LARGEST_MATRIX:
            continue
        for dim, size in enumerate(tensor.shape):
            for first, last in _parts(size):
                shorter = tensor.clone()
                shorter.narrow(dim, first, last - first + 1).zero_()
                item = first == last
                places = f"place {first}" if item else f"places {first} to {last}"
                where = f"of the {size} along dimension {dim} of {_spoken(name)}"
                yield (
                    f"{places} {where} {'is' if item else 'are'} left out",
                    {name: shorter},
                )


def _parts(size: int) -> list[tuple[int, int]]:
    """First and last index of what is tried: one place, then the last and the first of blocks, each only once."""
    parts = [(size - 1, size - 1), (0, 0)]
    for block in (block for block in _BLOCKS if block < size):
        parts += [(size - (size % block or block), size - 1), (0, block - 1)]
    return list(dict.fromkeys(parts)) if size > 1 else []


def _answers(
    failure: Failure, trial: Trial, changed: Iterable[tuple[str, dict[str, torch.Tensor]]]
) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensors in changed:
        try:
            given = trial.reference(tensors)
        except REFUSALS:
            # A module that checks its inputs may refuse these: they explain nothing, and the refusal stands.
            continue
        answer = dict(compare.leaves(given)).get(failure.output)
        if not isinstance(answer, torch.Tensor) or answer.shape != failure.expected.shape:
            continue
        # An operand without effect on this output cannot explain the error.
        if not torch.equal(answer.to(failure.expected), failure.expected):
            yield name, answer


def _neutral(trial: Trial, memory: Memory) -> Iterator[tuple[str, dict[str, torch.Tensor]]]:
    if len(memory.weights) > 1:
        earlier = memory.weights[-2]
        yield _OLD_WEIGHTS, {STATE + name: tensor for name, tensor in earlier.items()}
    given = memory.weights[0] if memory.weights else {}
    names = list(given)
    for name in names[:_MOST_OPERANDS] if len(memory.weights) > 1 else ():
        yield name, {STATE + name: given[name]}
    yield from _neutral_weights(memory.weights[-1] if memory.weights else {})
    arguments = named_tensors(trial.arguments)
    for name, tensor in list(arguments.items())[:_MOST_OPERANDS]:
        if tensor.is_floating_point():
            yield _spoken(name), {name: torch.zeros_like(tensor)}
        elif tensor.dtype == torch.bool:
            yield _spoken(name), {name: torch.ones_like(tensor)}


def _neutral_weights(weights: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Biases and matrices as zeros, scales as ones: what a candidate forgets; the vectors first."""
    vectors = [(name, tensor) for name, tensor in weights.items() if _is_vector(tensor)]
    for name, tensor in vectors[:_MOST_OPERANDS]:
        scales = name.rpartition(".")[2] in _SCALES
        neutral = torch.ones_like(tensor) if scales else torch.zeros_like(tensor)
        yield STATE + name, {STATE + name: neutral}
    matrices = [(name, tensor) for name, tensor in weights.items() if _is_small_matrix(tensor)]
    for name, tensor in matrices[:_MOST_MATRICES]:
        yield STATE + name, {STATE + name: torch.zeros_like(tensor)}


def _is_vector(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.numel() == max(tensor.shape, default=1)


def _is_small_matrix(tensor: torch.Tensor) -> bool:
    return (
        tensor.is_floating_point()
        and not _is_vector(tensor)
        and 0 < tensor.numel() <= _LARGEST_MATRIX
    )


def _vectors(trial: Trial, memory: Memory) -> dict[str, torch.Tensor]:
    """Weights and arguments that have one element for each index of some dimension."""
    weights = memory.weights[-1] if memory.weights else {}
    known = {STATE + name: tensor for name, tensor in weights.items()}
    known |= {_spoken(name): tensor for name, tensor in named_tensors(trial.arguments).items()}
    return {name: tensor for name, tensor in known.items() if _is_vector(tensor)}


def _spoken(name: str) -> str:
    return name.replace("arguments[0]", "argument", 1).replace("arguments[1]", "argument", 1)


def refusal_of(comparison: Comparison, trial: Trial, memory: Memory) -> Rejected:
    """Why a result that was found wrong is refused, with all that can be said of it."""
    assert comparison.reason is not None
    reason, failure = comparison.reason, comparison.failure
    where = {"input_set": trial.input_set, "probe": trial.probe}
    if failure is None:
        return Rejected(reason.code, words_of(trial)(reason.message), {**reason.detail, **where})
    result = explain(failure, trial, memory)
    code = _CODE_OF_PATTERN.get(result.pattern or "", reason.code)
    if code == "wrong_output" and result.detail.get("share_wrong") == 1.0:
        # An output of NaN only may have been computed, or never written: keep the code of the comparison.
        code = reason.code
    share = result.detail.get("share_wrong", 1.0)
    if share < 0.5 and share * failure.candidate.numel() < _FEWEST_WRONG:
        # A handful of elements is like some other answer by chance.
        code = reason.code
    detail = {**reason.detail, **result.detail, **_in_ulps(failure), **where}
    if "output" in detail:
        detail["output"] = words_of(trial)(str(detail["output"]))
    return Rejected(code, words_of(trial)(result.sentence), detail)


def _in_ulps(failure: Failure) -> dict[str, Any]:
    """By how many units of the last place the element that decided is off, and of which type."""
    gate, got = failure.gate, failure.candidate
    if gate is None or gate.worst_index is None or got.is_complex():
        return {}
    here, right = got[gate.worst_index].item(), failure.expected[gate.worst_index].item()
    ulps = ulps_between(got.dtype, here, right)
    return {} if ulps is None else {"ulps": ulps, "dtype": name_of(got.dtype)}


def words_of(trial: Trial) -> Callable[[str], str]:
    """How the parts of an answer are called: as they are, or as those of a training step."""
    return str if trial.step is None else spoken


_CODE_OF_PATTERN = {
    "stale": "stale_output",
    "operand_ignored": "insensitive",
    "unwritten": "wrong_output",
    "computed_nan": "nonfinite",
}
"""Patterns that say more than the comparison's own code."""
