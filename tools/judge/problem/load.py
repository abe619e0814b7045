"""Reads the user's problem: finds the module class and its input functions, and runs them on request.

Only the judge, the author and the process in which an emitted file is tried import this; the first two are trusted
with the user's code, the last runs it in the sandbox.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.memory_limit import is_lack_of_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
_DEFAULT_CLASS = "Model"
_IMPORTED_AS = "kernelagent_problem"


@dataclass(frozen=True)
class LoadedProblem:
    """The user's code, imported; each method runs it anew."""

    name: str
    source: str
    """What a model is shown."""
    entry_point: str
    constructor: Literal["init", "from_reference"]
    build: Callable[[], torch.nn.Module]
    """A fresh reference module; raises `ProblemError` with the module's own traceback."""
    init_args: Callable[[], Arguments]
    input_sets: Callable[[], Mapping[str, Arguments]]
    """Fresh inputs by set name, `default` when there is one set without a name."""
    check: Callable[..., bool] | None = None
    constant_inputs: bool = False
    """True when there is no generator, only example tensors."""
    disclosures: tuple[str, ...] = ()
    construct: Callable[[Arguments], torch.nn.Module] | None = None
    """The module with other constructor arguments; None for one that was built elsewhere."""


def load_problem(spec: ProblemSpec) -> LoadedProblem:
    """Import what `spec` names; raises `ProblemError` saying what was looked for and what was found."""
    if spec.bundle is not None:
        from kernelagent.tools.judge.problem.bundle import load_bundle

        return load_bundle(Path(spec.bundle))
    module = _import_file(Path(spec.path)) if spec.path else _import_name(str(spec.import_name))
    label = spec.label
    model_class = _find_class(module, spec.module, label)
    make_inputs = _find_function(module, spec.inputs, "get_inputs", "--inputs", label)
    if make_inputs is None:
        raise ProblemError(
            f"{label} has no function `get_inputs`; name the one that returns the example "
            f"arguments with --inputs NAME"
        )
    make_init = _find_function(module, spec.init, "get_init_inputs", "--init", label)
    check = _find_function(module, spec.check, None, "--check", label)

    def init_args() -> Arguments:
        if make_init is None:
            return (), {}
        with _users_code(f"{make_init.__name__}() of {label}"):
            return _as_arguments(make_init(), f"{make_init.__name__}()")

    def construct(arguments: Arguments) -> torch.nn.Module:
        args, kwargs = arguments
        hint = "" if make_init is not None else _INIT_HINT
        with _users_code(f"constructing {model_class.__name__} of {label}", hint):
            instance: torch.nn.Module = model_class(*args, **kwargs)
        from kernelagent.tools.judge.problem.state_entries import require_tensors

        require_tensors(instance, model_class.__name__)
        return instance

    def build() -> torch.nn.Module:
        return construct(init_args())

    def input_sets() -> Mapping[str, Arguments]:
        with _users_code(f"{make_inputs.__name__}() of {label}"):
            made = make_inputs()
        return as_input_sets(made, f"{make_inputs.__name__}()", keywords_of(model_class))

    return LoadedProblem(
        name=_problem_name(spec, model_class.__name__),
        source=_readable_source(module, model_class),
        entry_point=model_class.__name__,
        constructor="init" if _cross_as_data(init_args()) else "from_reference",
        build=build,
        init_args=init_args,
        input_sets=input_sets,
        check=check,
        construct=construct,
    )


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ProblemError(f"there is no file {path}; give the path of a Python file")
    text = path.read_text(encoding="utf-8")
    try:
        ast.parse(text, filename=str(path))
    except SyntaxError as error:
        raise ProblemError(
            f"{path} does not parse: line {error.lineno}: {error.msg}: {(error.text or '').strip()}"
        ) from error
    spec = importlib.util.spec_from_file_location(_IMPORTED_AS, path)
    if spec is None or spec.loader is None:
        raise ProblemError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_IMPORTED_AS] = module
    sys.path.insert(0, str(path.resolve().parent))
    with _users_code(f"importing {path}"):
        spec.loader.exec_module(module)
    return module


