"""The last section of every emitted file: `optimized`, the module it returns, and its guard.

`parts` copies this text, from the first class on, to the end of each emitted file, and leaves out the
blocks between `# if NAME:` and `# end` that the file has no use for. The package
kernelagent-runtime is built with this file and executes it as it is. What it imports has private names,
so that it shadows no name of the candidate's.
"""

from __future__ import annotations

import collections as _collections
import copy as _copy
import enum as _enum
import functools as _functools
import hashlib as _hashlib
import inspect as _inspect
import itertools as _itertools
import sys as _sys
import warnings as _warnings
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    # In an emitted file they stand above, with what was verified.
    ENVELOPE_VERIFIED: dict[str, Any] = {}

    def _construct(module: torch.nn.Module) -> torch.nn.Module: ...


class OutsideEnvelopeWarning(UserWarning):
    """A call was outside what had been verified; the original forward answered it."""


def optimized(module: torch.nn.Module, fast: torch.nn.Module | None = None) -> torch.nn.Module:
    """A drop-in for `module` that runs `ModelNew` wherever that was verified.

    It is an instance of `type(module)` and lives on the same state, object for object. Calls
    outside `ENVELOPE_VERIFIED` run the original forward, with one warning for each reason;
    `.original` gives `module` back. `fast`: a `ModelNew` you constructed yourself.
    Raises TypeError when `module` is not what was verified.
    """
    if isinstance(module, _DropIn):
        module = module._dropin.original
    if not isinstance(module, torch.nn.Module) or isinstance(module, torch.jit.ScriptModule):
        raise TypeError(f"optimized() takes an nn.Module in eager mode, not {type(module)}")
    if "forward" in vars(module):
        raise TypeError("the module's forward was replaced on the instance; undo that first")
    verified = {name: tuple(facts["shape"]) for name, facts in ENVELOPE_VERIFIED["state"].items()}
    given = {name: tuple(tensor.shape) for name, tensor in _state(module).items()}
    if [*verified.items()] != [*given.items()]:
        names = [n for n in sorted(verified | given) if verified.get(n) != given.get(n)][:5]
        shown = ", ".join(f"{n}: {given.get(n)}, not {verified.get(n)}" for n in names)
        shown = shown or f"their order is {[*given]}, not {[*verified]}"
        raise TypeError(f"not the verified module: parameters or buffers differ ({shown})")
    described = _described(_Contents(module))
    told, file = {what: now for (_, what), now in described.items()}, type(module).__module__
    # if reads:
    for what, text in ENVELOPE_VERIFIED.get("reads", {}).items():
        what, text = what.replace("<its file>", file), text.replace("<its file>", file)
        is_now = told.get(what, "gone")
        if what[:11] == "the tensor " and is_now.split(") ")[0] != text.split(") ")[0]:
            described["values", what] = text  # It may be cast to that yet: each call asks.
        # A function is told by its name, which ends with a blank.
        elif not (is_now.startswith(text) if text[-1:] == " " else is_now == text):
            raise TypeError(f"not the verified module: {what} is {is_now}, verified: {text}")
    # end
    # if attributes:
    parts = dict(module.named_modules(remove_duplicate=False))
    for path, attributes in ENVELOPE_VERIFIED.get("attributes", {}).items():
        for name, text in attributes.items():
            part: Any = parts.get(path)
            what = f"the attribute {path}.{name}".replace(" .", " ")
            text = text.replace("<its file>", file)
            # A part that is a drop-in itself stands for its original.
            kind: Any = type(part._dropin.original if hasattr(part, "_dropin") else part)
            held = getattr(part, name, _OPAQUE)  # It may be its class that has it.
            is_now = told.get(what, "gone" if held is _OPAQUE else _text(held))
            if name == "class":
                what, is_now = f"the class of {path or 'the module'}", _spelled(kind)
                is_now = text if kind.__qualname__ == text else is_now
            if is_now != text:
                raise TypeError(f"not the verified module: {what} is {is_now}, verified: {text}")
    # end
    # if tied:
    tensors = _state(module)
    for one, *others in ENVELOPE_VERIFIED.get("tied", []):
        if any(tensors[name] is not tensors[one] for name in others):
            raise TypeError(f"not the verified module: {others} and {one} were one tensor")
    # end
    if fast is None:
        # if draws:
        devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
        with torch.random.fork_rng(devices=devices), _Unfilled():
            fast = _construct(module)
        # else:
        # fast = _construct(module)
        # end
    strides = {name: tensor.stride() for name, tensor in _state(fast).items()}
    # if live:
    if ENVELOPE_VERIFIED["constructor"] == "from_reference":
        strides = {n: tuple(facts["strides"]) for n, facts in ENVELOPE_VERIFIED["state"].items()}
    # end
    return _assembled(module, fast, described, strides)


