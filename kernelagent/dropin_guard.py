"""The last section of emitted modules, part 2: whether state and context are the verified ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from kernelagent.dropin import OutsideEnvelopeWarning, _bind
    from kernelagent.dropin_inputs import (
        _PLAIN_TENSORS,
        _arguments_refusal,
        _looks,
        _same_layout,
        _spelled,
        _storage_refusal,
        _tensors_in,
    )

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
        self.forms = {(len(one["args"]), frozenset(one.get("kwargs", {}))) for one in sets}
        self.positional = {count for count, names in self.forms if not names}
        self._covers_gradients = "train" in ENVELOPE_VERIFIED["modes"]
        self._device: torch.device | None = None
        self._index: int | None = None
        self._answers: dict[Any, tuple[str, str] | None] = {}
        self._warned: set[str] = set()
        self._look_at_state()

    def refusal(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str] | None:
        """None when the call is covered. A few microseconds unless something changed."""
        context = _context()
        if context is not None:
            return context
        if not self._watch.unchanged():
            self._look_at_state()
        if self._state_refusal is not None:
            return self._state_refusal
        if any(self._watch.hooks):
            return "hooks", "a submodule has a hook, which the fused forward would not run"
        if self._index is not None and torch.cuda.current_device() != self._index:
            return "device", f"the tensors are on {self._device}, not on the current device"
        seen = _looks((*args, *kwargs, *kwargs.values()) if kwargs else args)
        answer = self._answers.get(seen, _UNKNOWN)
        if answer is _UNKNOWN:
            answer = self._judge_arguments(args, kwargs, seen)
        if answer is None and not self._covers_gradients and torch.is_grad_enabled():
            return self._gradient_refusal(args, kwargs)
        return answer

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
        self._answers.clear()
        self._state_refusal = _state_refusal(self.original, self.described, self.layout)
        if self._state_refusal is None:
            state = _state_of(self.original)
            _bind(self.fast, self.original, state)
            self._follow(next((tensor.device for tensor in state.values()), self._device))
            if self.fast.training is not self.original.training:
                self.fast.train(self.original.training)

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
        self._answers.clear()
        shared = {id(tensor) for tensor in _state_of(self.original).values()}
        for part in self.fast.modules():
            for holder in (part._parameters, part._buffers):
                for name, tensor in holder.items():
                    if tensor is not None and id(tensor) not in shared:
                        holder[name] = tensor.to(device)  # type: ignore[assignment]


class _Watch:
    """Notices in about two microseconds that the state is not the one last looked at."""

    def __init__(self, module: torch.nn.Module) -> None:
        import operator

        parts = list(module.modules())
        held = [vars(p)[n] for p in parts for n in ("_parameters", "_buffers", "_modules")]
        self._same = operator.is_
        self._empty = tuple(holder for holder in held if not holder)
        self._held = [(holder, tuple(holder.values())) for holder in held if holder]
        self._settings = []
        for part in parts:
            attributes = vars(part)
            # "training" is among the names too: with two at least, a tuple comes back.
            names = [name for name in attributes if _is_plain(attributes[name])]
            pick = operator.itemgetter("training", *names)
            self._settings.append((attributes, pick, _copied(pick(attributes))))
        self.tensors = tuple(t for t in _state_of(module).values() if type(t) in _PLAIN_TENSORS)
        self._dtypes = [tensor.dtype for tensor in self.tensors]
        self._addresses = [tensor.data_ptr() for tensor in self.tensors]
        modules = torch.nn.modules.module
        self.hooks = (
            *(vars(part)[name] for part in parts[1:] for name in _HOOKS),
            modules._global_forward_hooks,
            modules._global_forward_pre_hooks,
        )

    def unchanged(self) -> bool:
        if any(self._empty):
            return False
        for holder, seen in self._held:
            if len(holder) != len(seen) or not all(map(self._same, holder.values(), seen)):
                return False
        try:
            for attributes, pick, values in self._settings:
                if pick(attributes) != values:
                    return False
        except KeyError:
            return False
        # `.half()` and `.to()` keep the parameter and exchange what is behind it.
        return [tensor.dtype for tensor in self.tensors] == self._dtypes and [
            tensor.data_ptr() for tensor in self.tensors
        ] == self._addresses


def _state_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and persistent buffers under the names of the state dict, tied ones repeated."""
    found: dict[str, torch.Tensor] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        lasting = {
            n: b for n, b in part._buffers.items() if n not in part._non_persistent_buffers_set
        }
        for name, tensor in (*part._parameters.items(), *lasting.items()):
            if tensor is not None:
                found[f"{path}.{name}" if path else name] = tensor
    return found


