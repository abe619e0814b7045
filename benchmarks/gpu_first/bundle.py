"""Makes the folder that a GPU machine without a network needs: `make gpu-bundle`.

    python -m benchmarks.gpu_first.bundle [--out build/gpu-bundle] [--python 3.12]

The folder holds what the checkout imports besides torch and triton, for one Python on Linux x86-64.
On the other machine, where torch and triton are installed, in the checkout, with the folder in it:

    PYTHONPATH=$PWD:$PWD/build/gpu-bundle python3 -m benchmarks.gpu_first --minutes 9
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu_first.plan import ROOT

MOST_BYTES = 64 << 20
NAMES = (
    "annotated-doc", "annotated-types", "click", "cloudpickle", "gitdb", "GitPython", "hypothesis", "iniconfig",
    "Jinja2", "markdown-it-py", "MarkupSafe", "mdurl",
    "msgspec", "numpy", "packaging", "platformdirs", "pluggy", "pydantic", "pydantic_core", "Pygments", "pytest",
    "pytest-timeout", "rich", "safetensors", "shellingham", "smmap", "sortedcontainers",
    "typer", "typing-inspection", "typing_extensions",
)  # fmt: skip
"""What the product and tests/gpu import, but for the screens; torch brings what it needs itself."""
_PLATFORMS = (
    "manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64",
    "manylinux2014_x86_64", "manylinux1_x86_64",
)  # fmt: skip
_LEFT_OUT = (
    "bin", "numpy/**/tests", "numpy/f2py", "numpy/_core/include", "numpy/_core/_simd.*",
    "numpy/_core/*_tests.*", "**/*.a", "**/*.pxd", "**/*.pyi", "**/__pycache__", "pydantic/v1",
)  # fmt: skip
"""Parts that nothing here runs."""
_LEXERS = frozenset({"__init__", "_mapping", "diff", "python", "special"})
"""What is left of the languages that Pygments can colour: pytest and tracebacks use them."""
_NEVER = ("torch", "triton", "nvidia")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_first.bundle")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu-bundle")
    parser.add_argument("--python", default="3.12", help="of the machine that it is for")
    options = parser.parse_args(arguments)
    if options.out.exists():
        shutil.rmtree(options.out)
    install(options.out, options.python)
    size = prune(options.out)
    if size > MOST_BYTES:
        raise SystemExit(f"{options.out} has {size >> 20} MiB, more than {MOST_BYTES >> 20}")
    print(f"{options.out}: {size / 2**20:.1f} MiB for Python {options.python}, without torch")
    return 0


def install(folder: Path, python: str) -> None:
    """The pinned versions of `NAMES`, as wheels for that Python."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    command += ["--target", str(folder), "--only-binary=:all:", "--implementation", "cp"]
    command += ["--python-version", python]
    for platform in _PLATFORMS:
        command += ["--platform", platform]
    done = subprocess.run([*command, *pinned(NAMES)], check=False)
    if done.returncode != 0:
        raise SystemExit(f"pip could not install the packages for Python {python} into {folder}")


def pinned(names: Sequence[str]) -> list[str]:
    """`name==version` as constraints.txt has them; raises SystemExit for a name that it lacks."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {line.partition("==")[0].lower(): line for line in lines if "==" in line}
    missing = [name for name in names if name.lower() not in pins]
    if missing:
        raise SystemExit(f"constraints.txt does not pin {', '.join(missing)}")
    return [pins[name.lower()] for name in names]


def prune(deps: Path) -> int:
    """Take out what nothing here runs; returns the bytes that are left."""
    for pattern in _LEFT_OUT:
        for path in list(deps.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()
    for path in deps.glob("pygments/lexers/*.py"):
        if path.stem not in _LEXERS:
            path.unlink()
    present = [name for name in _NEVER if (deps / name).exists()]
    if present:
        raise SystemExit(f"{deps} holds {', '.join(present)}, which the GPU machine has itself")
    return size_of(deps)


def size_of(folder: Path) -> int:
    """Bytes of the files below `folder`."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    raise SystemExit(main())
