"""A candidate's kernels without its Python: the jit functions of its source text, and nothing else.

Functions are made from the syntax tree, one by one, with Triton and `math` in reach; what they say
has passed `vocabulary`. Their lines stay the candidate's.
"""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import linecache
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction

from kernelagent.tools.source_text import written
from kernelagent.tools.virtual.device.codec import OF_A_LIBRARY, UNKNOWN, decode
from kernelagent.tools.virtual.executor.definitions import (
    Definition,
    as_it_is,
    definitions,
    is_noinline,
    of_constants,
)
from kernelagent.tools.virtual.executor.refused_helpers import stand_in, surely_named
from kernelagent.tools.virtual.executor.vocabulary import (
    BUILTINS,
    Refused,
    check,
    may_be_named,
    resolve,
)

FILE_NAME = "candidate.py"


class UnknownKernel(Exception):
    """A kernel that is not written out in the candidate's source."""


class KernelSource:
    """The jit functions of one source text."""

    def __init__(self, source: str) -> None:
        text = source.replace("\r\n", "\n").replace("\r", "\n")
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            # The runner, which imports the text, says what is wrong with it.
            tree = ast.parse("")
        self._imports = _imports(tree)
        lines = [f"{line}\n" for line in text.split("\n")]
        self._definitions = tuple(definitions(tree, lines))
        self._loaded: dict[str, KernelModule] = {}
        linecache.cache[FILE_NAME] = (len(text), None, lines, FILE_NAME)

    def require_texts(self, texts: Iterable[Sequence[Any]]) -> None:
        """Raises `OtherText` unless Triton would compile what stands in the file."""
        own = {(item.name, item.line): item.node for item in self._definitions}
        for name, line, text in texts:
            node = own.get((str(name), int(line)))
            if node is not None and not same_text(node, str(text)):
                raise OtherText(
                    f"Triton would compile another text of `{name}` than the one at line {line} of the "
                    f"candidate's file"
                )

    def load(
        self, constants: Mapping[str, Any], fields: frozenset[str] = frozenset()
    ) -> KernelModule:
        """The kernels in a namespace that holds `constants` (as `codec.encode` wrote them).

        `fields`: names that named tuples among the kernels' values have for what they hold.
        """
        key = repr(
            (sorted(fields), sorted((name, repr(value)) for name, value in constants.items()))
        )
        if key not in self._loaded:
            self._loaded[key] = KernelModule(self._definitions, self._imports, constants, fields)
        return self._loaded[key]


class OtherText(Exception):
    """A jit function whose text is not the one that stands in the file."""


def same_text(node: ast.FunctionDef, text: str) -> bool:
    """Whether a text that Triton would compile is this definition, decorators and blanks aside."""
    try:
        parsed = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    if len(parsed) != 1 or not isinstance(parsed[0], ast.FunctionDef):
        return False
    both = [copy.copy(item) for item in (parsed[0], node)]
    for item in both:
        item.decorator_list = []
    return ast.dump(both[0]) == ast.dump(both[1])


