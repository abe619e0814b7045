"""Makes torch and triton of this environment see the fake device; a `.pth` file imports it.

It does nothing unless LD_LIBRARY_PATH names a folder that holds the fake libraries, so the same
environment without it is a machine with a CUDA build of torch and no GPU.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

MARK = "machine"
"""The file beside the libraries that describes the machine."""


def folder() -> Path | None:
    """Where the fake libraries lie; None where the library path names no such place."""
    places = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    result = [Path(place) for place in places if place and Path(place, MARK).is_file()]
    return result[0] if result else None


def described(libraries: Path) -> dict[str, str]:
    """What the machine is said to be, by key."""
    lines = (libraries / MARK).read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines if " " in line)


_MODULES = frozenset({"torch", "triton", "torch._inductor.config"})


class Finder(importlib.abc.MetaPathFinder):
    """Lets the modules be found as ever, and adds the device to torch and triton once they are loaded."""

    def __init__(self, libraries: Path) -> None:
        self._libraries = libraries

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name not in _MODULES:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            if name == "torch":
                # torch's libraries name their folder before ours; what is loaded already they take.
                ctypes.CDLL(str(self._libraries / "libcudart.so.13"), ctypes.RTLD_GLOBAL)
            load(module)
            self._add(name, module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _add(self, name: str, module: Any) -> None:
        if name == "torch":
            from fake_cuda_hook import operators

            pace_s = float(described(self._libraries).get("operator_ms", "0")) / 1e3
            operators.install(pace_s, self._driver())
        elif name == "torch._inductor.config":
            # Inductor's own launcher loads images from its cache, past triton: nobody would know them.
            module.use_static_cuda_launcher = False
            module.compile_threads = 1
        else:
            from fake_cuda_hook import executing

            executor = executing.Executor()
            executing.install(executor)
            executor.serve(self._driver())

    def _driver(self) -> ctypes.CDLL:
        return ctypes.CDLL(str(self._libraries / "libcuda.so.1"), ctypes.RTLD_GLOBAL)


_found = folder()
if _found is not None:
    from fake_cuda_hook import clock

    clock.install(_found)
    sys.meta_path.insert(0, Finder(_found))
