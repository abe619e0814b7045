"""The drop-in's guard. Made by `python runtime/build_section.py` from kernelagent; change it there."""
# ruff: noqa: F821, I002 - `dropin_of` puts ENVELOPE_VERIFIED and _construct here before this is executed.

from typing import Any

import torch


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


def _looks(values: Any) -> tuple[Any, ...] | None:
    """All that a refusal can depend on, as a key; None where there is no such key."""
    seen: list[Any] = []
    for value in values:
        kind = type(value)
        if kind in _PLAIN_TENSORS:
            try:
                shape, strides, address = value.shape, value.stride(), value.data_ptr()
            except RuntimeError:  # sparse, nested or without storage
                return None
            seen += (value.dtype, value.device, shape, strides, address % _ALIGNMENT)
        elif kind in _EXACT:
            seen += (kind, value)
        elif kind is float:
            seen += (kind, repr(value))
        elif kind in (tuple, list, dict):
            inside = _looks((*value, *value.values()) if kind is dict else value)
            if inside is None:
                return None
            seen += (kind, inside)
        else:
            return None
    return tuple(seen)


def _tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors_in(item)]
    return []


def _arguments_refusal(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str] | None:
    refusals = []
    for item in ENVELOPE_VERIFIED["input_sets"]:
        refusal = _set_refusal(item, args, kwargs)
        if refusal is None:
            return None
        refusals.append(refusal)
    # The set with the right number of arguments says more than one with another number.
    reason, sentence = min(refusals, key=lambda refusal: refusal[0] == "arguments")
    others = f" (nor do {len(refusals) - 1} other input sets fit)" if len(refusals) > 1 else ""
    return reason, sentence + others


def _set_refusal(
    one: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, str] | None:
    named = one.get("kwargs", {})
    if len(args) != len(one["args"]) or kwargs.keys() != named.keys():
        return "arguments", (
            f"{len(args)} arguments by position and {sorted(kwargs)} by name; "
            f"verified: {len(one['args'])} and {sorted(named)}"
        )
    sizes: dict[str, int] = {}
    for index, (value, facts) in enumerate(zip(args, one["args"], strict=True)):
        refusal = _value_refusal(f"argument {index}", value, facts, sizes)
        if refusal is not None:
            return refusal
    for name, facts in named.items():
        refusal = _value_refusal(name, kwargs[name], facts, sizes)
        if refusal is not None:
            return refusal
    return None


def _value_refusal(
    label: str, value: Any, facts: dict[str, Any], sizes: dict[str, int]
) -> tuple[str, str] | None:
    if "literal" in facts:
        if _spelled(value) == facts["literal"]:
            return None
        return "value", f"{label} is {_spelled(value)}, verified: {facts['literal']}"
    for kind in _NESTS:
        if kind.__name__ in facts:
            return _nest_refusal(label, value, kind, facts[kind.__name__], sizes)
    if not isinstance(value, torch.Tensor):
        return "arguments", f"{label} is of type {type(value).__name__}, verified: a tensor"
    refusal = _storage_refusal(label, value, facts["dtype"])
    return refusal or _shape_refusal(label, value, facts, sizes)


def _with_digests(facts: Any, value: Any) -> list[tuple[str, torch.Tensor]]:
    """The digests that were verified, each with the tensor that stands there now."""
    if isinstance(facts, dict) and "values" in facts:
        return [(facts["values"], value)]
    for kind in _NESTS:
        if isinstance(facts, dict) and kind.__name__ in facts:
            inner = facts[kind.__name__]
            keys = list(inner) if kind is dict else range(len(inner))
            return [pair for key in keys for pair in _with_digests(inner[key], value[key])]
    return []


def _digest(tensor: torch.Tensor) -> str:
    import hashlib

    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()