def _described(module: torch.nn.Module) -> dict[str, Any]:
    """Class and plain attributes of every part: what `ModelNew` took over when it was built."""
    return {
        path: (
            type(part).__qualname__,
            {
                name: _spelled(value)
                for name, value in vars(part).items()
                if name not in _INTERNAL and _is_plain(value)
            },
        )
        for path, part in module.named_modules(remove_duplicate=False)
    }


def _state_refusal(
    original: torch.nn.Module, described: dict[str, Any], layout: dict[str, tuple[int, ...]]
) -> tuple[str, str] | None:
    changed = _description_refusal(_described(original), described)
    if changed is not None:
        return changed
    flags = {part.training for part in original.modules()}
    modes = ENVELOPE_VERIFIED["modes"]
    independent = ENVELOPE_VERIFIED.get("mode_independent", False)
    if not independent and not flags <= {mode == "train" for mode in modes}:
        return "mode", f"the module or a part of it is not in {' or '.join(modes)} mode"
    state, devices = _state_of(original), set()
    for name, facts in ENVELOPE_VERIFIED["state"].items():
        tensor = state.get(name)
        if tensor is None or tuple(tensor.shape) != tuple(facts["shape"]):
            return "structure", f"{name} is gone or has another shape than {facts['shape']}"
        refusal = _storage_refusal(name, tensor, facts["dtype"])
        if refusal is not None:
            return refusal
        if not _same_layout(tensor.shape, tensor.stride(), layout[name]):
            return "strides", f"{name} has strides {tensor.stride()}, verified: {layout[name]}"
        devices.add(tensor.device)
    if len(devices) > 1:
        return "device", f"the parameters are on {', '.join(sorted(map(str, devices)))}"
    return None


def _description_refusal(now: dict[str, Any], described: dict[str, Any]) -> tuple[str, str] | None:
    classes = {path: kind for path, (kind, _) in now.items()}
    if classes != {path: kind for path, (kind, _) in described.items()}:
        return "structure", "a submodule was added, removed or replaced by one of another class"
    verified = ENVELOPE_VERIFIED.get("attributes", {})
    for path, (_, attributes) in now.items():
        expected = described[path][1] | verified.get(path, {})
        for name in attributes.keys() | expected.keys():
            if attributes.get(name) != expected.get(name):
                place = f"{path}.{name}" if path else name
                return "attribute", (
                    f"the attribute {place} is {attributes.get(name, 'gone')}, "
                    f"verified: {expected.get(name, 'without it')}"
                )
    return None


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


def _is_plain(value: Any) -> bool:
    """Whether a change of this attribute can be seen by comparing values."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, _PLAIN_VALUES) or callable(value)


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (_is_plain(value) and _spelled(value) == _spelled(default))


def _copied(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """A list is copied, so that a change inside it is seen."""
    return tuple(list(value) if isinstance(value, list) else value for value in values)


# Looked up once, because every call asks.
_autocast_is_on = torch._C._is_any_autocast_enabled
_innermost_transform = torch._C._functorch.peek_interpreter_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack
_tracing_state = torch._C._get_tracing_state
_forward_ad = torch.autograd.forward_ad
_PLAIN_VALUES = (bool, int, float, str, torch.dtype, torch.device)
_INTERNAL = frozenset(vars(torch.nn.Module()))
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_MOST_ANSWERS = 256
_UNKNOWN = ("unknown", "")
_USUAL_REMEDY = "Optimize again with such a call among the inputs to have it covered."
_REMEDIES = {
    "gradient": "Call it under torch.no_grad(), or verify it with --train.",
    "mode": "Call .eval(), or verify it with --train.",
    "autocast": "Leave autocast for this call, or give the module the dtype itself.",
    "hooks": "Remove the hook, or keep the original for such calls.",
}
