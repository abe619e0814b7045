"""One example in the environment under test: captured by the built-in policy, judged on `virtual`.

    python -m benchmarks.versions.trial EXAMPLE

Prints one JSON object: `why_not` (the product's own word before anything starts), or `captured`,
`verdict` and `why` where something failed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import triton

from benchmarks.gpu_first.sizes import WORDS
from kernelagent.domain.candidate import Candidate, parse_reply
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import EnvironmentFault, KernelAgentError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.arguments import problem_spec
from kernelagent.models.compiler.capturing.capture import PolicyCannot
from kernelagent.models.compiler.policy import Policy
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge_client import JudgeProcess
from kernelagent.tools.virtual.device.fake_cuda import pretending_cuda

_TARGET = "sm_90"


def main(path: str) -> int:
    result: dict[str, Any] = {"torch": str(torch.__version__), "triton": triton.__version__}
    print(json.dumps(result | _tried(Path(path))))
    return 0


def _tried(path: Path) -> dict[str, Any]:
    words = WORDS.get(path.stem, ())
    names = dict(zip((word.removeprefix("--") for word in words[::2]), words[1::2], strict=True))
    spec = problem_spec(
        str(path), {"module": None, "inputs": None, "init": None, "check": None} | names
    )
    try:
        reply = _captured(spec)
    except (PolicyCannot, KernelAgentError) as error:
        return {"captured": False, "verdict": "", "why": str(error).splitlines()[0]}
    candidate = parse_reply(reply)
    if not isinstance(candidate, Candidate):
        return {"captured": False, "verdict": "", "why": candidate.why}
    try:
        with JudgeProcess(JudgeSettings(spec, device="virtual", target=_TARGET)) as judge:
            evaluation = judge.evaluate(candidate, lambda _: None)
    except EnvironmentFault as fault:
        return {"captured": True, "verdict": "", "why_not": str(fault)}
    why = evaluation.reason.message if evaluation.reason else ""
    return {"captured": True, "verdict": evaluation.verdict, "why": why}


def _captured(spec: ProblemSpec) -> str:
    """The policy's first reply; raises `PolicyCannot`."""
    with pretending_cuda(_TARGET):
        problem = load_problem(spec)
        module = problem.build().cpu().eval()
        sets = problem.input_sets()
    reply = Policy(module, problem.constructor, sets, {}).reply([])
    assert reply is not None, "the policy always has a first reply"
    return reply


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
