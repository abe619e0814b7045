"""What a reference's code reads that the emitted module does not compare: a change there goes unnoticed.

Read off the code of its forwards and of what they call in their own files; nothing is run.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelagent.domain.problem import Remark
from kernelagent.tools.judge.problem.reference.guard_walk import walk

_ENVIRONMENT = {"environ", "getenv", "environb", "getenvb"}
_TOLD_WHOLE = ("torch.distributed", "torch.backends", "time", "random", "socket", "platform")
"""Files of whose functions and settings each tells of the process and not of its arguments."""
_TOLD = {
    "torch.is_grad_enabled",
    "torch._C.is_grad_enabled",
    "torch.is_inference_mode_enabled",
    "torch.are_deterministic_algorithms_enabled",
    "torch.is_deterministic_algorithms_warn_only_enabled",
    "torch.get_num_threads",
    "torch.initial_seed",
    "torch.get_rng_state",
    "torch.random.initial_seed",
    "torch.random.get_rng_state",
    "threading.current_thread",
    "threading.get_ident",
    "_thread.get_ident",
    "threading.active_count",
    "os.getpid",
    "os.cpu_count",
    "os.getcwd",
    "posix.getpid",
    "os.path.exists",
    "os.path.isfile",
    "sys.argv",
    "sys.flags",
    "sys._getframe",
    "gc.isenabled",
}
_WITH_STATE = {path.partition(".")[0] for path in (*_TOLD_WHOLE, *_TOLD)}
_OTHERS_MEMORY = {"from_numpy", "frombuffer", "from_dlpack"}
_MOST_TOLD = 8


def read_from_outside(module: torch.nn.Module, others: Iterable[str] = ()) -> tuple[Remark, ...]:
    """One remark that names all of it, and `others` that no code shows; none where there is nothing."""
    walked = walk(module)
    found = [*_by_code(walked.functions), *_by_constructors(module)]
    found += [*_modules_in_containers(module), *walked.left_out, *others]
    result = [*dict.fromkeys(found)]
    if not result:
        return ()
    more = len(result) - _MOST_TOLD
    told = ", ".join(result[:_MOST_TOLD]) + (f" and {more} more" if more > 0 else "")
    message = (
        f"your module reads {told}: the emitted module answers by kernel as it was verified, and "
        f"does not see a change there"
    )
    return (Remark("read_from_outside", message),)


def _by_code(functions: Iterable[FunctionType]) -> Iterator[str]:
    for function in functions:
        names = names_in(function.__code__)
        if names & _ENVIRONMENT:
            yield "the environment of the process"
        todo = [function.__globals__[name] for name in sorted(names & function.__globals__.keys())]
        for value in todo:
            if isinstance(value, ModuleType) and value.__name__.partition(".")[0] in _WITH_STATE:
                held = {name: vars(value)[name] for name in sorted(names & vars(value).keys())}
                inner = [one for one in held.values() if isinstance(one, ModuleType)]
                todo += [one for one in inner if all(one is not known for known in todo)]
                paths = [f"{value.__name__}.{n}" for n, v in held.items() if v not in inner]
            else:
                paths = [f"{getattr(value, '__module__', '')}.{getattr(value, '__name__', '')}"]
            yield from (f"what `{path}` tells" for path in paths if _tells_of_the_process(path))


def _tells_of_the_process(path: str) -> bool:
    file = path.rpartition(".")[0]
    return path in _TOLD or any(f"{file}.".startswith(f"{whole}.") for whole in _TOLD_WHOLE)


def _by_constructors(module: torch.nn.Module) -> Iterator[str]:
    for kind in dict.fromkeys(type(part) for part in module.modules()):
        if is_torchs(kind):
            continue
        for function in reached(kind, kind.__init__):
            if names_in(function.__code__) & _OTHERS_MEMORY:
                yield "memory that another library writes to (`from_numpy`)"


def reached(kind: type, start: Any) -> Iterator[FunctionType]:
    """The function, and those of the same file and class that it calls by their names."""
    todo: list[Any] = [start]
    seen: set[int] = set()
    while todo:
        member = todo.pop()
        function = inspect.unwrap(getattr(member, "fget", None) or member)
        if not isinstance(function, FunctionType) or id(function) in seen or is_torchs(function):
            continue
        seen.add(id(function))
        yield function
        for name in names_in(function.__code__):
            todo.append(inspect.getattr_static(kind, name, None))
            other = function.__globals__.get(name)
            if getattr(other, "__module__", None) == function.__module__:
                todo.append(other)


def names_in(code: CodeType) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return {*code.co_names, *code.co_freevars}.union(*map(names_in, inner))


def _modules_in_containers(module: torch.nn.Module) -> Iterator[str]:
    """Those in lists and dictionaries, which are no submodules."""
    parts = {id(part) for part in module.modules()}
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if name.startswith("_") or not isinstance(value, list | tuple | dict):
                continue
            if any(
                isinstance(v, torch.nn.Module) and id(v) not in parts for v in tree_leaves(value)
            ):
                yield f"the module in `{'.'.join(filter(None, (path, name)))}`"


def is_torchs(thing: Any) -> bool:
    """Whether a class or function was written in torch."""
    return (getattr(thing, "__module__", None) or "").split(".")[0] == "torch"
