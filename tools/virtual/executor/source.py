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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import triton
from triton.runtime.jit import JITFunction

from kernelagent.tools.virtual.device.codec import decode
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


@dataclass(frozen=True)
class Definition:
    """One jit function as it stands in the text."""

    node: ast.FunctionDef
    scope: tuple[int, ...]
    """Lines of the functions and classes around it, outermost first."""

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def line(self) -> int:
        """Its first line, decorators included."""
        return min([self.node.lineno, *(item.lineno for item in self.node.decorator_list)])


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
        self._definitions = tuple(_definitions(tree))
        self._loaded: dict[str, KernelModule] = {}
        lines = [f"{line}\n" for line in text.split("\n")]
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

    def load(self, constants: Mapping[str, Any]) -> KernelModule:
        """The kernels in a namespace that holds `constants` (as `codec.encode` wrote them)."""
        key = repr(sorted((name, repr(value)) for name, value in constants.items()))
        if key not in self._loaded:
            self._loaded[key] = KernelModule(self._definitions, self._imports, constants)
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
    _spaces: dict[tuple[int, ...], dict[str, Any]] = field(default_factory=dict)
    _made: dict[tuple[str, int], JITFunction[Any]] = field(default_factory=dict)
    _refused: dict[tuple[str, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        later = {
            name: reported for name, reported in self.constants.items() if _names_function(reported)
        }
        decoded = {n: decode(t, self.function) for n, t in self.constants.items() if n not in later}
        for definition in self.definitions:
            space = self._spaces.setdefault(definition.scope, self._space(decoded))
            key = definition.name, definition.line
            try:
                self._made[key] = _made(definition, self.imports, space)
            except (Refused, NameError, OSError, TypeError, ValueError) as error:
                self._refused[key] = str(error)
        for definition in sorted(self.definitions, key=lambda definition: len(definition.scope)):
            for scope, space in self._spaces.items():
                if (
                    scope[: len(definition.scope)] == definition.scope
                    and (definition.name, definition.line) in self._made
                ):
                    space[definition.name] = self._made[definition.name, definition.line]
        for name, reported in later.items():
            value = decode(reported, self.function)
            for space in self._spaces.values():
                space[name] = value

    def _space(self, decoded: Mapping[str, Any]) -> dict[str, Any]:
        return {"__builtins__": BUILTINS, "__name__": "kernels", **self.imports, **decoded}

    def function(self, name: str, line: int) -> JITFunction[Any]:
        """The kernel `name` whose text begins at `line`; raises `UnknownKernel` or `Refused`."""
        key = name, line
        if key not in self._made and key not in self._refused:
            raise UnknownKernel(
                f"the kernel `{name}` is not written out at line {line} of the candidate's file; "
                f"kernels must be plain @triton.jit functions in its text"
            )
        for reached in self._reached(key):
            if reached in self._refused:
                raise Refused(f"`{reached[0]}`: {self._refused[reached]}")
        return self._made[key]

    def _reached(self, start: tuple[str, int]) -> set[tuple[str, int]]:
        """The function and those its text names, directly or through others."""
        reached, waiting = set(), [start]
        while waiting:
            key = waiting.pop()
            if key in reached:
                continue
            reached.add(key)
            node = next(item.node for item in self.definitions if (item.name, item.line) == key)
            names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            waiting += [(d.name, d.line) for d in self.definitions if d.name in names]
        return reached


def _made(
    definition: Definition, imports: Mapping[str, Any], space: dict[str, Any]
) -> JITFunction[Any]:
    check(definition.node, imports)
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
    if _is_constexpr(definition.node):
        # Computes at compile time, on the numbers it is given; its text has passed the same check.
        for default in (*definition.node.args.defaults, *definition.node.args.kw_defaults):
            if default is not None and not _is_fixed(default):
                raise Refused(
                    f"line {default.lineno}: `{ast.unparse(default)}` as a default of the "
                    f"constexpr_function `{definition.name}` keeps what one call leaves in it for the next"
                )
        return triton.constexpr_function(without_memory(space[definition.name]))
    made: JITFunction[Any] = triton.jit(
        space[definition.name], noinline=_is_noinline(definition.node)
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


def _is_fixed(default: ast.expr) -> bool:
    """Whether every call finds this default the same: it is neither a list nor made by a call."""
    return not any(
        isinstance(part, ast.List | ast.ListComp | ast.Call | ast.NamedExpr)
        for part in ast.walk(default)
    )


def without_memory(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; raises ValueError when a call changes what the next one is given.

    The compiler calls it once for each specialisation, an interpreter once for each program.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        reached = function.__globals__
        lists = {name: value for name, value in reached.items() if isinstance(value, list)}
        before = copy.deepcopy((args, kwargs, lists))
        result = function(*args, **kwargs)
        kept = copy.deepcopy(result)
        again = function(*args, **kwargs)
        if (args, kwargs, lists) != before or again != kept:
            raise ValueError(
                f"the constexpr_function `{function.__name__}` changes a list that its next call finds "
                f"changed; what it returns must follow from its arguments"
            )
        return kept

    return called


def _plain_arguments(arguments: ast.arguments, imports: Mapping[str, Any]) -> ast.arguments:
    """The same parameters; annotations that mean nothing to Triton become strings."""

    def plain(parameter: ast.arg) -> ast.arg:
        known = parameter.annotation is None or resolve(parameter.annotation, imports) is not None
        if known or isinstance(parameter.annotation, ast.Constant):
            return parameter
        assert parameter.annotation is not None
        message = ast.Constant(ast.unparse(parameter.annotation))
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


def _is_noinline(node: ast.FunctionDef) -> bool:
    return any(
        word.arg == "noinline" and isinstance(word.value, ast.Constant) and bool(word.value.value)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        for word in decorator.keywords
    )


def _names_function(encoded: Any) -> bool:
    if isinstance(encoded, dict):
        return "function" in encoded or any(map(_names_function, encoded.values()))
    return isinstance(encoded, list) and any(map(_names_function, encoded))


def _definitions(tree: ast.Module) -> Iterator[Definition]:
    wrapped = {
        call.args[0].id
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and _is_jit(call.func)
        and call.args
        and isinstance(call.args[0], ast.Name)
    }

    def below(node: ast.AST, scope: tuple[int, ...]) -> Iterator[Definition]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef) and (
                any(map(_is_jit, child.decorator_list))
                or child.name in wrapped
                or _is_constexpr(child)
            ):
                yield Definition(child, scope)
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from below(child, (*scope, child.lineno))
            else:
                yield from below(child, scope)

    return below(tree, ())


def _is_constexpr(node: ast.FunctionDef) -> bool:
    names = (
        item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "")
        for item in node.decorator_list
    )
    return "constexpr_function" in names


def _is_jit(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return _is_jit(node.func)
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) == "jit"


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


def _module(name: str) -> Any:
    """A module kernels may use; importing others would run code that only the candidate asked for."""
    if name == "math":
        return math
    if name == "triton":
        return triton
    if not f"{name}.".startswith("triton.language."):
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
