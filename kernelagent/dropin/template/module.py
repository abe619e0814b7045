"""The last section of every emitted module, part 1: `optimized` and the module it returns.

`emit` copies the text of this file and of its neighbours, `guard` and so on, to the end
of each emitted file. They are code, so that types and style are checked, but nothing imports them.
They import only torch, and anything else inside the function that needs it, so that they shadow no
name of the candidate's. Names under TYPE_CHECKING stand elsewhere in the emitted file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from kernelagent.dropin.template.guard import _Guard
    from kernelagent.dropin.template.state import _described, _state_of

    ENVELOPE_VERIFIED: dict[str, Any] = {}

    def _construct(module: torch.nn.Module) -> torch.nn.Module: ...


class OutsideEnvelopeWarning(UserWarning):
    """A call was outside what had been verified; the original forward answered it."""


def optimized(module: torch.nn.Module, fast: torch.nn.Module | None = None) -> torch.nn.Module:
    """A drop-in for `module` that runs `ModelNew` wherever that was verified.

    It is an instance of `type(module)` and lives on the same state, object for object: parameters,
    buffers, submodules, hooks, attributes and flags; a change to one is a change to both. Calls
    outside `ENVELOPE_VERIFIED` run the original forward, with one warning for each reason.
    `.original` gives `module` back. `fast`: a `ModelNew` you constructed yourself.
    Raises TypeError when `module` is not what was verified.
    """
    if isinstance(module, _DropIn):
        module = module._dropin.original
    _require_verified_kind(module)
    if fast is None:
        fast = _construct_quietly(module)
    return _assembled(module, fast, _described(module), _layout(fast, module))


class _DropIn(torch.nn.Module):
    """Shares its whole `__dict__` with the original; the one slot holds what is not shared."""

    __slots__ = ("_dropin",)
    _dropin: Any

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return (self._answer_in_graph if _is_traced() else self._answer)(args, kwargs)

    def _answer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        guard: _Guard = self._dropin
        if kwargs or len(args) not in guard.positional:
            args, kwargs = guard.in_verified_form(args, kwargs)
        refusal = guard.refusal(args, kwargs)
        if refusal is None:
            return guard.fast(*args, **kwargs)
        guard.warn_once(refusal)
        return super().forward(*args, **kwargs)

    def _answer_in_graph(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        guard: _Guard = self._dropin
        asked = guard.in_graph
        if not asked.takes(args, kwargs):
            return self._answer_untraced(args, kwargs)
        verified = asked.is_verified()
        if asked.unchanged() and verified:
            refusal = asked.refusal(args, kwargs)
            if refusal is None:
                return guard.fast(*args, **kwargs)
            asked.say(*refusal)
        return super().forward(*args, **kwargs)

    def _answer_untraced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # The graph breaks here: to find the verified form of this call takes its signature.
        disable: Any = torch.compiler.disable
        return disable(self._answer)(args, kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.nn.Module:
        import copy

        rebuild, parts = self.__reduce_ex__(4)
        copied: torch.nn.Module = rebuild(*copy.deepcopy(parts, memo))
        return copied

    def __copy__(self) -> torch.nn.Module:
        import copy

        return optimized(copy.copy(self._dropin.original))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        guard: _Guard = self._dropin
        return _assembled, (guard.original, guard.fast, guard.described, guard.layout)


def _assembled(
    original: torch.nn.Module,
    fast: torch.nn.Module,
    described: dict[str, Any],
    layout: dict[str, Any],
) -> torch.nn.Module:
    kind = type(original)
    members: dict[str, Any] = {"__slots__": (), "__module__": kind.__module__}
    if not hasattr(original, "original"):
        members["original"] = property(lambda self: self._dropin.original)
    dropin_kind: Any = type(f"Optimized{kind.__name__}", (_DropIn, kind), members)
    dropin: torch.nn.Module = object.__new__(dropin_kind)
    object.__setattr__(dropin, "__dict__", vars(original))
    object.__setattr__(dropin, "_dropin", _Guard(original, fast, described, layout))
    return dropin


def _require_verified_kind(module: torch.nn.Module) -> None:
    if not isinstance(module, torch.nn.Module) or isinstance(module, torch.jit.ScriptModule):
        raise TypeError(
            f"optimized() takes an nn.Module in eager mode, not {type(module).__name__}"
        )
    if "forward" in vars(module):
        raise TypeError("the module's forward was replaced on the instance; undo that first")
    verified = {name: tuple(facts["shape"]) for name, facts in ENVELOPE_VERIFIED["state"].items()}
    given = {name: tuple(tensor.shape) for name, tensor in _state_of(module).items()}
    if verified != given:
        differing = sorted(n for n in verified | given if verified.get(n) != given.get(n))
        shown = ", ".join(f"{n}: {given.get(n)}, not {verified.get(n)}" for n in differing[:5])
        raise TypeError(
            f"this {type(module).__name__} is not the module that was verified "
            f"({len(differing)} parameters or buffers differ: {shown})"
        )


class _WithoutInitialValues(torch.overrides.TorchFunctionMode):
    """Leaves new parameters unfilled: the original's take their place at once."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if function in _FILLS or getattr(function, "__module__", None) == "torch.nn.init":
            target = args[0] if args else (kwargs or {}).get("tensor")
            if isinstance(target, torch.nn.Parameter):
                return target
        return function(*args, **(kwargs or {}))


