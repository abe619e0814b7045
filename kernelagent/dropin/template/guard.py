"""The last section of emitted modules, part 2: the guard, asked before each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from kernelagent.dropin.template.graph import _InGraph
    from kernelagent.dropin.template.inputs import (
        _ALIGNMENT,
        _PLAIN_TENSORS,
        _arguments_refusal,
        _digest,
        _looks,
        _set_refusal,
        _tensors_in,
        _with_digests,
    )
    from kernelagent.dropin.template.module import OutsideEnvelopeWarning, _bind
    from kernelagent.dropin.template.state import _is_default, _state_of, _state_refusal, _Watch

    ENVELOPE_VERIFIED: dict[str, Any] = {}


class _Guard:
    """Says of each call whether what was verified covers it; a refusal is `(reason, sentence)`."""

    def __init__(
        self,
        original: torch.nn.Module,
        fast: torch.nn.Module,
        described: dict[str, Any],
        layout: dict[str, Any],
    ) -> None:
        self.original = original
        self.fast = fast
        self.described = described
        self.layout = layout
        sets = ENVELOPE_VERIFIED["input_sets"]
        self.forms = {(len(item["args"]), frozenset(item.get("kwargs", {}))) for item in sets}
        self.positional = {count for count, names in self.forms if not names}
        self._covers_gradients = "train" in ENVELOPE_VERIFIED["modes"]
        self.compares_values = "'values':" in repr(sets)
        self._digests: dict[int, tuple[Any, int | None, str]] = {}
        self._device: torch.device | None = None
        self._index: int | None = None
        self._answers: dict[Any, tuple[str, str] | None] = {}
        self._warned: set[str] = set()
        self._is_accepted: Any = None
        self._needs_no_grad = True
        self._remembered: Any = None
        self.in_graph = _InGraph(self)
        self._look_at_state()

    def refusal(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str] | None:
        """None when the call is covered. A few microseconds for a call like the one before."""
        quiet = self._watch.is_quiet()
        if (
            quiet
            and len(args) == self._accepted_count
            and not kwargs
            and _forward_ad._current_level < 0
            and self._is_accepted(*args, *self._watch.tensors)
            and not (self._needs_no_grad and torch.is_grad_enabled())
            and (self._index is None or torch.cuda.current_device() == self._index)
        ):
            for tensor in args:
                if tensor.data_ptr() % _ALIGNMENT:
                    break
            else:
                return None
        return self._full_refusal(args, kwargs, quiet=quiet)

    def _full_refusal(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, quiet: bool
    ) -> tuple[str, str] | None:
        context = _context()
        if context is not None:
            return context
        if any(self._watch.hooks):
            return "hooks", "a hook on a submodule, or on all modules, would not run"
        if not (quiet and self._watch.has_same_storage()):
            self._look_at_state()
        if self._state_refusal is not None:
            return self._state_refusal
        if self._index is not None and torch.cuda.current_device() != self._index:
            return "device", f"the tensors are on {self._device}, not on the current device"
        seen = _looks((*args, *kwargs, *kwargs.values()) if kwargs else args)
        answer = self._answers.get(seen, _UNKNOWN)
        if answer is _UNKNOWN:
            answer = self._judge_arguments(args, kwargs, seen)
        if answer is None and not self._covers_gradients and torch.is_grad_enabled():
            answer = self._gradient_refusal(args, kwargs)
        if answer is None and self.compares_values:
            # Values do not show in torch's own guards: asked anew each time.
            return self._values_refusal(args, kwargs)
        if answer is None and not kwargs and self._remembered in (None, seen):
            self._remember(args, seen)
        return answer

    def _values_refusal(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[str, str] | None:
        """Whether tensors that held the same in every verified call hold it now."""
        for item in ENVELOPE_VERIFIED["input_sets"]:
            if _set_refusal(item, args, kwargs) is not None:
                continue
            pairs = [
                *_with_digests({"list": item["args"]}, args),
                *_with_digests({"dict": item.get("kwargs", {})}, kwargs),
            ]
            if all(self._holds(tensor, digest) for digest, tensor in pairs):
                return None
        return "values", "an argument holds other values than in every verified call"

    def _holds(self, tensor: torch.Tensor, digest: str) -> bool:
        """Hashed once for each tensor and version; in a graph capture nothing can be read."""
        import weakref

        version = None if tensor.is_inference() else tensor._version
        known = self._digests.get(id(tensor))
        if (
            known is not None
            and known[0]() is tensor
            and known[1] == version
            and version is not None
        ):
            return known[2] == digest
        if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
            return False
        if len(self._digests) >= _MOST_ANSWERS:
            self._digests.clear()
        made = _digest(tensor)
        self._digests[id(tensor)] = (weakref.ref(tensor), version, made)
        return made == digest

    def _remember(self, args: tuple[Any, ...], seen: Any) -> None:
        """Have the next call like this one recognised by torch's own guards, in one step.

        They compare type, dtype, device, sizes, strides, requires_grad and the dispatch keys in
        force, in which autocast, transforms, tracers and conjugation show.
        """
        if _TensorGuards is None:
            return
        tensors = (*args, *self._watch.tensors)
        if not args or not all(type(tensor) in _PLAIN_TENSORS for tensor in tensors):
            return
        guards = _TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        self._is_accepted = guards.check
        self._accepted_count = len(args)
        self._remembered = seen
        needs = any(tensor.requires_grad for tensor in tensors)
        self._needs_no_grad = needs and not self._covers_gradients

    def in_verified_form(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same call with by position and by name what was so when it was verified."""
        if (len(args), frozenset(kwargs)) in self.forms:
            return args, kwargs
        import inspect

        try:
            bound = inspect.signature(type(self.original).forward).bind(None, *args, **kwargs)
        except TypeError:
            return args, kwargs
        bound.apply_defaults()
        names = list(bound.signature.parameters)[1:]
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if any(bound.signature.parameters[name].kind in variable for name in names):
            return args, kwargs
        for count, named in self.forms:
            rest = set(names[count:]) - named
            if named <= set(names[count:]) and all(
                _is_default(bound.arguments[name], bound.signature.parameters[name].default)
                for name in rest
            ):
                by_position = tuple(bound.arguments[name] for name in names[:count])
                return by_position, {name: bound.arguments[name] for name in named}
        return args, kwargs

    def warn_once(self, refusal: tuple[str, str]) -> None:
        """Warn of each reason the first time it sends a call to the original forward."""
        import warnings

        reason, sentence = refusal
        if reason in self._warned:
            return
        self._warned.add(reason)
        warnings.warn(
            f"{type(self.original).__name__}: outside what was verified ({reason}): {sentence}. "
            f"The original forward runs instead. {_REMEDIES.get(reason, _USUAL_REMEDY)} This "
            f"reason is not reported again.",
            OutsideEnvelopeWarning,
            stacklevel=6,
        )

    def _look_at_state(self) -> None:
        self._watch = _Watch(self.original)
        self.in_graph.gather()
        self._forget()
        self._state_refusal = _state_refusal(self.original, self.described, self.layout)
        if self._state_refusal is None:
            state = _state_of(self.original)
            self.in_graph.bound = _bind(self.fast, self.original, state)
            self._follow(next((tensor.device for tensor in state.values()), self._device))
            # Where the flag means nothing to the original, `fast` keeps the one verified.
            training = self.original.training and self._covers_gradients
            if self.fast.training is not training:
                self.fast.train(training)

    def _forget(self) -> None:
        self._answers.clear()
        self._accepted_count = -1
        self._remembered = None

    def _judge_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any
    ) -> tuple[str, str] | None:
        answer = _arguments_refusal(args, kwargs)
        tensors = _tensors_in((args, kwargs))
        devices = {tensor.device for tensor in tensors} | {t.device for t in self._watch.tensors}
        if answer is None and len(devices) > 1:
            answer = "device", f"arguments and parameters are on {', '.join(map(str, devices))}"
        if answer is None and devices:
            self._follow(devices.pop())
        if any(tensor.is_complex() or not tensor.is_contiguous() for tensor in tensors):
            # Lazily conjugated or negated tensors look like any other: judged anew each time.
            return answer
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
        if seen is not None:
            self._answers[seen] = answer
        return answer

    def _gradient_refusal(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[str, str] | None:
        for tensor in self._watch.tensors:
            if tensor.requires_grad:
                return "gradient", "gradients are recorded and a parameter requires them"
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, torch.Tensor):
                if value.requires_grad:
                    return "gradient", "gradients are recorded and an input requires them"
            elif any(tensor.requires_grad for tensor in _tensors_in(value)):
                return "gradient", "gradients are recorded and an input requires them"
        return None

    def _follow(self, device: torch.device | None) -> None:
        """Move what belongs to `fast` alone (tables it made itself) to where the call happens."""
        if device is None or device == self._device:
            return
        self._device = device
        several = device.type == "cuda" and torch.cuda.device_count() > 1
        self._index = device.index if several else None
        self._forget()
        shared = {id(tensor) for tensor in _state_of(self.original).values()}
        for part in self.fast.modules():
            for holder in (part._parameters, part._buffers):
                for name, tensor in holder.items():
                    if tensor is not None and id(tensor) not in shared:
                        holder[name] = tensor.to(device)  # type: ignore[assignment]


