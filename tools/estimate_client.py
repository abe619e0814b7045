"""The controller's end of the estimating process: asks once, and never imports torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

import kernelagent
from kernelagent.domain import errors
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import EnvironmentFault, KernelAgentError
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.profile import ModuleEstimate, ReferenceProfile
from kernelagent.domain.serialization import from_data, to_data
from kernelagent.tools.versions import require_supported

_ROOT = str(Path(kernelagent.__file__).resolve().parent.parent)
# The root leaves the path again, so that `import tools` inside the user's code cannot reach ours.
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from kernelagent.tools.estimates.main import main; del sys.path[0]; main()"
)
_SECONDS = 600


@dataclass(frozen=True)
class Estimates:
    """What the process answered."""

    name: str
    """The problem's."""
    device: DeviceFacts
    estimates: tuple[ModuleEstimate, ...]
    reference: tuple[ReferenceProfile, ...]


def estimates_for(settings: JudgeSettings) -> Estimates | None:
    """The problem's estimates at full size; None where the machine has a GPU to measure with instead.

    Raises what the process could not do: `ProblemError`, `UsageError`, `EnvironmentFault`.
    """
    require_supported()
    request = {
        "problem": to_data(settings.problem),
        "device": settings.device,
        "target": settings.target,
        "memory_limit": settings.memory_limit,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _BOOT, _ROOT],
            input=msgspec.json.encode(request),
            stdout=subprocess.PIPE,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFault(
            f"the estimating process was not done after {_SECONDS} s: a forward of that many operations "
            f"cannot be estimated here; give a smaller problem with --inputs FUNCTION"
        ) from error
    if done.returncode != 0 or not done.stdout:
        raise EnvironmentFault(
            f"the estimating process ended with exit status {done.returncode}; its own words stand "
            f"above on stderr"
        )
    answer: dict[str, Any] = msgspec.json.decode(done.stdout)
    if "fault" in answer:
        kind = getattr(errors, str(answer["fault"]), EnvironmentFault)
        raise (
            kind(answer["message"])
            if issubclass(kind, KernelAgentError)
            else EnvironmentFault(str(answer["message"]))
        )
    if answer.get("cuda"):
        return None
    return Estimates(
        str(answer["name"]),
        from_data(answer["device"], DeviceFacts),
        tuple(from_data(row, ModuleEstimate) for row in answer["estimates"]),
        tuple(from_data(row, ReferenceProfile) for row in answer["reference"]),
    )
