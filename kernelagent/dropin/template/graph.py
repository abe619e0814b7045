"""The last section of emitted modules, part 5: the guard's questions, asked in a compiled graph.

What this code reads while Dynamo traces it becomes a guard of the graph: another dtype, shape,
flag, attribute or submodule compiles anew, and the questions are asked again. What a graph cannot hold
(addresses, hooks) is asked once, when the graph is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from kernelagent.dropin.template.guard import _Guard
    from kernelagent.dropin.template.inputs import _arguments_refusal
    from kernelagent.dropin.template.state import _is_plain


class _InGraph:
    """What a graph's guards are made of, gathered before the first one is traced."""

    def __init__(self, guard: _Guard) -> None:
        self.guard = guard
        self.bound: list[tuple[dict[str, Any], dict[str, Any], str]] = []
        """Where the kernels' module holds a tensor of the original's in a dict of its own."""
        self.parts: list[tuple[torch.nn.Module, list[Any], list[Any]]] = []
        self.is_verified = _asked_once(self._is_verified)
        self.say = _asked_once(self._say)

    def gather(self) -> None:
        """Note what the module is made of now."""
        self.parts = [
            (
                part,
                [(n, v) for n, v in vars(part).items() if n == "training" or _is_read(n, v)],
                [(n, child) for n, child in part._modules.items() if child is not None],
            )
            for part in self.guard.original.modules()
        ]

    def _is_verified(self) -> bool:
        """Asked with real tensors while a graph is made; binds the kernels' module on the way."""
        guard = self.guard
        if not guard._watch.is_quiet() or not guard._watch.has_same_storage():
            guard._look_at_state()
        refusal = guard._state_refusal
        if refusal is None and any(guard._watch.hooks):
            refusal = "hooks", "a hook on a submodule, or on all modules, would not run"
        if refusal is None and torch._C._functorch.peek_interpreter_stack() is not None:
            refusal = "transform", "a torch.func transform such as vmap or grad is at work"
        if refusal is not None:
            guard.warn_once(refusal)
        return refusal is None

    def _say(self, reason: str, sentence: str) -> bool:
        self.guard.warn_once((reason, sentence))
        return True

    def takes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether the call has a verified form as it is."""
        return any(
            len(args) == count and set(kwargs) == set(names) for count, names in self.guard.forms
        )

    def unchanged(self) -> bool:
        """Whether each attribute, submodule and tensor is the one that was gathered."""
        for own, theirs, name in self.bound:
            if own[name] is not theirs[name]:
                return False
        for part, attributes, children in self.parts:
            for name, value in attributes:
                if getattr(part, name) != value:
                    return False
            for name, child in children:
                if getattr(part, name) is not child:
                    return False
        return True

    def refusal(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str] | None:
        """What the guard's own `refusal` says, as far as a graph can ask it."""
        if torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"):
            return "autocast", "autocast is enabled"
        if not self.guard._covers_gradients and torch.is_grad_enabled():
            for part, _, _ in self.parts:
                for parameter in part._parameters.values():
                    if parameter is not None and parameter.requires_grad:
                        return "gradient", "gradients are recorded and a parameter requires them"
            for value in (*args, *kwargs.values()):
                if isinstance(value, torch.Tensor) and value.requires_grad:
                    return "gradient", "gradients are recorded and an input requires them"
        if self.guard.compares_values:
            return "values", "what an argument holds is compared, which a graph cannot do"
        return _arguments_refusal(args, kwargs)


def _asked_once(function: Any) -> Any:
    """The function as Dynamo's constant: called while a graph is made, its answer kept in it."""

    def asked(*args: Any) -> Any:
        return function(*args)

    # What torch.compiler.assume_constant_result does, without the seconds that importing it takes.
    asked._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return asked


def _is_read(name: str, value: Any) -> bool:
    return not name.startswith("_") and _is_plain(value)