def _import_name(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        result = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        raise ProblemError(f"there is no module {error.name!r} (looked for {name})") from error
    if result is None:
        raise ProblemError(
            f"there is no file and no module {name!r}; give a path, or pkg.mod:Name importable "
            f"from the current folder"
        )
    with _users_code(f"importing {name}"):
        return importlib.import_module(name)


def _find_class(module: ModuleType, wanted: str | None, label: str) -> type[torch.nn.Module]:
    import torch

    every = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, torch.nn.Module)
    }
    own = {name: value for name, value in every.items() if value.__module__ == module.__name__}
    listed = ", ".join(own or every) or "none"
    if wanted is not None:
        value = getattr(module, wanted, None)
        if not (inspect.isclass(value) and issubclass(value, torch.nn.Module)):
            raise ProblemError(f"{label} has no nn.Module named {wanted!r}; found: {listed}")
        return value
    assigned = {name: every[name] for name in _assigned_names(module) if name in every}
    for classes in (own, assigned, every if not own else {}):
        if _DEFAULT_CLASS in classes:
            return classes[_DEFAULT_CLASS]
    own = own or assigned
    if not own and every:
        raise ProblemError(
            f"{label} defines no nn.Module and imports {', '.join(every)}; say which with "
            f"--module NAME, or write `Model = NAME` in it"
        )
    if not own:
        defined = ", ".join(n for n, v in vars(module).items() if inspect.isclass(v)) or "none"
        raise ProblemError(
            f"{label} defines no nn.Module; classes found: {defined}. A problem is a class that "
            f"derives from torch.nn.Module"
        )
    if len(own) > 1:
        raise ProblemError(
            f"{label} defines {len(own)} modules ({listed}) and none is called "
            f"{_DEFAULT_CLASS}; say which with --module NAME"
        )
    return next(iter(own.values()))


def _assigned_names(module: ModuleType) -> list[str]:
    """Names that the file's own assignments bind, an imported class's other name for one."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return []
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _find_function(
    module: ModuleType, wanted: str | None, default: str | None, flag: str, label: str
) -> Callable[..., Any] | None:
    name = wanted or default
    if name is None:
        return None
    result = getattr(module, name, None)
    if result is not None and not callable(result):
        raise ProblemError(f"{name!r} in {label} is not a function (from {flag})")
    if result is None and wanted is not None:
        functions = ", ".join(n for n, v in vars(module).items() if inspect.isfunction(v)) or "none"
        raise ProblemError(
            f"{label} has no function {wanted!r} (from {flag}); functions found: {functions}"
        )
    return result


def _as_arguments(made: Any, origin: str) -> Arguments:
    import torch

    if isinstance(made, torch.Tensor):
        return (made,), {}
    if isinstance(made, list | tuple):
        return tuple(made), {}
    if isinstance(made, dict) and made and set(made) <= {"args", "kwargs"}:
        return tuple(made.get("args", ())), dict(made.get("kwargs", {}))
    raise ProblemError(
        f"{origin} returned {type(made).__name__}; return a list of positional arguments, "
        f'{{"args": [...], "kwargs": {{...}}}}, a dict of forward\'s own argument names, or a dict of '
        f"several named input sets, each one of these"
    )


def _cross_as_data(arguments: Arguments) -> bool:
    """Whether these arguments can be serialised to construct `ModelNew`; a config object, for example, cannot.

    Where it cannot, `ModelNew.from_reference` receives the constructed module's state and attributes.
    """
    from kernelagent.tools.calls.tensors import NotPortable, pack

    try:
        pack(arguments, [])
    except NotPortable:
        return False
    return True


def keywords_of(model_class: type) -> tuple[frozenset[str], frozenset[str]]:
    """The names forward takes by keyword, and of them those it cannot do without."""
    forward: Any = vars(model_class).get("forward") or getattr(model_class, "forward", None)
    try:
        parameters = list(inspect.signature(forward).parameters.values())[1:]
    except (TypeError, ValueError):
        return frozenset(), frozenset()
    named = [
        p
        for p in parameters
        if p.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    ]
    return (
        frozenset(p.name for p in named),
        frozenset(p.name for p in named if p.default is inspect.Parameter.empty),
    )


def as_input_sets(
    made: Any,
    origin: str,
    keywords: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset()),
) -> Mapping[str, Arguments]:
    """Name the input sets in what an input function returned; raises `ProblemError`.

    `keywords`: what forward takes by name, and what it must be given. A dict of exactly these, each
    no list and no dict of its own, is one call with keywords; any other dict names input sets.
    """
    if isinstance(made, dict) and _is_one_call(made, keywords):
        return {"default": ((), dict(made))}
    if isinstance(made, dict) and not (made and set(made) <= {"args", "kwargs"}):
        _refuse_half_a_call(made, origin, keywords[0])
        if not made:
            raise ProblemError(f"{origin} returned an empty dict: there is no input set in it")
        return {
            str(name): ((), dict(value))
            if isinstance(value, dict) and _is_one_call(value, keywords)
            else _as_arguments(value, f"input set {name!r} of {origin}")
            for name, value in made.items()
        }
    return {"default": _as_arguments(made, origin)}


def _is_one_call(made: Mapping[Any, Any], keywords: tuple[frozenset[str], frozenset[str]]) -> bool:
    taken, needed = keywords
    plain = not any(isinstance(value, list | tuple | dict) for value in made.values())
    return bool(made) and plain and needed <= set(made) <= taken


def _refuse_half_a_call(made: Mapping[Any, Any], origin: str, taken: frozenset[str]) -> None:
    """Some of forward's arguments beside other names are a slip, no input sets."""
    unknown = [str(name) for name in made if name not in taken]
    plain = not any(isinstance(value, list | tuple | dict) for value in made.values())
    if plain and 0 < len(unknown) < len(made):
        raise ProblemError(
            f"{origin} returned a dict with {', '.join(unknown)}, which forward does not take; it "
            f"takes {', '.join(sorted(taken))}"
        )


