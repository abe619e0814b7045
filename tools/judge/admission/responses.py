"""Whether the reference's answer follows an input or a weight, and whether the gate would see that it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.calls.torch_dtypes import widened
from kernelagent.tools.judge.admission.mutants import Checked, Outputs, Reference, floating
from kernelagent.tools.judge.problem.trials.input_domain import fresh_like, observe, standard_normal
from kernelagent.tools.judge.verify.compare.compare import leaves
from kernelagent.tools.judge.verify.compare.gate import unit_roundoff

Response = Literal["none", "faint", "clear"]
"""`none`: the answer stays as it is, even for values far from those given. `faint`: the gate takes the answer to other
values of the kind and size given for the right one."""
REFUSALS = (ProblemError, RuntimeError, ValueError, IndexError, ArithmeticError, AssertionError)
"""What a reference may raise for values it was not given."""
EXACT = 2.0**-36
"""Less, in units of the largest, is what float64 rounds."""
_CLEAR = 100.0
"""In units of eager's own error: whatever moves so much is refused."""
_FACTOR = 64.0
_DRAWS = 2
"""Of the same kind: the values of a tensor of one element can come out near those given."""


def response(
    name: str,
    cases: Callable[[], Iterable[Checked]],
    reference: Reference,
    generator: torch.Generator,
    refused: Callable[[Outputs, Checked], bool],
) -> Response:
    """How the answer to any of the cases follows the tensor `name`."""
    moves = False
    for case in cases():
        for other in _of_its_kind(case.tensors[name], generator):
            found = _moved(name, other, case, reference, refused)
            if found == "clear":
                return "clear"
            moves |= found == "faint"
    if moves or any(
        _moved(name, other, case, reference, refused) != "none"
        for case in cases()
        for other in _far_away(case.tensors[name], generator)
    ):
        return "faint"
    return "none"


def _moved(
    name: str,
    other: torch.Tensor,
    case: Checked,
    reference: Reference,
    refused: Callable[[Outputs, Checked], bool],
) -> Response:
    try:
        answer = reference({**case.tensors, name: other})
    except REFUSALS:
        return "clear"
    eager = floating(case.expected.eager)
    exact = dict(leaves(case.expected.oracle64))
    moved: dict[str, torch.Tensor] = {}
    for output, value in leaves(answer):
        if output not in eager:
            if not equal(value, exact[output]):
                return "clear"
            continue
        right = case.outputs[output]
        if value.shape != right.shape or not torch.equal(value.isfinite(), right.isfinite()):
            return "clear"
        if _rms(value - right) >= _CLEAR * _own_error(eager[output], right):
            return "clear"
        if not identical(value, right):
            moved[output] = value
    if not moved:
        return "none"
    return "clear" if refused(moved, case) else "faint"


def identical(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal up to float64 rounding: the change does not change the result on this case."""
    near = (left - right).abs() <= EXACT * torch.nan_to_num(right).abs().amax()
    return bool((near | (left == right) | (left.isnan() & right.isnan())).all())


def equal(left: object, right: object) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return torch.equal(left, right)
    return bool(left == right)


def _of_its_kind(tensor: torch.Tensor, generator: torch.Generator) -> Iterator[torch.Tensor]:
    for _ in range(_DRAWS):
        yield _another(tensor, generator)


def _far_away(tensor: torch.Tensor, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Values of the same signs that are much larger, and for signed ones such as are of no kind given."""
    if not tensor.is_floating_point() or observe(tensor).kind not in ("real", "positive"):
        return
    wide = widened(tensor.detach())
    yield (wide * _FACTOR).to(tensor.dtype)
    if observe(tensor).kind == "real":
        yield (wide + standard_normal(wide, generator)).to(tensor.dtype)


def _another(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    changed = _drawn(tensor, generator)
    if tensor.is_floating_point() and torch.equal(changed, tensor):
        # A state begins as zeros and does not stay so: with other zeros nothing would be asked.
        return (widened(changed) + standard_normal(changed, generator)).to(tensor.dtype)
    return changed


def _drawn(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    fresh = fresh_like(tensor, generator).detach()
    if observe(tensor).kind in ("real", "positive"):
        # Signs stay, sizes change by factors: enough for an argument that only scales.
        return (widened(fresh) * standard_normal(fresh, generator).exp()).to(tensor.dtype)
    return tensor.detach().roll(1, -1) if torch.equal(fresh, tensor) else fresh


def _own_error(eager: torch.Tensor, right: torch.Tensor) -> float:
    own = _rms(eager.to(right.dtype) - right)
    rounding = unit_roundoff(eager.dtype) * _rms(right) / 2
    return max(own, rounding, torch.finfo(torch.float64).tiny)


def _rms(values: torch.Tensor) -> float:
    finite = values[values.isfinite()].abs()
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0
