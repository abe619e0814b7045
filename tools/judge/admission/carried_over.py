"""What of the user's module stays around the kernels in the emitted file: its hooks, and a `__call__` of its own.

The emitted module puts kernels in the place of the forward alone, and everything else of the original runs
around them. A candidate is compared with a whole call of the original, so what a hook does to the answer
would be done twice there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.problem import Remark
from kernelagent.tools.calls.same_values import same_values
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.calls.training_step import FORWARD, GRADIENTS
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.steps.steps import full_step
from kernelagent.tools.judge.problem.trials.inputs import InputSource

_KINDS = {
    "_forward_pre_hooks": "a forward pre-hook",
    "_forward_hooks": "a forward hook",
    "_backward_pre_hooks": "a backward pre-hook",
    "_backward_hooks": "a backward hook",
}
_METHOD = "forward"
_REMEDY = "do in forward what it does, or leave it out of what is optimized and add it afterwards"


def carried_over(
    oracle: Oracle, sources: Sequence[InputSource], *, trains: bool
) -> tuple[Remark, ...]:
    """A remark where the emitted module would never use its kernels.

    Raises `ProblemError` where it would answer otherwise than the candidate that was verified.
    """
    module = oracle.module
    if _METHOD in vars(module):
        raise ProblemError(
            f"{_METHOD} of this {type(module).__name__} is set on the instance: the emitted file has the original's "
            f"class and puts kernels in the place of the forward of that; define it in the class"
        )
    around = _around(module)
    if around and not all(_same_within_itself(oracle, s.draw(1), trains=trains) for s in sources):
        raise ProblemError(
            f"{' and '.join(around)} of this {type(module).__name__} changes what a call does: the emitted file puts "
            f"kernels in the place of the forward alone, which a candidate would be verified with that in it, so that "
            f"it would be done twice; {_REMEDY}"
        )
    if trains:
        _require_no_hooks_on_gradients(module)
    inside = _hooks_inside(module)
    if not inside:
        return ()
    message = (
        f"{', '.join(inside)}: kernels would not run it, so the emitted module answers every call by your module "
        f"itself for as long as it is there"
    )
    return (Remark("original_answers", message),)


def _around(module: torch.nn.Module) -> list[str]:
    """What of its own runs around its forward."""
    own = type(module).__call__ is not torch.nn.Module.__call__
    hooks = [words for name, words in _KINDS.items() if vars(module)[name]]
    return [*(["the `__call__`"] if own else []), *hooks]


def _hooks_inside(module: torch.nn.Module) -> list[str]:
    return [
        f"{words} on {path}"
        for path, part in module.named_modules()
        if path
        for name, words in _KINDS.items()
        if vars(part)[name]
    ]


def _same_within_itself(oracle: Oracle, arguments: Arguments, *, trains: bool) -> bool:
    """Whether a call whose forward is a whole call does and leaves what a call does.

    That is what the emitted module is, with kernels that do all that a call of the original does.
    """
    asked = oracle
    if trains:
        generator = torch.Generator().manual_seed(1)
        asked = oracle.asking(full_step(oracle, arguments, generator, training=True))

    def tensors() -> list[torch.Tensor]:
        answer = asked.eager(arguments)
        told = [answer[FORWARD], answer[GRADIENTS]] if trains else answer
        return tensors_of((told, asked.state_after(arguments)))

    usual, again = tensors(), tensors()
    with _within_itself(oracle.module):
        other = tensors()
    if same_values(usual, again):
        return same_values(usual, other)
    # One that does not repeat itself bit for bit.
    pairs = zip(usual, other, strict=True)
    return len(usual) == len(other) and all(
        torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-5, equal_nan=True)
        for a, b in pairs
    )


@contextmanager
def _within_itself(module: torch.nn.Module) -> Iterator[None]:
    own = vars(module)

    def whole(*args: Any, **kwargs: Any) -> Any:
        del own[_METHOD]
        try:
            return module(*args, **kwargs)
        finally:
            own[_METHOD] = whole

    own[_METHOD] = whole
    try:
        yield
    finally:
        del own[_METHOD]


def _require_no_hooks_on_gradients(module: torch.nn.Module) -> None:
    """The emitted module trains the original's own parameters, whose hooks see the kernels' gradients."""
    for name, parameter in module.named_parameters():
        before: dict[int, Callable[[Any], Any]] = parameter._backward_hooks or {}
        if any(_changes_a_gradient(hook, parameter) for hook in before.values()):
            what = "changes its gradient"
        elif getattr(parameter, "_post_accumulate_grad_hooks", None):
            what = "runs once its gradient is there"
        else:
            continue
        raise ProblemError(
            f"--train: a hook on the parameter {name} {what}: the emitted module trains that very parameter, so "
            f"that kernels which were verified with it would have it done twice; {_REMEDY}"
        )


def _changes_a_gradient(hook: Callable[[Any], Any], parameter: torch.nn.Parameter) -> bool:
    given = torch.linspace(-1.0, 1.0, parameter.numel(), device=parameter.device)
    gradient = given.reshape(parameter.shape).to(parameter.dtype)
    pristine = gradient.clone()
    try:
        result = hook(gradient)
    except Exception:  # noqa: BLE001 - the user's own, outside of a backward
        return True
    return not torch.equal(gradient if result is None else result, pristine)
