"""The process that estimates a module: reads one request from stdin, writes one answer to stdout.

It imports the user's module and runs its forward on `meta`; the controller does neither.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from kernelagent.domain.errors import EnvironmentFault, KernelAgentError
from kernelagent.domain.estimated import Estimated
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.profile import (
    ForwardEstimate,
    Mode,
    ModuleEstimate,
    PartEstimate,
    ReferenceProfile,
)
from kernelagent.domain.serialization import from_data, to_data
from kernelagent.tools.estimates.building import Described
from kernelagent.tools.estimates.least import Least, facts_of_least, least_of, least_us
from kernelagent.tools.estimates.library import Forward, Library, Way, by_operation, library_for
from kernelagent.tools.estimates.modules import described, traced
from kernelagent.tools.judge.problem.memory_limit import (
    first_to_go,
    hold_to,
    is_lack_of_memory,
    lack_of_memory,
    limit_of,
)
from kernelagent.tools.virtual.cost.ceilings import ceilings_for


def main() -> None:
    """Answer the request on stdin; what the user's module prints goes to stderr."""
    first_to_go()
    request = msgspec.json.decode(sys.stdin.buffer.read())
    limit = limit_of(request["memory_limit"])
    out = os.dup(1)
    os.dup2(2, 1)
    with contextlib.redirect_stdout(sys.stderr):
        try:
            answer = answer_to(request, limit)
        except KernelAgentError as error:
            answer = {"fault": type(error).__name__, "message": str(error)}
        except (MemoryError, RuntimeError, OSError) as error:
            if not is_lack_of_memory(error):
                raise
            message = lack_of_memory(limit, "estimating")
            answer = {"fault": EnvironmentFault.__name__, "message": message}
    with os.fdopen(out, "wb") as stream:
        stream.write(msgspec.json.encode(answer))


def answer_to(request: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The estimates of a problem, or `cuda` when the machine has a GPU that would be asked instead.

    From then on this process may take `limit` bytes more.
    """
    import torch

    from kernelagent.tools.judge.problem.devices import open_device

    if request["device"] != "virtual" and torch.cuda.is_available():
        return {"cuda": True}
    spec = from_data(request["problem"], ProblemSpec)
    hold_to(limit)
    device = open_device("virtual", request["target"])
    library = library_for(ceilings_for(request["target"]))
    estimates, reference = estimates_of(spec, library)
    return {
        "name": Path(spec.path).stem if spec.path else spec.label,
        "device": to_data(device.facts),
        "estimates": [to_data(item) for item in estimates],
        "reference": [to_data(item) for item in reference],
    }


def estimates_of(
    spec: ProblemSpec, library: Library
) -> tuple[list[ModuleEstimate], list[ReferenceProfile]]:
    """Every input set as built, and in eval mode where that differs; and the profile in eval mode.

    Raises `ProblemError` for a module that does not run without contents.
    """
    estimates, reference = [], []
    for name, result in described(spec).items():
        made = traced(result.module, result.args, result.kwargs)
        result.module.eval()
        quiet = traced(result.module, result.args, result.kwargs)
        same = [(o.name, o.facts) for o in made] == [(o.name, o.facts) for o in quiet]
        least = least_of(quiet, library.gpu)
        modes: list[tuple[Mode, Any]] = [("as built", made)]
        if not same:
            modes.append(("eval", quiet))
        for mode, operations in modes:
            eager, compiled = library.eager(operations), library.compiled(operations)
            needed = least_of(operations, library.gpu)
            estimates.append(
                ModuleEstimate(
                    name,
                    _arguments(result),
                    mode,
                    _forward(eager, library, "eager"),
                    _forward(compiled, library, "compiled"),
                    _rounded(eager.us.over(compiled.us)),
                    round(least_us(needed, eager.us.value, library), 3),
                )
            )
        reference.append(_profile(name, result, library.eager(quiet), least, library))
    return estimates, reference


def _forward(forward: Forward, library: Library, way: Way) -> ForwardEstimate:
    import math

    device = sum(part.us for part in forward.parts)
    parts = []
    for part in forward.parts:
        wide = math.exp(library.spread_of(part, way))
        parts.append(
            PartEstimate(
                name=part.name,
                us=_rounded(Estimated.within(max(part.us, 1e-3), 1 / wide, wide)),
                share=round(part.us / device, 4) if device else 0.0,
                bound=part.bound,
                kernels=part.kernels,
                moved_bytes=part.moved_bytes,
                flops=part.flops,
            )
        )
    return ForwardEstimate(_rounded(forward.us), forward.bound, tuple(parts))


def _rounded(estimate: Estimated) -> Estimated:
    return Estimated(round(estimate.value, 4), round(estimate.low, 4), round(estimate.high, 4))


def _profile(
    name: str, outcome: Described, eager: Forward, least: Least, library: Library
) -> ReferenceProfile:
    return ReferenceProfile(
        input_set=name,
        arguments=_arguments(outcome),
        us=round(eager.us.value, 2),
        operations=by_operation(eager.parts),
        headroom=facts_of_least(name, least, eager.us.value, eager.us.value, library),
        tier="counted",
    )


def _arguments(outcome: Described) -> str:
    from kernelagent.tools.judge.problem.describe import written_out

    return written_out(outcome.module, (outcome.args, dict(outcome.kwargs)))


if __name__ == "__main__":
    main()