# if draws:
class _Unfilled(torch.overrides.TorchFunctionMode):
    """Leaves new parameters unfilled: the original's take their place at once."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        target = args[0] if args else (kwargs or {}).get("tensor")
        fills = function in _FILLS or getattr(function, "__module__", None) == "torch.nn.init"
        left = fills and isinstance(target, torch.nn.Parameter)
        return target if left else function(*args, **(kwargs or {}))


# end
class _DropIn(torch.nn.Module):
    """Shares its whole `__dict__` with the original; the one slot holds what is not shared."""

    __slots__ = ("_dropin",)
    _dropin: Any
    __deepcopy__ = None  # by __reduce_ex__

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        guard = self._dropin
        call = guard.in_verified_form(args, kwargs)
        refusal = (guard.refusal_in_graph if _is_traced() else guard.refusal)(*call)
        if refusal is None:
            # if binds:
            guard.take_over()
            answer = guard.fast(*call[0], **call[1])
            guard.put_back()
            return answer
            # else:
            # return guard.fast(*call[0], **call[1])
            # end
        guard.warn(*refusal)
        return super().forward(*args, **kwargs)

    def __copy__(self) -> torch.nn.Module:
        return optimized(_copy.copy(self._dropin.original))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        guard = self._dropin
        return _assembled, (guard.original, guard.fast, guard.described, guard.strides)


def _assembled(original: Any, fast: Any, described: Any, strides: Any) -> Any:
    kind, own = type(original), vars(_DropIn)["forward"]
    guard = _Guard(original, fast, described, strides)
    forward = type(own)(own.__code__, globals(), "forward", None, own.__closure__)
    forward.__signature__ = guard.signature  # For callers that count arguments.
    members = {"__slots__": (), "__module__": kind.__module__, "forward": forward}
    if not hasattr(original, "original"):
        members["original"] = property(lambda self: self._dropin.original)
    dropin = object.__new__(type(f"Optimized{kind.__name__}", (_DropIn, kind), members))
    object.__setattr__(dropin, "__dict__", vars(original))
    object.__setattr__(dropin, "_dropin", guard)
    return dropin


class _Guard:
    """Says of each call whether what was verified covers it; a refusal is `(reason, sentence)`."""

    def __init__(self, original: Any, fast: Any, described: Any, strides: Any) -> None:
        self.original, self.fast, self.described, self.strides = original, fast, described, strides
        self.signature = _inspect.signature(type(original).forward)
        self.device, self._warned = None, set[str]()
        self._shared, self._alone = [], []
        self._look()

    def in_verified_form(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The call with each argument by position or by name as in a verified call."""
        if (len(args), {*kwargs}) in _FORMS:
            return args, kwargs
        try:
            call, bare = self.signature.bind(self, *args, **kwargs), self.signature.bind_partial()
        except TypeError:
            return args, kwargs
        call.apply_defaults()
        bare.apply_defaults()
        (_, *names), values = call.arguments, call.arguments
        usual = {n for n, v in bare.arguments.items() if _spelled(v) == _spelled(values[n])}
        for count, named in _FORMS:
            if named <= {*names[count:]} <= named | usual:
                return tuple(values[n] for n in names[:count]), {n: values[n] for n in named}
        return args, kwargs

    def refusal(self, args: Any, kwargs: Any) -> tuple[str, str] | None:
        """None when the call is covered; a few microseconds for a call like the one before."""
        given, watch = (*args, *kwargs.values()) if kwargs else args, self._watch
        if (
            watch.is_quiet()
            and torch.get_default_dtype() is _DTYPE
            # if precision:
            and _is_as_precise()
            # end
            and self._like == (len(args), *kwargs)
            and _forward_ad._current_level < 0
            and self._is_accepted(*given, *watch.tensors)
            and not (self._needs_no_grad and torch.is_grad_enabled())
            and (self._index is None or torch.cuda.current_device() == self._index)
            and not any([tensor.data_ptr() % 16 for tensor in given])  # noqa: C419 - twice as quick
        ):
            return None
        refusal = self.refusal_around(eager=True) or self._refusal_of(args, kwargs)
        tensors = (*given, *self._watch.tensors)
        if given and not refusal and _TensorGuards and all(type(t) in _PLAIN for t in tensors):
            # torch's own comparison of type, dtype, device, sizes, strides, requires_grad and the
            # dispatch keys in force, in which autocast, transforms, tracers and conjugation show.
            guards = _TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
            self._is_accepted, self._like = guards.check, (len(args), *kwargs)
            self._needs_no_grad = not _TRAINED and any(t.requires_grad for t in tensors)
            # if values:
            if _VALUES_VERIFIED:
                # What a tensor holds does not show in torch's own comparison: it is asked each time.
                self._like = None
            # end
        return refusal

    def refusal_in_graph(self, args: Any, kwargs: Any) -> tuple[str, str] | None:
        """The same where Dynamo traces: what is read here becomes a guard of the graph."""
        refusal = self.refusal_around()
        for part, name, value in self._watch.read:
            now = getattr(part, name)
            if now is not value if isinstance(value, torch.nn.Module) else now != value:
                refusal = refusal or ("attribute", f"{name} has changed")
        for own, theirs, name in self._shared:
            if own[name] is not theirs[name]:
                refusal = refusal or ("structure", f"{name} has changed")
        if torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"):
            refusal = refusal or ("autocast", "autocast is enabled")
        return refusal or self._refusal_of(args, kwargs)

    def refusal_around(self, *, eager: bool = False) -> tuple[str, str] | None:
        """What does not depend on the arguments; where the state has changed, it is looked at."""
        transform = torch._C._functorch.peek_interpreter_stack() is not None
        tracer = torch._C._len_torch_dispatch_stack() or torch._C._get_tracing_state()
        for reason, at_work, what in (
            ("autocast", eager and torch._C._is_any_autocast_enabled(), "autocast"),
            ("transform", transform or _forward_ad._current_level >= 0, "a torch.func transform"),
            ("tracing", eager and tracer, "a tracer or a dispatch mode"),
            ("hooks", any(self._watch.hooks), "a hook on a submodule or on all modules"),
        ):
            if at_work:
                return reason, f"{what} is at work, which does not reach into the kernels"
        if torch.get_default_dtype() is not _DTYPE:
            return "default dtype", f"it is {torch.get_default_dtype()}, verified: {_DTYPE}"
        # if precision:
        if not _is_as_precise():
            return "precision", "torch's settings of float32 ask for more than was verified"
        # end
        if not (self._watch.is_quiet() and self._watch.storage() == self._storage):
            self._look()
        return self._state_refusal

    def warn(self, reason: str, sentence: str) -> None:
        if reason not in self._warned:
            self._warned.add(reason)
            remedy = _REMEDIES.get(reason, "Optimize again with such a call among the inputs.")
            text = f"{type(self.original).__name__}: outside what was verified ({reason}): "
            text += f"{sentence}. The original forward runs instead. {remedy} "
            text += "This module does not report this reason again."
            _warnings.warn(text, OutsideEnvelopeWarning, stacklevel=5)

    # Dynamo asks these two while it makes a graph, and keeps the answer in it.
    refusal_around._dynamo_marked_constant = warn._dynamo_marked_constant = True

    def _refusal_of(self, args: Any, kwargs: Any) -> tuple[str, str] | None:
        sets = ENVELOPE_VERIFIED["input_sets"]
        order = list if "**" in str(self.signature) else sorted  # `**kwargs` has an order.
        refusals = [_first(_set_questions(item, args, kwargs, order)) for item in sets]
        if None not in refusals:
            # The set with the right number of arguments says more than one with another number.
            return min(refusals, key=lambda refusal: refusal[0] == "arguments")
        tensors = [t for t in _leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        tensors += self._watch.tensors
        if not _TRAINED and torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return "gradient", "gradients are recorded, and an input or a parameter requires them"
        devices = {tensor.device for tensor in tensors}
        if len(devices) > 1:
            return "device", f"arguments and parameters are on {sorted(map(str, devices))}"
        if devices and not _is_traced():
            self._move(*devices)
            if self._index is not None and self._index != torch.cuda.current_device():
                return "device", f"the tensors are on {self.device}, not on the current device"
        return None

    def _look(self) -> None:
        """See whether the state is the verified one; if so, give it to the kernels' module."""
        contents = _Contents(self.original)
        self._watch, self._like = _Watch(contents), None
        self._storage = self._watch.storage()
        self._state_refusal = _first(_state_questions(contents, self.described, self.strides))
        if self._state_refusal is None:
            held = _held(self.original)
            self._shared, self._alone = [], []
            for place, (own, name) in _held(self.fast).items():
                if place in self.strides:
                    own[name] = held[place][0][name]
                    self._shared.append((own, *held[place]))
                else:
                    self._alone.append((own, name))
            # if binds:
            self._left = _places_left(self.fast, self.original)
            # end
            self._move(next((tensor.device for tensor in self._watch.tensors), self.device))
            # Where the flag means nothing to the original, `fast` keeps the one verified.
            self.fast.train(self.original.training and _TRAINED)

    # if binds:
    def take_over(self) -> None:
        """The kernels' module goes on from what calls have left in the original."""
        for own, theirs, name in self._left:
            if name in theirs:
                own[name] = theirs[name]

    def put_back(self) -> None:
        """Where the kernels' module has bound another tensor, the original's own gets what is in it."""
        for own, theirs, name in self._shared:
            old, new = theirs[name], own[name]
            # While gradients are recorded a backward may hold the old one, which stays as it is.
            recorded = _TRAINED and torch.is_grad_enabled()
            if new is not old and new.shape == old.shape and not recorded:
                with torch.no_grad():
                    old.copy_(new)
                own[name] = old
            elif new is not old:
                theirs[name] = new
        for own, theirs, name in self._left:
            if name in own:
                theirs[name] = own[name]

    # end
    def _move(self, device: Any) -> None:
        """Take what the kernels' module has of its own, such as tables, to where the call is."""
        for own, name in self._alone if device is not None else ():
            own[name] = own[name].to(device)
        several = getattr(device, "type", "") == "cuda" and torch.cuda.device_count() > 1
        self.device, self._index = device, device.index if several else None


class _Contents:
    """What a look at a module finds: attributes, tensors, and what code can read around them."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module, self.state, size = module, _state(module), -1
        self.names, self.of_operators = {"forward", "__call__", "__wrapped__"}, set[str]()
        self.cut = list[Any]()  # What is left out, because there is too much.
        self.done: dict[Any, Any] = {id(part): part for part in module.modules()}
        self.around = dict[tuple[int, str], tuple[str, Any, str, Any]]()
        self.roots = [(p, o, True) for p, o in module.named_modules(remove_duplicate=False)]
        # True: its methods are compared, too.
        self.kinds: dict[Any, Any] = {(type(part), True): None for _, part, _ in self.roots}
        # Until nothing is added: what is found uses further names, which lead to further objects.
        found = self.names, self.of_operators, self.around, self.kinds
        while size != (size := sum(map(len, found))):
            self.fields, self.owners = _fields_of(self)
            for path, _, name, value in self.fields:
                named = name in self.names | self.of_operators
                if named and any(hasattr(x, "__qualname__") for x in _inside(value)):
                    self._reach(f"{path}.{name}", value)
            for kind, whole in [*self.kinds]:
                self._see_members(kind, whole)
        self.unseen = _unseen(self)

    def _see_members(self, kind: Any, whole: bool) -> None:
        """Of a class or an imported file: what the code names."""
        if _inspect.ismodule(kind):
            for name in sorted({*self.names, "__getattr__"} & vars(kind).keys()):
                self._see(f"{name} of {kind.__name__}", vars(kind), name)
            return
        if not _is_foreign(type(kind)):
            self.kinds[type(kind), True] = None  # The class answers with it.
        every = dir(torch.nn.Module if issubclass(kind, torch.nn.Module) else object)
        own = {name for k in kind.__mro__ if not _is_foreign(k) for name in vars(k)}
        # Of torch's methods a part may have its own; `x.to(...)` is rarely one of a part.
        theirs = {n for n in own & self.names if n[0] != "_" and not hasattr(torch.Tensor, n)}
        theirs |= own & (_OPERATORS | self.of_operators)
        for name in sorted(self.names.difference(every, ["__dict__"]) | theirs | {"forward"}):
            held = [k for k in kind.__mro__ if name in vars(k)]
            if held and (whole or not hasattr(vars(held[0])[name], "__get__")):
                if not _is_foreign(type(vars(held[0])[name])):
                    self._reach(f"{name} of {kind.__qualname__}", vars(held[0])[name])
                # Overridden ones as well: `super()` finds them.
                for k in (kind, *(k for k in held[1:] if not _is_foreign(k))):
                    self._see(f"{name} of {k.__module__}.{k.__qualname__}", k, name)

    def _see(self, label: str, owner: Any, name: str) -> None:
        """Compare what stands there from now on, and look at what code finds in it."""
        read: Any = dict.get if isinstance(owner, dict) else getattr
        value, known = read(owner, name, None), (id(owner), name) in self.around
        # A method of a class is another object each time.
        if not known and value is read(owner, name, None) and not _inspect.ismodule(value):
            while label in self.done:
                label += "'"
            self.done[label] = self.around[id(owner), name] = label, owner, name, value
        if not (name in self.of_operators - self.names and isinstance(value, _NESTS)):
            self._reach(label, value, owner.get("__name__") if isinstance(owner, dict) else None)

    def _reach(self, label: str, value: Any, file: str | None = None) -> None:
        for at, one in enumerate(_inside(value)):
            one, path = getattr(one, "fget", one), f"{label}[{at}]" if one is not value else label
            if isinstance(one, type) and not _is_foreign(one):
                # A file often imports a class for `isinstance` alone: then without its methods.
                self.kinds[one, file in (None, one.__module__)] = None
                if file == one.__module__ and not issubclass(one, torch.nn.Module):
                    self._reach(f"__init__ of {path}", vars(one).get("__init__"))
            elif id(one) in self.done or type(one) in _VALUES:
                continue
            self.done[id(one)] = one
            if _inspect.ismodule(one):
                self.kinds |= {} if _is_foreign(one) else {(one, True): None}
            elif _inspect.isfunction(one):
                self._follow(path, one)
            elif isinstance(one, torch.nn.Module):
                self.roots += [(f"{path}.{p}".strip("."), o, True) for p, o in one.named_modules()]
            elif _has_settings(one) or "__wrapped__" in getattr(one, "__dict__", ()):
                self.roots.append((path, one, True))

    def _follow(self, label: str, function: Any) -> None:
        """Its code, defaults and closure, and the globals that it names."""
        here, codes, file = set[str](), [function.__code__], function.__globals__.get("__name__")
        for code in codes:
            constants = _leaves(code.co_consts)
            codes += [c for c in constants if hasattr(c, "co_names")]
            here.update(code.co_names, (c for c in constants if isinstance(c, str)))
        operator = function.__name__ in _OPERATORS - self.names
        here = {name for name in here if name[:2] != "__"} if operator else here
        (self.of_operators if operator else self.names).update(here)
        if not _is_foreign(function):
            for name in ("__code__", "__defaults__", "__kwdefaults__"):
                if getattr(function, name):
                    self._see(f"{name} of {label}", function, name)
            for name, cell in zip(codes[0].co_freevars, function.__closure__ or (), strict=True):
                if cell != type(cell)():  # It has contents.
                    self._see(f"{name} in {label}", cell, "cell_contents")
            for name in sorted(here & function.__globals__.keys()):
                self._see(f"{name} of {file}", function.__globals__, name)
            self.roots += [(label, function, True)] if vars(function) else []


class _Watch:
    """Notices in a microsecond or two that the state is not the one last looked at."""

    def __init__(self, contents: _Contents) -> None:
        values_of, nothing = _itertools.chain.from_iterable, _itertools.repeat(None)
        parts, every = [*contents.module.modules()], torch.nn.modules.module
        owned = contents.owners
        self.hooks = [vars(part)[name] for part in parts[1:] for name in _HOOKS]
        self.hooks += [every._global_forward_hooks, every._global_forward_pre_hooks]
        held = [vars(p)[kind] for p in parts for kind in ("_parameters", "_buffers", "_modules")]
        rows = [row[1:] for row in (*contents.fields, *contents.around.values())]
        families, slots = [p._modules for p in parts if p._modules], list[Any]()
        dicts: list[Any] = [(p, "training", p.training) for p in parts]
        dicts += [(p, "_modules", p._modules) for p in parts if p._modules]
        for row in rows:
            (dicts if row[1] in _dict_of(row[0]) else slots).append(row)
        theirs, called = [_dict_of(o) for o, _, _ in dicts], [n for _, n, _ in dicts]
        owners, slot_names = [o for o, _, _ in slots], [n for _, n, _ in slots]
        others, order = [row[2] for row in rows], [*values_of(families)]
        nests = [v for v in others if isinstance(v, _NESTS) and not _is_plain(v)]
        live = [v for v in others if isinstance(v, _CHANGING) and _is_plain(v)]
        live = [v for v in live if type(v) != tuple or any(isinstance(x, _CHANGING) for x in v)]  # noqa: E721 - shorter
        arrays = [v for v in others if hasattr(type(v), "tobytes")]
        unseen = [t for t in contents.unseen.values() if not t.is_inference()]
        sized = [*{id(o): _dict_of(o) for o in owned}.values()]
        # They are kept, because the id of an object that is gone is given to another.
        self.objects = [*values_of(map(dict.values, held)), dicts, slots, *map(_inside, nests)]
        ids, kinds = [*map(id, values_of(map(dict.values, held)))], [*map(type, owned)]
        ids_of_others = [id(v) for _, _, v in dicts]
        ids_of_slots, sizes = [id(v) for _, _, v in slots], [*map(len, sized)]
        inside, stamps = [id(x) for v in nests for x in _inside(v)], [*map(_stamp, unseen)]
        texts, in_bytes = [*map(repr, live)], [v.tobytes() for v in arrays]
        self.is_quiet = lambda: (
            not any(self.hooks)
            and [*map(id, values_of(map(dict.values, held)))] == ids
            and [*map(id, map(dict.get, theirs, called))] == ids_of_others
            and (not families or [*values_of(families)] == order)
            and [*map(len, sized)] == sizes
            and [*map(type, owned)] == kinds
            and [*map(id, map(getattr, owners, slot_names, nothing))] == ids_of_slots
            and (not live or [*map(repr, live)] == texts)
            and (not arrays or [v.tobytes() for v in arrays] == in_bytes)
            and (not nests or [id(x) for v in nests for x in _inside(v)] == inside)
            and (not unseen or [*map(_stamp, unseen)] == stamps)
        )
        read = [row for row in dicts if isinstance(row[0], torch.nn.Module) and _is_plain(row[2])]
        read = [row for row in read if not isinstance(row[2], _CHANGING[2:]) and row[1][0] != "_"]
        self.read = [row for row in read if not hasattr(type(row[2]), "tobytes")]
        self.read += [(p, n, v) for p in parts for n, v in p._modules.items() if v is not None]
        self.tensors = tuple(t for t in contents.state.values() if type(t) in _PLAIN)

    def storage(self) -> list[Any]:
        """Of each tensor; `.half()` and `.to()` exchange it behind the parameter."""
        return [(tensor.dtype, tensor.data_ptr()) for tensor in self.tensors]


def _dict_of(owner: Any) -> Any:
    kept = {} if isinstance(owner, type) else getattr(owner, "__dict__", {})
    return owner if isinstance(owner, dict) else kept


def _held(module: torch.nn.Module) -> dict[str, Any]:
    """Where each parameter and buffer is: a dict, and the name in it."""
    return {
        f"{path}.{name}".strip("."): (held, name)
        for path, part in module.named_modules(remove_duplicate=False)
        for held in (part._parameters, part._buffers)
        for name, tensor in held.items()
        if tensor is not None
    }


# if binds:
def _places_left(fast: torch.nn.Module, original: torch.nn.Module) -> list[Any]:
    """Where both keep what a call leaves besides the state: two dicts, and the name in them."""
    rows = []
    for place in sorted(_LEFT):
        path, _, name = place.rpartition(".")
        both = [module.get_submodule(path) for module in (fast, original)]
        rows.append((*[p._buffers if name in p._buffers else vars(p) for p in both], name))
    return rows


# end
def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    every = module.state_dict(keep_vars=True)
    return {name: value for name, value in every.items() if isinstance(value, torch.Tensor)}


def _described(contents: _Contents) -> dict[tuple[str, str], Any]:
    """Class and attributes of every part: what `ModelNew` took over when it was built."""
    parts = dict(contents.module.named_modules(remove_duplicate=False))
    kinds: dict[tuple[str, str], Any] = {}
    for path, part in parts.items():
        kinds["structure", f"the class of {path or 'the module'}"] = type(part)
    kinds |= {("code", label): _text(value) for label, _, _, value in contents.around.values()}
    state: dict[int, list[str]] = {}
    for name, tensor in contents.state.items():
        state.setdefault(id(tensor), []).append(name)
    kinds["structure", "what shares a tensor"] = [n for n in state.values() if len(n) > 1]
    # A forward may go through them.
    kinds["structure", "the order of parts and parameters"] = [*parts, *contents.state]
    told: dict[str, str] = {}
    for path, _, name, value in contents.fields:
        if isinstance(value, _NESTS) or _is_plain(value):
            # Of a function its code is told apart, where something names it.
            told[f"{path}.{name}"] = (_spelled if hasattr(value, "__qualname__") else _text)(value)
        elif name in contents.names and not (_stands_alone(value) or _has_settings(value)):
            # Nothing of it can be read that would show a change.
            told[f"{path}.{name}"] = _OPAQUE
    kinds |= {("attribute", f"the attribute {n}".replace(" .", " ")): t for n, t in told.items()}
    unseen = {n: _content(tensor) for n, tensor in contents.unseen.items()}
    return kinds | {("values", f"the tensor {n}".replace(" .", " ")): t for n, t in unseen.items()}


def _fields_of(contents: _Contents) -> tuple[list[tuple[str, Any, str, Any]], list[Any]]:
    """Every attribute of the parts and of their settings: path, owner, name, value; the owners."""
    rows, seen, names = list[Any](), set[int](), contents.names
    module, own, todo = contents.module, {*contents.module.modules()}, [*contents.roots]
    for path, owner, deep in todo:
        if deep and not _is_foreign(type(owner)):
            contents.kinds[type(owner), True] = None
        slots = [n for kind in type(owner).__mro__ for n in _slots(kind) if hasattr(owner, n)]
        fields = {n: getattr(owner, n) for n in slots} | getattr(owner, "__dict__", {})
        if isinstance(owner, torch.nn.Module) and owner not in own:
            fields |= {**owner._parameters, **owner._buffers}
        for name, value in fields.items():
            if isinstance(owner, torch.nn.Module) and name in _INTERNAL:
                continue
            if len(rows) > _MOST and name not in names:
                contents.cut.append((path, name, owner))
                continue
            if owner is module and name == "forward":
                continue  # It is what calls the drop-in, put there by `kernelize`, say.
            # if binds:
            if f"{path}.{name}".strip(".") in _LEFT:
                continue  # Each call leaves another value.
            # end
            rows.append((path, owner, name, value))
            for at, inner in enumerate(_inside(value) if deep or name in names else ()):
                if id(inner) not in seen and _has_settings(inner):
                    seen.add(id(inner))
                    place = f"{path}.{name}" + (f"[{at}]" if inner is not value else "")
                    todo.append((place, inner, name in names))
        # if settings:
        if not isinstance(owner, torch.nn.Module) and _looks_up_itself(type(owner)):
            # What it answers may be in a field of another name.
            told = [(path, owner, n, _answer(owner, n)) for n in sorted(names - {*fields})]
            rows += [row for row in told if row[3] is _answer(owner, row[2]) is not _OPAQUE]
        # end
    return rows, [owner for _, owner, _ in todo]


# if settings:
def _looks_up_itself(kind: type) -> bool:
    return hasattr(kind.__getattribute__, "__code__") or hasattr(kind, "__getattr__")


def _answer(owner: Any, name: str) -> Any:
    """Of a class with a look-up of its own, where it has no code of this name."""
    if hasattr(getattr(type(owner), name, None), "__get__"):
        return _OPAQUE
    try:
        return getattr(owner, name, _OPAQUE)
    except Exception:  # noqa: BLE001 - code of somebody else's, which may raise anything
        return _OPAQUE


def _is_unread(contents: _Contents, place: str) -> bool:
    """Whether no code can tell what a settings object holds there.

    The code that the forwards reach does nothing with the object, nor with one that holds it, but
    read attributes by their names, and this name is none of them.
    """
    path, _, name = place.rpartition(".")
    around = [value for _, _, _, value in contents.around.values()]
    codes = [value for value in around if hasattr(value, "co_code")]
    for code in codes:
        codes += [inner for inner in code.co_consts if hasattr(inner, "co_code")]
    todo = [o for at, o, _, _ in contents.fields if path and at.lstrip(".") == path][:1]
    for owner in todo:
        rows = [row[1:] for row in contents.fields if any(x is owner for x in _inside(row[3]))]
        apart = any(x is owner for value in around for x in _inside(value))
        if isinstance(owner, torch.nn.Module) or apart or any(v is not owner for _, _, v in rows):
            return False
        read = [_read_from(code, {n for _, n, _ in rows}) for code in codes]
        names = [*_itertools.chain.from_iterable(found or () for found in read)]
        for n in names:
            for member in [vars(kind)[n] for kind in type(owner).__mro__ if n in vars(kind)]:
                if hasattr(member, "__get__"):
                    its: Any = getattr(getattr(member, "fget", member), "__code__", None)
                    followed = its and "super" not in its.co_names
                    read.append(_read_from(its, {*its.co_varnames[:1]}) if followed else None)
                    names += (read[-1] or set()).difference(names)
        if None in read or (owner is todo[0] and name in names):
            return False
        holders = [holder for holder, _, _ in rows if not isinstance(holder, torch.nn.Module)]
        todo += [holder for holder in holders if all(holder is not x for x in todo)]
    return bool(todo) and not contents.names.intersection(_ANY_NAME)


def _read_from(code: Any, names: set[str]) -> set[str] | None:
    """The attributes read of what these names stand for; None where it is used otherwise, too."""
    import dis

    result, lines = set[str](), [*dis.get_instructions(code)]
    for line, after in _itertools.pairwise([*lines, lines[-1]]):
        value = line.argval
        used = {x for x in (value if type(value) is tuple else [value]) if type(x) is str} & names
        loads = type(value) is str and line.opname in ("LOAD_ATTR", "LOAD_FAST", "LOAD_FAST_CHECK")
        if used and not (loads and after.opname in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR")):
            return None
        result |= {after.argval} if used else set()
    return result


# end


def _slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    private = f"_{kind.__name__.lstrip('_')}__"
    names = [slots] if isinstance(slots, str) else [*slots]
    names = [n for n in names if not n.endswith("__")]
    return [private + n[2:] if n[:2] == "__" else n for n in names]


def _has_settings(value: Any) -> bool:
    fields = isinstance(value, _NESTS) or hasattr(value, "__dict__")
    return not _stands_alone(value) and (fields or any(map(_slots, type(value).__mro__)))


def _stands_alone(value: Any) -> bool:
    apart = _is_plain(value) or isinstance(value, (torch.Tensor, torch.nn.Module, *_NESTS))
    if apart and isinstance(value, (*_VALUES, *_NESTS)) and not _is_foreign(type(value)):
        return False  # An own subclass of a number or a list has attributes, too.
    return apart or type(value).__module__.partition(".")[0] in _NO_SETTINGS


def _is_foreign(value: Any) -> bool:
    """Whether this function, class or file is Python's, torch's, numpy's or Triton's."""
    file = value.__name__ if _inspect.ismodule(value) else value.__module__ or "builtins"
    # `functools.wraps` gives a function the name of the other's file.
    names = file, value.__globals__.get("__name__", file) if _inspect.isfunction(value) else file
    return all(name.partition(".")[0] in _FOREIGN for name in names)


def _text(value: Any) -> str:
    """A function by its code and constants; an object, whose fields have texts, by its class."""
    value = getattr(value, "fget", value)
    if code := value if hasattr(value, "co_code") else getattr(value, "__code__", None):
        told = code.co_code, code.co_names, code.co_freevars, [*map(_text, code.co_consts)]
        digest = _hashlib.sha256(repr(told).encode()).hexdigest()[:16]
        return f"{code.co_name if value is code else _spelled(value)} {digest}"
    if isinstance(value, _NESTS) and not _is_plain(value):
        inner = [_spelled(x if _is_plain(x) else type(x)) for x in _inside(value)]
        return f"{type(value).__name__} {inner}"
    text = _spelled(value if _is_plain(value) else type(value))
    # if attributes:
    if len(text) > 200:
        text = f"{text[:60]}... {_hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]}"
    # end
    return text


def _unseen(contents: _Contents) -> dict[str, torch.Tensor]:
    """Tensors that a forward may read and no state_dict shows: the kernels do not see them."""
    seen, result = {*map(id, contents.state.values())}, {}
    rows = [(f"{p}.{n}", v) for p, _, n, v in contents.fields]
    rows += [(label, value) for label, _, _, value in contents.around.values()]
    for path, part in contents.module.named_modules():
        rows += [(f"{path}.{n}", v) for n, v in part._buffers.items()]
    # if binds:
    rows = [(path, value) for path, value in rows if path.strip(".") not in _LEFT]
    # end
    for path, value in rows:
        for at, tensor in enumerate(_inside(value)):
            if isinstance(tensor, torch.Tensor) and id(tensor) not in seen:
                result[path + (f"[{at}]" if tensor is not value else "")] = tensor
    return result


def _inside(value: Any) -> list[Any]:
    """What it holds, with the keys of dicts; of a method and of a partial what they call."""
    own = [value][: isinstance(value, _NESTS) and not _is_foreign(type(value))]
    if isinstance(value, _functools.partial):
        value = value.func, value.args, value.keywords
    if name := _BEHIND.get(type(value).__name__):
        value = [getattr(value, name, None)]
    if _inspect.ismethod(value):
        value = value.__func__, value.__self__
    if isinstance(value, (dict, _PROXY)):
        value = *value, *value.values()
    if isinstance(value, (list, tuple, _collections.deque)):
        return own + [x for one in value for x in _inside(one)]
    return [value]


def _stamp(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor._version, tensor.data_ptr()


def _content(tensor: torch.Tensor) -> str:
    """Type, shape and values in a few letters; only the former where no bytes can be read."""
    kind = f"{tensor.dtype} {tuple(tensor.shape)}"
    if tensor.is_meta:
        return "without contents"
    if type(tensor) not in _PLAIN or tensor.layout is not torch.strided:
        return kind
    flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    return f"{kind} {_hashlib.sha256(flat.view(torch.uint8).numpy().tobytes()).hexdigest()[:16]}"


def _first(questions: Any) -> tuple[str, str] | None:
    """The refusal of the first question whose answer is not the verified one."""
    for reason, what, now, verified in questions:
        if now != verified:
            return reason, f"{what} {now}, verified: {verified}"
    return None


def _state_questions(contents: _Contents, described: Any, strides: Any) -> Any:
    now, names = _described(contents), contents.names
    every = [(at, now.get(at, "gone"), described.get(at, "not there")) for at in now | described]
    for (reason, what), is_now, verified in every:
        # One that was added, and that no forward names, cannot matter.
        added = verified == "not there" and reason == "attribute"
        if is_now is _OPAQUE:
            yield reason, f"{what} is", is_now, "something that can be compared"
        elif reason != "values" and not (
            added and not {*_ANY_NAME, what.rpartition(".")[2].split()[-1]} & names
        ):
            # if settings:
            if (
                reason == "attribute"
                and is_now != verified
                and _is_unread(contents, what.split()[-1])
            ):
                continue
            # end
            yield reason, f"{what} is", is_now, verified
    # if mode:
    if not ENVELOPE_VERIFIED.get("mode_independent"):
        flags = {"train" if part.training else "eval" for part in contents.module.modules()}
        right = len(flags) == 1 and flags <= {*ENVELOPE_VERIFIED["modes"]}
        yield "mode", f"all parts are in a mode of {ENVELOPE_VERIFIED['modes']}:", right, True
    # end
    state = contents.state
    yield "structure", "the parameters and buffers are", sorted(state), sorted(strides)
    for name, facts in ENVELOPE_VERIFIED["state"].items():
        yield from _value_questions(name, state[name], facts | {"strides": strides[name]}, None)
    # Last, because `.half()` changes these tensors as well, and the state gives the better reason.
    for (reason, what), is_now, verified in every:
        if reason == "values" and is_now != "without contents":
            yield reason, f"{what} is", is_now, verified


def _set_questions(item: Any, args: Any, kwargs: Any, order: Any) -> Any:
    named, sizes = item.get("kwargs", {}), {}
    verified, given = (len(item["args"]), order(named)), (len(args), order(kwargs))
    yield "arguments", "those by position and by name are", given, verified
    for at, facts in enumerate(item["args"]):
        yield from _value_questions(f"argument {at}", args[at], facts, sizes)
    # if names:
    for name, facts in named.items():
        yield from _value_questions(name, kwargs[name], facts, sizes)
    # end


def _value_questions(label: str, value: Any, facts: Any, sizes: Any) -> Any:
    """Of an argument or, without `sizes`, of the state: there strides must be the very same."""
    # if literal:
    if "literal" in facts:
        text = str(value) if isinstance(value, torch.device) else _spelled(value)
        text = f"torch.device({text!r})" if isinstance(value, torch.device) else text
        text = f"float('{text}')" if text in ("inf", "-inf", "nan") else text
        yield "value", f"{label} is", text, facts["literal"]
        return
    # end
    # if nest:
    for kind in (list, tuple, dict):
        if kind.__name__ in facts:
            inner = facts[kind.__name__]
            keys = [*inner] if kind is dict else [*range(len(inner))]
            same = type(value) is kind and len(value) == len(keys)
            same = same and (kind is not dict or [*value] == keys)
            yield "arguments", f"{label} is a {kind.__name__} of {keys}:", same, True
            for key in keys:
                yield from _value_questions(f"{label}[{key!r}]", value[key], inner[key], sizes)
            return
    # end
    plain = type(value) in _PLAIN and value.layout is torch.strided
    plain = plain and not (value.is_nested or value.is_quantized)
    lazy = plain and (value.is_complex() if _is_traced() else value.is_conj() or value.is_neg())
    yield "tensor type", f"{label} is a plain dense tensor:", plain and not lazy, True
    yield "dtype", f"{label} is", value.dtype, getattr(torch, facts["dtype"])
    kind, kinds = value.device.type, ENVELOPE_VERIFIED["device_types"]
    yield "device", f"{label} is on", kind, kind if kind in kinds else " or ".join(kinds)
    shape, rules, strides = tuple(value.shape), facts["shape"], facts.get("strides")
    yield "rank", f"{label} has dimensions:", len(shape), len(rules)
    # if rules:
    if all(_fits(size, rule, sizes) for size, rule in zip(shape, rules, strict=True)):
        rules = shape
    # end
    yield "shape", f"{label} has the shape", shape, tuple(rules)
    if not _is_traced():
        yield "alignment", f"{label} begins, modulo 16, at byte", value.data_ptr() % 16, 0
    now = value.stride()
    # if laid_out:
    if "sizes" in facts:
        strides = _strides_at(facts["sizes"], strides, shape)
    # end
    # The stride of a dimension of one element means nothing.
    pairs = () if strides is None else zip(shape, now, strides, strict=True)
    fits = strides is not None and all(n == 1 or a == b for n, a, b in pairs)
    if strides is None and sizes is not None and ENVELOPE_VERIFIED["contiguous"]:
        fits = value.is_contiguous()
    yield "strides", f"{label} has strides", now, now if fits else strides or "contiguous"
    # if values:
    if "values" in facts:
        # A graph cannot read them.
        same = not _is_traced() and _digest(value) == facts["values"]
        yield "values", f"{label} holds what it held in every verified call:", same, True
    # end


# if rules:
def _fits(size: int, rule: Any, sizes: dict[str, int]) -> bool:
    """`rule`: a number, "any", or a dict of min, max, multiple_of, name (one name, one size)."""
    if isinstance(rule, dict):
        return (
            rule.get("min", 0) <= size <= rule.get("max", size)
            and size % rule.get("multiple_of", 1) == 0
            and sizes.setdefault(rule.get("name", str(id(rule))), size) == size
        )
    return bool(rule == "any" or rule == size)


# end
# if laid_out:
def _strides_at(sizes: Any, strides: Any, shape: Any) -> Any:
    """The strides of the verified calls at other sizes: each has grown as the dimensions within it have."""
    result = []
    for dim, stride in enumerate(strides):
        now, was = 1, 1
        for other, step in enumerate(strides):
            if step and (step, -other) < (stride, -dim):
                now, was = now * shape[other], was * sizes[other]
        result.append(-(-stride * now // was) if was else stride)
    return tuple(result)


# end
# if values:
def _digest(tensor: torch.Tensor) -> str:
    """Of what it holds: hashed once for each tensor and version, unknown in a graph capture."""
    import weakref

    version = None if tensor.is_inference() else tensor._version
    known, seen, digest = _DIGESTS.get(id(tensor), (None, None, ""))
    if known is None or known() is not tensor or version is None or seen != version:
        if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
            return "unknown"
        if len(_DIGESTS) > 64:
            _DIGESTS.clear()
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest = _hashlib.sha256(flat.numpy().tobytes()).hexdigest()
        _DIGESTS[id(tensor)] = weakref.ref(tensor), version, digest
    return digest


_DIGESTS: dict[int, tuple[Any, Any, str]] = {}
_VALUES_VERIFIED = "'values':" in repr(ENVELOPE_VERIFIED["input_sets"])


# end
def _is_plain(value: Any) -> bool:
    """Whether a change of this attribute can be seen by comparing values."""
    if isinstance(value, (list, tuple, set, frozenset, _collections.deque)):
        return all(map(_is_plain, value))
    if isinstance(value, (dict, _PROXY)):
        return all(map(_is_plain, (*value, *value.values())))
    if isinstance(value, _functools.partial):
        return all(map(_is_plain, (value.func, value.args, value.keywords)))
    plain = value is None or isinstance(value, _VALUES) or hasattr(value, "__qualname__")
    plain = plain or type(value).__module__ in ("decimal", "fractions", "datetime", "re")
    return plain or (hasattr(type(value), "tobytes") and value.nbytes <= 1 << 20)


def _spelled(value: Any) -> str:
    """`value` as text, the same for equal values of one type; what has none is equal to itself."""
    name = getattr(value, "__qualname__", "<")
    if isinstance(value, torch.jit.ScriptFunction):
        return f"a scripted function {value.inlined_graph}"
    if "<" not in name:
        return f"{getattr(value, '__module__', None)}.{name}"
    # if inner:
    if code := getattr(value, "__code__", None):
        return f"{name} {_meaning(code)}"
    # end
    # if attributes:
    if type(value) in (list, tuple) and _is_plain(value):
        inner = ", ".join(map(_spelled, value)) + "," * (type(value) is tuple and len(value) == 1)
        return f"({inner})" if type(value) is tuple else f"[{inner}]"
    # end
    if _is_plain(value) and isinstance(value, _functools.partial):
        return f"partial of {[*map(_spelled, (value.func, value.args, value.keywords))]}"
    if _is_plain(value) and isinstance(value, (dict, _PROXY)):
        return f"{ {_spelled(k): _spelled(v) for k, v in value.items()} }"
    if _is_plain(value) and isinstance(value, (set, frozenset)):
        return f"{type(value).__name__} of {sorted(map(_spelled, value))}"
    if hasattr(type(value), "tobytes"):
        digest = _hashlib.sha256(value.tobytes()).hexdigest()[:16]
        form = [getattr(value, name, "") for name in ("dtype", "shape")]
        return f"{type(value).__name__} {form} {digest}"
    return repr(value) if _is_plain(value) else f"<{type(value).__name__} {id(value):#x}>"


# if inner:
def _meaning(code: Any) -> str:
    """What a lambda or an inner function does, by its instructions that every Python has."""
    import dis

    told = list[str]()
    for line in dis.get_instructions(code):
        value = code.co_consts[line.arg or 0] if line.opname == "KW_NAMES" else line.argval
        if line.opname.startswith(("BINARY_OP", "COMPARE", "UNARY_", "IS_", "CONTAINS")):
            told.append(line.opname + line.argrepr.strip("bol()"))
            told += [str(line.arg)][: line.opname[:2] in ("IS", "CO") and not line.argrepr]
        elif "_IF_" in line.opname:
            told.append(line.opname.partition("_IF_")[2].removesuffix("_OR_POP"))
        elif line.opname.startswith(("LOAD", "STORE", "RETURN_C", "KW_")):
            told += [_meaning(x) if hasattr(x, "co_names") else _spelled(x) for x in _leaves(value)]
    return _hashlib.sha256(" ".join(told).encode(errors="replace")).hexdigest()[:16]


# end
_is_traced, _forward_ad = torch.compiler.is_dynamo_compiling, torch.autograd.forward_ad
_TensorGuards = getattr(getattr(torch._C._dynamo, "guards", None), "TensorGuards", None)
_leaves = torch.utils._pytree.tree_leaves
_FORMS = [(len(s["args"]), {*s.get("kwargs", {})}) for s in ENVELOPE_VERIFIED["input_sets"]]
# if binds:
_LEFT = frozenset(ENVELOPE_VERIFIED.get("leaves", ()))
# end
_TRAINED = "train" in ENVELOPE_VERIFIED["modes"]
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
_VALUES = (bool, int, float, str, bytes, complex, torch.dtype, torch.device, _enum.Enum)
_VALUES = (*_VALUES, range, slice, type(...), torch.memory_format, torch.layout)
_VALUES = (*_VALUES, torch.finfo, torch.iinfo)
_PROXY = type(vars(object))
_CHANGING = (list, tuple, dict, set, _functools.partial, _collections.deque, _PROXY)
_NO_SETTINGS = {"torch", "triton", "logging", "threading", "_thread", "weakref", "builtins"}
_FOREIGN = {*_NO_SETTINGS, "numpy", *_sys.stdlib_module_names} - {"__main__"}
_OPAQUE, _MOST = "nothing that can be compared", 2000
_BEHIND = {"cached_property": "func", "JITFunction": "fn", "Autotuner": "fn", "Heuristics": "fn"}
# What is called where no code names it.
_OPERATORS = {n for n in dir(torch.Tensor) if n[:2] == "__" and callable(getattr(torch.Tensor, n))}
_UNNAMED = "call get getattr getattribute missing enter exit next lt le gt ge".split()
_OPERATORS = _OPERATORS - {*dir(object)} | {f"__{name}__" for name in _UNNAMED}
_ANY_NAME = ("vars", "getattr", "__dict__", "attrgetter", "getmembers", "eval", "exec")
# if precision:
_rounding = torch._C._get_fp32_precision_getter
_PRODUCTS = ENVELOPE_VERIFIED.get("float32_matmul_precision", "highest")
_CONVOLUTIONS = "float32_convolutions" in ENVELOPE_VERIFIED


def _is_as_precise() -> bool:
    if _is_traced():
        # These names raise where the newer ones were used to set it, and Dynamo knows no others.
        products = torch.backends.cuda.matmul.allow_tf32
        convolutions = torch.backends.cudnn.allow_tf32
    else:
        products = _rounding("cuda", "matmul") == "tf32"
        convolutions = _rounding("cuda", "conv") == "tf32"
    if _PRODUCTS == "medium":
        products = torch.get_float32_matmul_precision() == "medium"
    return (products or _PRODUCTS == "highest") and (convolutions or not _CONVOLUTIONS)


# end
_NESTS = (list, tuple, dict, _functools.partial, _collections.deque, _PROXY)
_DTYPE = getattr(torch, ENVELOPE_VERIFIED.get("default_dtype", "float32"))
_INTERNAL = frozenset({*vars(torch.nn.Module()), "_is_torch_compile"})  # torch.compile's own
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# if draws:
_FILLING = ("normal_", "uniform_", "fill_", "zero_", "bernoulli_", "erfinv_", "copy_")
_FILLS = {getattr(torch.Tensor, name) for name in _FILLING}
# end
_REMEDIES = {
    "gradient": "Call it under torch.no_grad(), or verify it with --train.",
    "device": "Move the model and its inputs there.",
    "mode": "Call .eval(), or verify it with --train.",
    "autocast": "Leave autocast for this call, or give the module the dtype itself.",
    "default dtype": "Set torch's back around the call, or set it in the file that is optimized.",
    "hooks": "Remove the hook, or keep the original for such calls.",
}
