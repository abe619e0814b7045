"""Makes `.venv` for the Makefile: pinned versions, or the torch this Python has when it fits.

Runs on the standard library alone, with whichever Python the Makefile was given.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLDEST_PYTHON = (3, 11)
REUSED = ("torch", "triton")


def main(arguments: list[str]) -> None:
    """Create `.venv` if it is missing, then install the package, with `--dev` the checks too."""
    if sys.version_info < OLDEST_PYTHON:
        result = sys.version.split()[0]
        sys.exit(f"Python 3.11 or newer is needed, {sys.executable} is {result}; make PYTHON=...")
    wanted = ".[dev]" if "--dev" in arguments else "."
    python = VENV / "bin" / "python"
    if not python.exists():
        _create(system_packages=bool(_reusable()))
    constraints = VENV / "constraints.txt"
    constraints.write_text(pinned_versions(), encoding="utf-8")
    command = [str(python), "-m", "pip", "install", "--quiet", "-c", str(constraints), "-e", wanted]
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode != 0:
        sys.exit("pip could not install the packages above; make goes on here once it can")


def _create(*, system_packages: bool) -> None:
    flags = ["--system-site-packages"] if system_packages else []
    done = subprocess.run([sys.executable, "-m", "venv", *flags, VENV], check=False)
    if done.returncode != 0:
        # Half an environment would look finished to the next call.
        shutil.rmtree(VENV, ignore_errors=True)
        sys.exit(f"{sys.executable} cannot make a virtual environment; install its venv package")


def _reusable() -> dict[str, str]:
    """Versions of torch and triton outside any virtual environment, when both are in the package's ranges."""
    if sys.prefix != sys.base_prefix:
        return {}
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    result = {}
    for name in REUSED:
        bounds = re.search(rf'"{name}>=([\d.]+)(?:,<([\d.]+))?', text)
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            return {}
        if bounds is None or not within(result[name], bounds[1], bounds[2]):
            return {}
    return result


def _pins() -> str:
    return (ROOT / "constraints.txt").read_text(encoding="utf-8")


def within(version: str, lowest: str, beyond: str | None) -> bool:
    release = _release(version)
    return _release(lowest) <= release and (beyond is None or release < _release(beyond))


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])


def pinned_versions() -> str:
    """The pins; torch and triton as they are where the environment was made to reuse them.

    A CUDA build of torch asks for exactly the triton that it was made with, so that no pin of ours may
    stand beside it; a CPU build asks for none, and the package's own range decides.
    """
    pins = [pin for pin in _pins().splitlines() if not pin.startswith("triton==")]
    settings = (VENV / "pyvenv.cfg").read_text(encoding="utf-8")
    reused = _reusable() if "include-system-site-packages = true" in settings else {}
    kept = [pin for pin in pins if pin.partition("==")[0] not in reused]
    return "\n".join([*kept, *(f"{name}=={result}" for name, result in reused.items())]) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
