"""`--runtime package`: the emitted file imports its guard from the package `kernelagent-runtime`.

What stays in the file is the candidate, what was verified, and how `ModelNew` is made. The package is
asked when `optimized` is called, so that the kernels can be read, judged and used without it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Literal

from kernelagent.domain.errors import UsageError

Runtime = Literal["inline", "package"]
PACKAGE = "kernelagent_runtime"
NAMES = frozenset(
    {"optimized", "_dropin", "_assembled", "__getattr__", "Any", "torch", "_construct"}
)
"""What the file defines besides the candidate's own names."""
SECTION = """\
def optimized(module: torch.nn.Module, fast: torch.nn.Module | None = None) -> torch.nn.Module:
    \"\"\"A drop-in for `module` that runs `ModelNew` wherever that was verified.

    It is an instance of `type(module)` and lives on the same state, object for object. Calls outside
    `ENVELOPE_VERIFIED` run the original forward, with one warning for each reason. `.original` gives
    `module` back. `fast`: a `ModelNew` you constructed yourself.
    Raises TypeError when `module` is not what was verified.
    \"\"\"
    dropin: torch.nn.Module = _dropin().optimized(module, fast)
    return dropin


def _dropin() -> Any:
    try:
        import kernelagent_runtime
    except ModuleNotFoundError as error:
        raise ImportError(
            "this drop-in needs the package kernelagent-runtime: pip install kernelagent-runtime"
        ) from error
    return kernelagent_runtime.dropin_of(__name__, ENVELOPE_VERIFIED, _construct, _assembled)


def _assembled(*parts: Any) -> Any:
    return _dropin().build(*parts)


def __getattr__(name: str) -> Any:
    if name == "OutsideEnvelopeWarning":
        return _dropin().OutsideEnvelopeWarning
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")"""


def require_package() -> None:
    """Raises `UsageError` where the result could not be used here."""
    if importlib.util.find_spec(PACKAGE) is None:
        place = Path(__file__).resolve().parent.parent / "runtime"
        source = str(place) if (place / "pyproject.toml").is_file() else "kernelagent-runtime"
        raise UsageError(
            f"--runtime package needs the package kernelagent-runtime: pip install {source}; or leave "
            f"the option out, and the file carries the same lines itself"
        )
