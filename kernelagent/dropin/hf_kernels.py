"""The format `hf-kernels`: an emitted file as a folder that Hugging Face's `kernels` loads.

The folder has the source as kernel-builder takes it (`build.toml`, `torch-ext`), and the same files
built (`build/torch-cuda`): Triton is compiled where it runs, so that building is copying. `layers` maps
with `kernelize`; each layer is the drop-in, guard and all, of the module whose forward it replaces.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from kernelagent.domain.candidate import ENTRY_POINT
from kernelagent.domain.certificate import Certified
from kernelagent.domain.errors import UsageError
from kernelagent.domain.replies.parsing import parse
from kernelagent.dropin.emit import EmittedFile

BUILT = "build/torch-cuda"
EDITION = 5
"""Of the `build.toml` written here."""
DROPIN = "dropin.py"


@dataclass(frozen=True)
class Kernel:
    """What is exported."""

    name: str
    """Of the kernel: lower case, with dashes."""
    layer: str
    """The class that a model maps: the reference's name."""
    emitted: str
    """The emitted file's text; it carries its drop-in itself."""
    record: Certified
    forward: ast.arguments
    """The parameters of the reference's forward, which the layer's must equal."""

    @property
    def package(self) -> str:
        """The name that Python imports."""
        return self.name.replace("-", "_")


def export(emitted: EmittedFile, folder: Path) -> str:
    """Write the folder; returns how it is loaded. Raises `UsageError`."""
    kernel = kernel_from(emitted.text, emitted.record, folder, emitted.source, emitted.layer)
    write(kernel, folder)
    return (
        f"layer {kernel.layer}, card README.md; "
        f"kernels.LocalLayerRepository(Path({str(folder)!r}), layer_name={kernel.layer!r}) loads it"
    )


def kernel_from(emitted: str, record: Certified, folder: Path, source: str, layer: str) -> Kernel:
    """`source`, `layer`: the reference's text and class, empty where they are not known.

    The folder's name becomes the kernel's.

    Raises `UsageError` for a file that asks a package for its drop-in, and for a name that is none.
    """
    if "import kernelagent_runtime" in emitted:
        raise UsageError(
            "this file was written with --runtime package, and a kernel's folder stands alone; write "
            "it again without the option"
        )
    name = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")
    if not re.match(r"[a-z]", name):
        raise UsageError(f"{folder.name} names no kernel: let --out end in a word such as rms-norm")
    forward = _forward_in(source, layer) or _forward_in(emitted, ENTRY_POINT)
    if forward is None:
        raise UsageError(f"{ENTRY_POINT} has no forward in the emitted file")
    layer = layer or _layer_in(emitted) or "Layer"
    return Kernel(name, layer, emitted, record, forward)


def files_of(kernel: Kernel) -> dict[str, str]:
    """Every file of the folder by its path in it."""
    code = {
        "__init__.py": _init(kernel),
        "layers.py": _layers(kernel),
        DROPIN: kernel.emitted,
    }
    built = code | {f"{kernel.package}/__init__.py": _as_before(kernel)}
    return {
        "README.md": _card(kernel),
        "build.toml": _build(kernel),
        **{f"torch-ext/{kernel.package}/{name}": text for name, text in code.items()},
        **{f"{BUILT}/{name}": text for name, text in built.items()},
        f"{BUILT}/metadata.json": _metadata(kernel, built),
    }


def write(kernel: Kernel, folder: Path) -> None:
    """Write the folder; raises `UsageError` where there is something already that is not ours."""
    if folder.exists() and not (folder / BUILT / DROPIN).is_file() and any(folder.iterdir()):
        raise UsageError(f"{folder} holds something else; let --out name a new folder")
    for name, text in files_of(kernel).items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


def _init(kernel: Kernel) -> str:
    return f'''"""Kernels for {kernel.layer}, verified by kernelagent; see README.md."""

from . import layers
from .dropin import CERTIFICATE, ENVELOPE_VERIFIED, {ENTRY_POINT}, optimized

__all__ = ["CERTIFICATE", "ENVELOPE_VERIFIED", "{ENTRY_POINT}", "layers", "optimized"]
'''