@dataclass
class KernelModule:
    """The jit functions made from their definitions; finds them by name and line."""

    definitions: tuple[Definition, ...]
    imports: Mapping[str, Any]
    constants: Mapping[str, Any]
    fields: frozenset[str] = frozenset()
    _spaces: dict[tuple[tuple[int, ...], bool], dict[str, Any]] = field(default_factory=dict)
    """By the functions and classes around a definition, and whether it is of constants: kernels see no plain functions."""
    _made: dict[tuple[str, int], JITFunction[Any]] = field(default_factory=dict)
    _refused: dict[tuple[str, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.imports = _as_in_the_process(self.imports, self.constants)
        values = {n: t for n, t in self.constants.items() if not _is_named(t)}
        later = {name: reported for name, reported in values.items() if _names_function(reported)}
        decoded = {n: decode(t, self.function) for n, t in values.items() if n not in later}
        for definition in self.definitions:
            plain = definition.helps or of_constants(definition.node) is not None
            space = self._spaces.setdefault((definition.scope, plain), self._space(decoded))
            key = definition.name, definition.line
            try:
                self._made[key] = _made(definition, self.imports, space, self.fields)
            except (Refused, NameError, OSError, TypeError, ValueError) as error:
                self._refused[key] = str(error)
        for definition in sorted(self.definitions, key=lambda definition: len(definition.scope)):
            key = definition.name, definition.line
            value = self._made[key] if key in self._made else stand_in(self._why(key))
            for (scope, plain), space in self._spaces.items():
                reaches = plain or not definition.helps
                if reaches and scope[: len(definition.scope)] == definition.scope:
                    space[definition.name] = value
        for name, reported in self.constants.items():
            if isinstance(reported, dict) and OF_A_LIBRARY in reported and name in self.imports:
                # Triton's own takes the place of what the text defines by that name.
                for space in self._spaces.values():
                    space[name] = self.imports[name]
        for name, reported in later.items():
            value = decode(reported, self._called)
            for space in self._spaces.values():
                space[name] = value
        # A name has here what it has in the process, whatever else the text defines by it.
        for name in (name for name, reported in self.constants.items() if _is_named(reported)):
            for space in self._spaces.values():
                if name in self.imports:
                    space[name] = self.imports[name]
                else:
                    space.pop(name, None)

    @property
    def _keys(self) -> list[tuple[str, int]]:
        return [(item.name, item.line) for item in self.definitions]

    def _space(self, decoded: Mapping[str, Any]) -> dict[str, Any]:
        return {"__builtins__": BUILTINS, "__name__": "kernels", **self.imports, **decoded}

    def function(self, name: str, line: int) -> JITFunction[Any]:
        """The kernel `name` whose text begins at `line`; raises `UnknownKernel` or `Refused`."""
        key = self._known(name, line)
        for reached in self._reached(key):
            if reached in self._refused:
                raise Refused(self._why(reached))
        return self._made[key]

    def _called(self, name: str, line: int) -> Any:
        """What a kernel finds by that function's name; raises `UnknownKernel`."""
        key = self._known(name, line)
        return self._made[key] if key in self._made else stand_in(self._why(key))

    def _known(self, name: str, line: int) -> tuple[str, int]:
        key = name, line
        helps = {(item.name, item.line) for item in self.definitions if item.helps}
        if (key not in self._made and key not in self._refused) or key in helps:
            raise UnknownKernel(
                f"the kernel `{name}` is not written out at line {line} of the candidate's file; "
                f"kernels must be plain @triton.jit functions in its text"
            )
        return key

    def _why(self, key: tuple[str, int]) -> str:
        return f"`{key[0]}`: {self._refused[key]}"

    def _reached(self, start: tuple[str, int]) -> set[tuple[str, int]]:
        """The function and those its text names outside of branches, directly or through others."""
        reached, waiting = set(), [start]
        while waiting:
            key = waiting.pop()
            if key in reached:
                continue
            reached.add(key)
            node = next(item.node for item in self.definitions if (item.name, item.line) == key)
            waiting += [key for name in sorted({*surely_named(node)}) for key in self._meant(name)]
        return reached

    def _meant(self, name: str) -> list[tuple[str, int]]:
        """The definitions that a name may stand for: the one it has where the kernels are launched, else all of it."""
        reported = self.constants.get(name)
        if isinstance(reported, dict) and "function" in reported:
            found, line = reported["function"]
            return [key for key in self._keys if key == (str(found), int(line))]
        if _is_named(reported):
            return []
        return [key for key in self._keys if key[0] == name]


def _made(
    definition: Definition,
    imports: Mapping[str, Any],
    space: dict[str, Any],
    fields: frozenset[str],
) -> JITFunction[Any]:
    maker = as_it_is if definition.helps else of_constants(definition.node)
    check(definition.node, imports, of_constants=maker is not None, fields=fields)
    node = ast.FunctionDef(
        name=definition.node.name,
        args=_plain_arguments(definition.node.args, imports),
        body=definition.node.body,
        decorator_list=[],
        returns=None,
        type_comment=None,
    )
    tree = ast.Module([ast.copy_location(node, definition.node)], type_ignores=[])
    exec(compile(ast.fix_missing_locations(tree), FILE_NAME, "exec", dont_inherit=True), space)
    space[definition.name].__qualname__ = definition.qualified
    if maker is not None and definition.bound_again:
        # Python calls what the name stands for, and Triton would compile its answers.
        raise Refused(
            f"line {definition.node.lineno}: `{definition.name}` stands for something else, too: give what a kernel "
            f"has computed at compile time a name of its own"
        )
    if maker is not None:
        # Computes at compile time, on the numbers it is given; its text has passed the same check.
        for default in (*definition.node.args.defaults, *definition.node.args.kw_defaults):
            if default is not None and not _is_fixed(default):
                raise Refused(
                    f"line {default.lineno}: `{written(default)}` as a default of the "
                    f"function of constants `{definition.name}` keeps what one call leaves in it for the next"
                )
        function = space[definition.name]
        return maker(function if definition.helps else without_memory(function))
    made: JITFunction[Any] = triton.jit(
        space[definition.name], noinline=is_noinline(definition.node)
    )
    text = made.parse().body[0]
    if ast.dump(ast.Module(text.body, [])) != ast.dump(ast.Module(definition.node.body, [])):
        # Triton looks up the source text itself; it must have found the text that was checked.
        raise Refused(
            f"line {definition.node.lineno}: the text of `{definition.name}` is ambiguous"
        )
    if ast.dump(text.args) != ast.dump(definition.node.args):
        raise Refused(
            f"line {definition.node.lineno}: the parameters of `{definition.name}` are ambiguous"
        )
    return made


_MADE_ANEW = (
    ast.List, ast.ListComp, ast.Call, ast.NamedExpr, ast.Dict, ast.DictComp, ast.Set, ast.SetComp,
    ast.GeneratorExp,
)  # fmt: skip


def _is_fixed(default: ast.expr) -> bool:
    """Whether every call finds this default the same: it is neither a list nor made by a call."""
    return not any(isinstance(part, _MADE_ANEW) for part in ast.walk(default))


def without_memory(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; raises ValueError when a call changes what the next one is given.

    The compiler calls it once for each specialisation, an interpreter once for each program.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        reached = function.__globals__
        lists = {
            name: value
            for name, value in reached.items()
            if name != "__builtins__" and _holds_a_table(value)
        }
        before = copy.deepcopy((args, kwargs, lists))
        result = function(*args, **kwargs)
        kept = copy.deepcopy(result)
        again = function(*args, **kwargs)
        if (args, kwargs, lists) != before or again != kept:
            raise ValueError(
                f"the function of constants `{function.__name__}` changes a list that its next call finds "
                f"changed; what it returns must follow from its arguments"
            )
        return kept

    return called


def _holds_a_table(value: Any) -> bool:
    """Whether a call may change it, or what is in it."""
    if isinstance(value, tuple):
        return any(map(_holds_a_table, value))
    if isinstance(value, tl.constexpr):
        return _holds_a_table(value.value)
    return isinstance(value, list | dict | set)


def _plain_arguments(arguments: ast.arguments, imports: Mapping[str, Any]) -> ast.arguments:
    """The same parameters; annotations that mean nothing to Triton become strings."""

    def plain(parameter: ast.arg) -> ast.arg:
        known = parameter.annotation is None or resolve(parameter.annotation, imports) is not None
        if known or isinstance(parameter.annotation, ast.Constant):
            return parameter
        assert parameter.annotation is not None
        message = ast.Constant(written(parameter.annotation))
        return ast.copy_location(
            ast.arg(parameter.arg, ast.copy_location(message, parameter), None), parameter
        )

    return ast.arguments(
        posonlyargs=[plain(parameter) for parameter in arguments.posonlyargs],
        args=[plain(parameter) for parameter in arguments.args],
        vararg=arguments.vararg,
        kwonlyargs=[plain(parameter) for parameter in arguments.kwonlyargs],
        kw_defaults=arguments.kw_defaults,
        kwarg=arguments.kwarg,
        defaults=arguments.defaults,
    )


def _is_named(encoded: Any) -> bool:
    return isinstance(encoded, dict) and not encoded.keys().isdisjoint({OF_A_LIBRARY, UNKNOWN})


def _as_in_the_process(imports: Mapping[str, Any], constants: Mapping[str, Any]) -> dict[str, Any]:
    """What names of Triton's and `math`'s mean where the kernels are launched: the text may bind one several times."""
    result = dict(imports)
    for name, encoded in constants.items():
        # A value of the process's own takes the place of what the text imports by that name.
        result.pop(name, None)
        if isinstance(encoded, dict) and OF_A_LIBRARY in encoded:
            module_name, member = encoded[OF_A_LIBRARY]
            module = _module(str(module_name))
            value = getattr(module, str(member), None) if member else module
            if value is not None and may_be_named(value):
                result[name] = value
    return result


def _names_function(encoded: Any) -> bool:
    if isinstance(encoded, dict):
        return "function" in encoded or any(map(_names_function, encoded.values()))
    return isinstance(encoded, list) and any(map(_names_function, encoded))


def _imports(tree: ast.Module) -> dict[str, Any]:
    """What the text's imports of Triton and `math`, wherever they stand, and aliases of these mean."""
    result: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                result |= _imported(alias.name, alias.asname)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            result |= _imported_from(node.module, node.names)
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Attribute):
            value = resolve(statement.value, result)
            if value is not None and may_be_named(value):
                result |= {t.id: value for t in statement.targets if isinstance(t, ast.Name)}
    return result


def _imported(name: str, asname: str | None) -> dict[str, Any]:
    module = _module(name)
    if module is None:
        return {}
    return {asname: module} if asname else {name.split(".")[0]: _module(name.split(".")[0])}


def _imported_from(name: str, aliases: list[ast.alias]) -> dict[str, Any]:
    result, module = {}, _module(name)
    for alias in aliases:
        value = getattr(module, alias.name, None) or _module(f"{name}.{alias.name}")
        if value is not None and may_be_named(value):
            result[alias.asname or alias.name] = value
    return result


_KNOWN = {"math": math, "triton": triton, "torch": torch, "torch.version": torch.version}


def _module(name: str) -> Any:
    """A module kernels may use; importing others would run code that only the candidate asked for."""
    if name in _KNOWN:
        return _KNOWN[name]
    if not f"{name}.".startswith("triton.language."):
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
