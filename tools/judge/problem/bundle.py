"""A live module on disk: what a library call hands to the judge, and what `--resume` finds again.

The class travels by cloudpickle (by value where no other process can import it: `__main__`, a
notebook, a file loaded by its path), tensors as safetensors, so weights are stored once, and their strides beside
them. The bundle is the user's own and trusted like their module.
"""

from __future__ import annotations

import inspect
import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import cloudpickle
import torch
from safetensors.torch import load_file, save_file
from torch.nn.utils import parametrize

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.judge.problem.load import (
    Arguments,
    LoadedProblem,
    as_input_sets,
    keywords_of,
)
from kernelagent.tools.judge.problem.reference.read_from_outside import is_torchs
from kernelagent.tools.judge.problem.trials.layouts import with_strides

_MODULE, _INPUTS, _MODULE_TENSORS, _INPUT_TENSORS, _FACTS = (
    "module.pkl",
    "inputs.pkl",
    "module.safetensors",
    "inputs.safetensors",
    "bundle.json",
)


def save_bundle(folder: Path, module: torch.nn.Module, example_inputs: Any) -> None:
    """Write `module` and its inputs; raises `ProblemError` for what cannot be kept."""
    folder.mkdir(parents=True, exist_ok=True)
    _refuse_unsupported(module)
    try:
        with _by_value(module):
            _save(folder / _MODULE, folder / _MODULE_TENSORS, module)
            _save(folder / _INPUTS, folder / _INPUT_TENSORS, example_inputs)
    except Exception as error:  # pickling runs the user's own reducers
        raise ProblemError(
            f"this {type(module).__name__} cannot be handed to the judge's process: "
            f"{type(error).__name__}: {error}. Define the class in a file and use its path"
        ) from error
    facts = {
        "class": type(module).__name__,
        "source": _source_of(module),
        "sys_path": [str(Path(entry or ".").resolve()) for entry in sys.path],
    }
    (folder / _FACTS).write_text(json.dumps(facts), encoding="utf-8")


def load_bundle(folder: Path) -> LoadedProblem:
    """Read a bundle back; raises `ProblemError` when it is incomplete."""
    if not (folder / _FACTS).is_file():
        raise ProblemError(f"there is no saved module in {folder}")
    facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
    sys.path.extend(entry for entry in facts["sys_path"] if entry not in sys.path)

    def build() -> torch.nn.Module:
        module: torch.nn.Module = _load(folder / _MODULE, folder / _MODULE_TENSORS)
        return module

    def input_sets() -> Mapping[str, Arguments]:
        made = _load(folder / _INPUTS, folder / _INPUT_TENSORS)
        return as_input_sets(made, "example_inputs", keywords_of(type(build())))

    return LoadedProblem(
        name=facts["class"],
        source=facts["source"],
        entry_point=facts["class"],
        constructor="from_reference",
        build=build,
        init_args=lambda: ((), {}),
        input_sets=input_sets,
        constant_inputs=True,
    )


@contextmanager
def _by_value(module: torch.nn.Module) -> Iterator[None]:
    """Classes of files that no other process can import by name travel with their code."""
    kinds = {type(value) for part in module.modules() for value in (part, *vars(part).values())}
    known = {"__main__", *cloudpickle.list_registry_pickle_by_value()}
    names = {kind.__module__ for kind in kinds} - known
    homes = [sys.modules[name] for name in names if name in sys.modules and not _importable(name)]
    for home in homes:
        cloudpickle.register_pickle_by_value(home)
    try:
        yield
    finally:
        for home in homes:
            cloudpickle.unregister_pickle_by_value(home)


def _importable(name: str) -> bool:
    """Whether a new process finds a module of this name; `sys.modules` may hold any."""
    first = name.partition(".")[0]
    if first in sys.builtin_module_names or first in sys.stdlib_module_names:
        return True
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    return any(finder.find_spec(first, None) is not None for finder in finders)


class _Writer(cloudpickle.Pickler):  # type: ignore[misc]
    """Leaves tensors out of the pickle and keeps them by number; a shared tensor stays shared."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.tensors: list[torch.Tensor] = []

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, torch.Tensor) or type(obj) not in (torch.Tensor, torch.nn.Parameter):
            return None
        at = next((i for i, known in enumerate(self.tensors) if known is obj), None)
        if at is None:
            self.tensors.append(obj)
            at = len(self.tensors) - 1
        parameter = isinstance(obj, torch.nn.Parameter)
        return ("tensor", at, parameter, obj.requires_grad, tuple(obj.stride()))

    def reducer_override(self, obj: Any) -> Any:
        """A parametrized module, as `weight_norm` makes one, whose class torch has made for it alone and does not pickle."""
        if isinstance(obj, torch.nn.Module) and parametrize.is_parametrized(obj):
            kind, names = type(obj).__bases__[0], tuple(vars(obj)["_modules"]["parametrizations"])
            return _parametrized, (kind, names, dict(vars(obj)))
        return super().reducer_override(obj)


def _parametrized(
    kind: type[torch.nn.Module], names: tuple[str, ...], state: dict[str, Any]
) -> torch.nn.Module:
    made = kind.__new__(kind)
    vars(made).update(state)
    # As `register_parametrization` does it; torch has no other way to make such a class again.
    parametrize._inject_new_class(made)
    for name in names:
        parametrize._inject_property(made, name)
    return made


def _save(path: Path, tensors: Path, value: Any) -> None:
    buffer = io.BytesIO()
    writer = _Writer(buffer)
    writer.dump(value)
    path.write_bytes(buffer.getvalue())
    kept = {str(i): t.detach().cpu().clone().contiguous() for i, t in enumerate(writer.tensors)}
    save_file(kept, tensors)


def _load(path: Path, tensors: Path) -> Any:
    import pickle

    values = load_file(tensors)
    made: dict[int, torch.Tensor] = {}

    class Reader(pickle.Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            # A bundle of before has no strides: its tensors were saved row by row.
            _, at, parameter, requires_grad, *kept = pid
            if at not in made:
                plain = values[str(at)]
                if kept and kept[0] != plain.stride():
                    plain = with_strides(plain, kept[0])
                made[at] = (
                    torch.nn.Parameter(plain, requires_grad=requires_grad) if parameter else plain
                )
            return made[at]

    return Reader(io.BytesIO(path.read_bytes())).load()


def _source_of(module: torch.nn.Module) -> str:
    seen: dict[type, str] = {}
    for part in module.modules():
        kind = type(part)
        if kind in seen or is_torchs(kind):
            continue
        try:
            seen[kind] = inspect.getsource(kind)
        except (OSError, TypeError):
            seen[kind] = f"# the source of {kind.__qualname__} is not available\n"
    shown = "\n".join(f"# {line}" for line in repr(module).splitlines())
    return "\n\n".join((*reversed(seen.values()), f"# the live module:\n{shown}"))


def _refuse_unsupported(module: torch.nn.Module) -> None:
    for name, part in module.named_modules():
        kind = f"{type(part).__module__}.{type(part).__qualname__}"
        if "quantized" in kind or "FullyShardedDataParallel" in kind:
            raise ProblemError(f"{name or 'the module'} is a {kind}: not supported yet")
    for name, tensor in module.state_dict().items():
        if isinstance(tensor, torch.Tensor) and (tensor.is_sparse or tensor.is_quantized):
            word = "sparse" if tensor.is_sparse else "quantised"
            raise ProblemError(f"{name} is a {word} tensor: not supported yet")