def _layers(kernel: Kernel) -> str:
    return f'''"""The layer that `kernelize` maps."""

import inspect

import torch

from .dropin import optimized


def _answer(module, args, kwargs):
    """What the drop-in of `module` answers; it is made at the first call and kept on the module."""
    dropin = vars(module).get("_kernelagent_dropin")
    if dropin is None:
        # `kernelize` has put a forward on the instance: the drop-in is of the module without it.
        installed = vars(module).pop("forward", None)
        try:
            dropin = optimized(module)
        finally:
            if installed is not None:
                vars(module)["forward"] = installed
        vars(module)["_kernelagent_dropin"] = dropin
    return type(dropin).forward(dropin, *args, **kwargs)


class {kernel.layer}(torch.nn.Module):
    """Runs the kernels wherever they were verified, and the module's own forward everywhere else."""

    has_backward = {kernel.record.mode == "train"}
    can_torch_compile = False

    def forward(self, *args, **kwargs):
        return _answer(self, args, kwargs)

    # `kernelize` compares it with that of the layer it replaces.
    forward.__signature__ = inspect.signature(lambda {_parameters(kernel.forward)}: None)
'''


def _as_before(kernel: Kernel) -> str:
    """For versions of `kernels` that look for a folder of the kernel's name."""
    return f'''"""The same as the folder above, for older versions of `kernels`."""

import importlib.util
import sys
from pathlib import Path

_place = Path(__file__).parent.parent / "__init__.py"
_spec = importlib.util.spec_from_file_location("{_id(kernel)}", _place)
_module = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _module
_spec.loader.exec_module(_module)
globals().update({{name: getattr(_module, name) for name in _module.__all__}})
'''


def _build(kernel: Kernel) -> str:
    return f"""[general]
name = "{kernel.name}"
version = 1
edition = {EDITION}
license = "other"
backends = ["cuda"]

[torch-noarch]
pyext = ["py"]
"""


def _metadata(kernel: Kernel, files: dict[str, str]) -> str:
    digests = {
        name: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for name, text in sorted(files.items())
    }
    return (
        json.dumps(
            {
                "name": kernel.name,
                "id": _id(kernel),
                "version": 1,
                "license": "other",
                "python-depends": [],
                "backend": {"type": "cuda"},
                "digest": {"algorithm": "sha256", "files": digests},
            },
            indent=2,
        )
        + "\n"
    )


def _card(kernel: Kernel) -> str:
    spoken = ast.get_docstring(parse(kernel.emitted)) or ""
    return f"""---
library_name: kernels
license: other
tags:
- kernels
- triton
---

# {kernel.name}

```python
from pathlib import Path
from kernels import LocalLayerRepository, Mode, kernelize, replace_kernel_forward_from_hub, use_kernel_mapping

replace_kernel_forward_from_hub({kernel.layer}, "{kernel.layer}")  # your class, where it has no name yet
layer = LocalLayerRepository(Path("{kernel.name}"), layer_name="{kernel.layer}")
with use_kernel_mapping({{"{kernel.layer}": {{"cuda": layer}}}}):
    model = kernelize(model, mode=Mode.INFERENCE, device="cuda")
```

`kernelagent import {kernel.name} PROBLEM` judges it again against a reference of yours.
No license was chosen: the one of the module it replaces may bind you.

## Certificate of run {kernel.record.run}

```text
{spoken}
```
"""


def _layer_in(emitted: str) -> str:
    """The class the drop-in is for, as the first line of the emitted file has it."""
    spoken = ast.get_docstring(parse(emitted)) or ""
    named = re.match(r"A drop-in for (\w+):", spoken)
    return named[1] if named is not None else ""


def _id(kernel: Kernel) -> str:
    digest = hashlib.sha256(kernel.emitted.encode()).hexdigest()[:7]
    return f"_{kernel.package}_cuda_{digest}"


def _forward_in(source: str, name: str) -> ast.arguments | None:
    """The parameters of the class's own forward, where the text has it."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name == "forward":
                    return inner.args
    return None


def _parameters(given: ast.arguments) -> str:
    """Names and kinds; of a default only that there is one matters, and its text may need names."""
    none = ast.Constant(None)
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
        if argument is not None:
            argument.annotation = None
    return ast.unparse(
        ast.arguments(
            posonlyargs=given.posonlyargs,
            args=given.args,
            vararg=given.vararg,
            kwonlyargs=given.kwonlyargs,
            kw_defaults=[None if value is None else none for value in given.kw_defaults],
            kwarg=given.kwarg,
            defaults=[none for _ in given.defaults],
        )
    )