def _construct_quietly(module: torch.nn.Module) -> torch.nn.Module:
    """A `ModelNew`, without a trace in any random generator."""
    in_use: Any = torch.cuda.is_initialized
    devices = range(torch.cuda.device_count()) if in_use() else ()
    with torch.random.fork_rng(devices=devices), _WithoutInitialValues():
        return _construct(module)


def _layout(fast: torch.nn.Module, module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    """The strides that parameters and buffers had when `ModelNew` was verified."""
    state = _state_of(fast)
    if state.keys() != ENVELOPE_VERIFIED["state"].keys():
        raise TypeError(
            f"the state of this {type(fast).__name__} has other names than the module's"
        )
    if ENVELOPE_VERIFIED["constructor"] == "from_reference":
        return {n: tuple(facts["strides"]) for n, facts in ENVELOPE_VERIFIED["state"].items()}
    return {name: tensor.stride() for name, tensor in state.items()}


def _bind(
    fast: torch.nn.Module, original: torch.nn.Module, state: dict[str, Any]
) -> list[tuple[dict[str, Any], dict[str, Any], str]]:
    """Give `fast` the original's tensors: whole dicts where the names agree, else one by one.

    Returns where it was one by one: the dict of `fast`, the original's, and the name in both.
    """
    alone: list[tuple[dict[str, Any], dict[str, Any], str]] = []
    twins = dict(original.named_modules(remove_duplicate=False))
    for path, part in fast.named_modules(remove_duplicate=False):
        twin = twins.get(path)
        for kind in ("_parameters", "_buffers"):
            own = vars(part)[kind]
            theirs = vars(twin)[kind] if twin is not None else {}
            names = {name: f"{path}.{name}" if path else name for name in own}
            if own and own.keys() == theirs.keys() and all(n in state for n in names.values()):
                vars(part)[kind] = theirs
                continue
            for name, full in names.items():
                if full in state:
                    own[name] = state[full]
                    held = vars(twins[path])
                    both = (held["_parameters"], held["_buffers"])
                    alone.append((own, next(h for h in both if name in h), name))
    return alone


# Looked up once, because every call asks.
_is_traced = torch.compiler.is_dynamo_compiling
_FILLS = frozenset(
    getattr(torch.Tensor, name)
    for name in ("normal_", "uniform_", "fill_", "zero_", "bernoulli_", "erfinv_", "copy_")
)
