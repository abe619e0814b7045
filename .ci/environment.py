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
GPU = Path("/dev/nvidiactl")


def main(arguments: list[str]) -> None:
    """Create `.venv` if it is missing, then install the package, with `--dev` the checks too."""
    if sys.version_info < OLDEST_PYTHON:
        found = sys.version.split()[0]
        sys.exit(f"Python 3.11 or newer is needed, {sys.executable} is {found}; make PYTHON=...")
    wanted = ".[dev]" if "--dev" in arguments else "."
    python = VENV / "bin" / "python"
    if not python.exists():
        _create(system_packages=bool(_reusable()))
    constraints = VENV / "constraints.txt"
    constraints.write_text(_constraints(), encoding="utf-8")
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
    """Versions of torch and triton outside any virtual environment, when both fit.

    With a GPU the package's ranges decide; the virtual device is made for the pinned triton.
    """
    if sys.prefix != sys.base_prefix:
        return {}
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = {}
    for name in REUSED:
        lowest = re.search(rf'"{name}>=([\d.]+)', text)
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            return {}
        if lowest is None or _release(found[name]) < _release(lowest[1]):
            return {}
    pinned = re.search(r"^triton==([\d.]+)", _pins(), re.MULTILINE)
    if not GPU.exists() and (pinned is None or _release(found["triton"]) != _release(pinned[1])):
        return {}
    return found


def _pins() -> str:
    return (ROOT / "constraints.txt").read_text(encoding="utf-8")


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])


def _constraints() -> str:
    """The pins; torch and triton as they are where the environment was made to reuse them."""
    pins = _pins().splitlines()
    settings = (VENV / "pyvenv.cfg").read_text(encoding="utf-8")
    reused = _reusable() if "include-system-site-packages = true" in settings else {}
    kept = [pin for pin in pins if pin.partition("==")[0] not in reused]
    return "\n".join([*kept, *(f"{name}=={found}" for name, found in reused.items())]) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
