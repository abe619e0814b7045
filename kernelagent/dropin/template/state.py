"""The last section of emitted modules, part 3: whether the module's state is the verified one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from kernelagent.dropin.template.inputs import (
        _PLAIN_TENSORS,
        _same_layout,
        _spelled,
        _storage_refusal,
    )

    ENVELOPE_VERIFIED: dict[str, Any] = {}


class _Watch:
    """Notices in a microsecond or two that the state is not the one last looked at."""

    def __init__(self, module: torch.nn.Module) -> None:
        import operator

        parts = list(module.modules())
        holders = [vars(p)[n] for p in parts for n in ("_parameters", "_buffers", "_modules")]
        every = torch.nn.modules.module
        self.hooks = (
            *(vars(part)[name] for part in parts[1:] for name in _HOOKS),
            every._global_forward_hooks,
            every._global_forward_pre_hooks,
        )
        empty = (*self.hooks, *(holder for holder in holders if not holder))
        held = [holder for holder in holders if holder]
        settings, picks, verified = [], [], []
        for part in parts:
            attributes = vars(part)
            names = [name for name in attributes if _is_plain(attributes[name])]
            # Of two names at least, a tuple comes back.
            pick = operator.itemgetter(*names if len(names) > 1 else ("training", "training"))
            settings.append(attributes)
            picks.append(pick)
            verified.append(_copied(pick(attributes)))
        self.is_quiet = _quietness(empty, held, picks, settings, verified)
        """Whether every object and attribute is the one last seen, and no hook has come."""
        self.tensors = tuple(t for t in _state_of(module).values() if type(t) in _PLAIN_TENSORS)
        self._dtypes = [tensor.dtype for tensor in self.tensors]
        self._addresses = [tensor.data_ptr() for tensor in self.tensors]

    def has_same_storage(self) -> bool:
        """Whether no tensor was exchanged behind its parameter, as `.half()` and `.to()` do."""
        return [tensor.dtype for tensor in self.tensors] == self._dtypes and [
            tensor.data_ptr() for tensor in self.tensors
        ] == self._addresses


def _quietness(
    empty: tuple[Any, ...],
    held: list[dict[str, Any]],
    picks: list[Any],
    settings: list[dict[str, Any]],
    verified: list[tuple[Any, ...]],
) -> Any:
    """The question `_Watch.is_quiet`: every loop in it is one of the interpreter's own."""
    import itertools
    import operator

    chained, values_of, same, call = (
        itertools.chain.from_iterable,
        dict.values,
        operator.is_,
        operator.call,
    )
    # The last of both: an object more, or one less, puts it beside another.
    held = [*held, {"end": object()}]
    values = [*chained(map(values_of, held))]

    def is_quiet() -> bool:
        try:
            return (
                not any(empty)
                and all(map(same, chained(map(values_of, held)), values))
                and [*map(call, picks, settings)] == verified
            )
        except KeyError:
            return False

    return is_quiet


def _state_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and persistent buffers under the names of the state dict, tied ones repeated."""
    result: dict[str, torch.Tensor] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        lasting = {
            n: b for n, b in part._buffers.items() if n not in part._non_persistent_buffers_set
        }
        for name, tensor in (*part._parameters.items(), *lasting.items()):
            if tensor is not None:
                result[f"{path}.{name}" if path else name] = tensor
    return result


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
    if not independent and len(flags) > 1:
        return "mode", "some parts of the module are in training mode and others are not"
    state, devices = _state_of(original), set()
    if state.keys() != ENVELOPE_VERIFIED["state"].keys():
        return "structure", "a parameter or buffer was added or removed"
    for name, facts in ENVELOPE_VERIFIED["state"].items():
        tensor = state[name]
        if tuple(tensor.shape) != tuple(facts["shape"]):
            return "structure", f"{name} has another shape than {facts['shape']}"
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


def _is_plain(value: Any) -> bool:
    """Whether a change of this attribute can be seen by comparing values."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, _PLAIN_VALUES) or hasattr(value, "__qualname__")


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (_is_plain(value) and _spelled(value) == _spelled(default))


def _copied(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """A list is copied, so that a change inside it is seen."""
    return tuple(list(value) if isinstance(value, list) else value for value in values)


_PLAIN_VALUES = (bool, int, float, str, torch.dtype, torch.device)
_INTERNAL = frozenset(vars(torch.nn.Module()))
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