def _nest_refusal(
    label: str, value: Any, kind: Any, facts: Any, sizes: dict[str, int]
) -> tuple[str, str] | None:
    if type(value) is not kind or len(value) != len(facts):
        return "arguments", f"{label} is not a {kind.__name__} of {len(facts)}, as verified"
    if kind is dict and value.keys() != facts.keys():
        return "arguments", f"{label} has the keys {sorted(value)}, verified: {sorted(facts)}"
    for key in facts if kind is dict else range(len(facts)):
        refusal = _value_refusal(f"{label}[{key!r}]", value[key], facts[key], sizes)
        if refusal is not None:
            return refusal
    return None


def _storage_refusal(label: str, tensor: torch.Tensor, dtype: str) -> tuple[str, str] | None:
    if type(tensor) not in _PLAIN_TENSORS:
        return "tensor type", f"{label} is a {type(tensor).__name__}, verified: a plain tensor"
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        return "tensor type", f"{label} is sparse, nested or quantized, verified: a dense tensor"
    if tensor.dtype is not getattr(torch, dtype):
        return "dtype", f"{label} is {tensor.dtype}, verified: torch.{dtype}"
    types = ENVELOPE_VERIFIED["device_types"]
    if tensor.device.type not in types:
        return "device", f"{label} is on {tensor.device}, verified: {' or '.join(types)}"
    if not _is_traced() and tensor.data_ptr() % _ALIGNMENT:
        return "alignment", f"{label} does not begin at a multiple of {_ALIGNMENT} bytes"
    return None


def _shape_refusal(
    label: str, tensor: torch.Tensor, facts: dict[str, Any], sizes: dict[str, int]
) -> tuple[str, str] | None:
    shape, verified = tuple(tensor.shape), facts["shape"]
    if len(shape) != len(verified):
        return "rank", f"{label} has {len(shape)} dimensions, verified: {len(verified)}"
    if not all(_size_fits(size, rule, sizes) for size, rule in zip(shape, verified, strict=True)):
        return "shape", f"{label} has the shape {shape}, verified: {tuple(verified)}"
    if tensor.is_complex() if _is_traced() else (tensor.is_conj() or tensor.is_neg()):
        return "tensor type", f"{label} is lazily conjugated or negated"
    strides = facts.get("strides")
    if strides is not None and _same_layout(shape, tensor.stride(), strides):
        return None
    if ENVELOPE_VERIFIED["contiguous"] and tensor.is_contiguous():
        return None
    return "strides", f"{label} has the strides {tensor.stride()}, verified: " + (
        f"{tuple(strides)}" if strides is not None else "contiguous"
    )


def _size_fits(size: int, rule: Any, sizes: dict[str, int]) -> bool:
    """`rule`: a number, "any", or a dict of min, max, multiple_of, name (one name, one size)."""
    if isinstance(rule, dict):
        return (
            rule.get("min", 0) <= size <= rule.get("max", size)
            and size % rule.get("multiple_of", 1) == 0
            and sizes.setdefault(rule.get("name", str(id(rule))), size) == size
        )
    return bool(rule == "any" or rule == size)


def _same_layout(shape: Any, one: Any, other: Any) -> bool:
    """Equal strides, but for dimensions of one element, where a stride means nothing."""
    return all(a == b for size, a, b in zip(shape, one, other, strict=True) if size != 1)


def _spelled(value: Any) -> str:
    """`value` as Python text, the same for equal values of one type."""
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_spelled, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_spelled(k)}: {_spelled(v)}" for k, v in value.items()) + "}"
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return f"float('{value}')"
    if value is None or isinstance(value, bool | int | float | str | torch.dtype):
        return repr(value)
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    name = getattr(value, "__qualname__", "<")
    if "<" not in name:
        return f"{value.__module__}.{name}"
    # Nothing that can be written down tells this value from another: only itself is equal.
    return f"<{type(value).__name__} {id(value):#x}>"


_PLAIN_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_EXACT = frozenset({int, bool, str, type(None), torch.dtype, torch.device})
_ALIGNMENT = 16
_NESTS: tuple[Any, ...] = (list, tuple, dict)