def _context() -> tuple[str, str] | None:
    """What is in force around the call and would not reach into a kernel."""
    if _autocast_is_on():
        return "autocast", "autocast is enabled"
    if _innermost_transform() is not None:
        return "transform", "a torch.func transform such as vmap or grad is at work"
    if _forward_ad._current_level >= 0:
        return "transform", "forward-mode differentiation is at work"
    if _dispatch_modes() or _tracing_state() is not None:
        return "tracing", "a tracer or another dispatch mode is watching"
    return None


# Looked up once, because every call asks.
_autocast_is_on = torch._C._is_any_autocast_enabled
_innermost_transform = torch._C._functorch.peek_interpreter_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack
_tracing_state = torch._C._get_tracing_state
_forward_ad = torch.autograd.forward_ad
# torch's own comparison, in C++; where a version of torch has none, Python compares.
_TensorGuards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
_TensorGuards = getattr(_TensorGuards, "TensorGuards", None)
_MOST_ANSWERS = 256
_UNKNOWN = ("unknown", "")
_USUAL_REMEDY = "Optimize again with such a call among the inputs to have it covered."
_REMEDIES = {
    "gradient": "Call it under torch.no_grad(), or verify it with --train.",
    "mode": "Call .eval(), or verify it with --train.",
    "autocast": "Leave autocast for this call, or give the module the dtype itself.",
    "hooks": "Remove the hook, or keep the original for such calls.",
}