def _problem_name(spec: ProblemSpec, class_name: str) -> str:
    stem = Path(spec.path).stem if spec.path else str(spec.import_name).rsplit(".", 1)[-1]
    return stem if class_name == _DEFAULT_CLASS else f"{stem}:{class_name}"


def _readable_source(module: ModuleType, model_class: type) -> str:
    try:
        if model_class.__module__ == module.__name__:
            return inspect.getsource(module)
        return inspect.getsource(model_class)
    except (OSError, TypeError):
        return f"# the source of {model_class.__qualname__} is not available\n"


def users_traceback(error: BaseException) -> str:
    """The error with the frames of the user's own files only; ours and torch's are left out."""
    ours = str(Path(__file__).resolve().parent.parent)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not str(Path(frame.filename).resolve()).startswith(ours)
        and "site-packages" not in frame.filename
        and not frame.filename.startswith("<frozen")
    ]
    shown = "".join(traceback.format_list(frames[-6:])).rstrip()
    last = "".join(traceback.format_exception_only(error)).strip()
    return f"{shown}\n{last}" if shown else last


_INIT_HINT = (
    "\nGive its constructor's arguments with a function `get_init_inputs` in the file that returns a "
    "list of them, or name another with --init NAME"
)
_PACKAGE_OF = {"cv2": "opencv-python", "PIL": "pillow", "sklearn": "scikit-learn", "yaml": "pyyaml"}
"""Packages whose name is another than that of the module in them."""


def _is_missing_package(name: str | None) -> bool:
    return name is not None and "." not in name and importlib.util.find_spec(name) is None


@contextmanager
def _users_code(doing: str, hint: str = "") -> Iterator[None]:
    """`hint`: said after a call whose arguments do not fit."""
    try:
        yield
    except (KeyboardInterrupt, ProblemError):
        raise
    except BaseException as error:  # the user's code may raise anything, SystemExit too
        if is_lack_of_memory(error):
            raise
        if isinstance(error, ModuleNotFoundError) and _is_missing_package(error.name):
            name = str(error.name)
            raise ProblemError(
                f"{doing} failed: there is no module {name!r} in this environment; "
                f"`pip install {_PACKAGE_OF.get(name, name)}`, or start where it can be imported"
            ) from error
        missing = isinstance(error, TypeError) and "required" in str(error)
        raise ProblemError(
            f"{doing} failed:\n{users_traceback(error)}{hint if missing else ''}"
        ) from error
