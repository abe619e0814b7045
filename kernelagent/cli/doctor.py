"""What this machine can do, what is missing, and how to get it; every probe in a child or by metadata."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import kernelagent
from kernelagent.domain.configuration.model_options import VllmOptions
from kernelagent.domain.errors import EnvironmentFault, ModelError
from kernelagent.models.vllm.options import require_vllm
from kernelagent.storage.secrets import is_secret_name
from kernelagent.tools.versions import RANGES, why_not

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA = "kernelagent.doctor/1"
Status = Literal["ok", "missing", "optional"]
_ROOT = str(Path(kernelagent.__file__).resolve().parent.parent)
_PROBE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch, triton
from kernelagent.tools.sandbox.confinement import probe
from kernelagent.tools.judge.machine_check import closed_gpu
from kernelagent.tools.virtual.device.driver import supported
cuda = torch.cuda.is_available()
report = probe()
def ceilings():
    from dataclasses import asdict
    from kernelagent.tools.cuda.ceilings import known_or_measured
    from kernelagent.tools.judge.problem.devices import gpu_facts
    rows = [(gpu_facts(i), f"cuda:{i}") for i in range(torch.cuda.device_count())] if cuda else []
    try:
        return [asdict(known_or_measured(facts, name)) for facts, name in rows]
    except RuntimeError as error:
        return str(error).strip().splitlines()[0]
print(json.dumps({
    "ceilings": ceilings(),
    "closed": None if cuda or (row := closed_gpu()) is None else [row.found, row.advice],
    "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if cuda else [],
    "virtual": supported(),
    "sandbox": report.summary,
    "missing": dict(report.missing),
}))
"""
_KERNEL = """
import json, sys
sys.path.insert(0, sys.argv[1])
from dataclasses import asdict
from kernelagent.domain.errors import KernelAgentError
from kernelagent.tools.judge.machine_check import check
try:
    print(json.dumps([asdict(row) for row in check(sys.argv[2])]))
except KernelAgentError as error:
    print(json.dumps([{"code": "canary", "status": "missing", "found": str(error)}]))
"""
"""In a separate process: the kernel is forked from a process that has not touched the device."""
_PROBE_S = 120


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's table."""

    code: str
    status: Status
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Findings:
    """The whole table."""

    can_judge: bool
    findings: tuple[Finding, ...]
    schema: str = SCHEMA


def examine() -> Findings:
    """Look at everything `optimize` may need."""
    result = [_python(), _package("torch", required=True), _package("triton", required=True)]
    if any(item.status == "missing" for item in result):
        return Findings(False, (*result, *_models()))
    probed = _probe()
    if isinstance(probed, str):
        result.append(Finding("device", "missing", probed, "reinstall torch and triton"))
        return Findings(False, (*result, *_models()))
    gpus = probed["gpus"]
    result.append(_cuda(gpus, probed["closed"]))
    result += _ceilings(probed["ceilings"])
    virtual = probed["virtual"]
    result.append(
        Finding("virtual", "ok", "kernels compile and are executed by the interpreter")
        if virtual is None
        else Finding(
            "virtual",
            "optional",
            virtual,
            "install a triton from 3.6 to 3.9 to verify without a GPU",
        )
    )
    result.append(Finding("sandbox", "ok", probed["sandbox"]))
    result += [
        Finding(f"sandbox.{tier}", "optional", "not available", why)
        for tier, why in probed["missing"].items()
    ]
    judges = bool(gpus) or virtual is None
    if judges:
        kernel = _kernel("cuda" if gpus else "virtual")
        judges = all(item.status != "missing" for item in kernel)
        result += kernel
    return Findings(judges, (*result, *_models()))


def _cuda(gpus: list[str], closed: list[str] | None) -> Finding:
    if gpus:
        return Finding("cuda", "ok", ", ".join(gpus))
    if closed is not None:
        return Finding("cuda", "optional", *closed)
    return Finding(
        "cuda", "optional", "no GPU", "without one, candidates are verified but not timed"
    )


def _kernel(device: str) -> list[Finding]:
    """A kernel in a candidate's process, and which tiers of the sandbox the device's driver accepts."""
    reported = _json_from(_KERNEL, device)
    if isinstance(reported, str):
        return [
            Finding("canary", "missing", reported, "no candidate can be judged until this works")
        ]
    return [Finding(**row) for row in reported]


def _ceilings(message: list[dict[str, Any]] | str) -> list[Finding]:
    """What the devices reach, measured once per device, driver and torch."""
    if isinstance(message, str):
        advice = "until then the data sheet's values are used: free the GPU's memory and try again"
        return [Finding("ceilings", "optional", message, advice)]
    return [
        Finding(
            "ceilings",
            "ok",
            f"{item['device']}, measured: copies {item['copy_bytes_per_s'] / 1e12:.2f} TB/s; products "
            + ", ".join(f"{k} {v / 1e12:.0f}" for k, v in sorted(item["flops_per_s"].items()))
            + " TFLOP/s",
        )
        for item in message
    ]


def best_device() -> str:
    """`cuda` where there is a GPU, else `virtual`; raises `EnvironmentFault` where neither works."""
    probed = _probe()
    if isinstance(probed, str):
        raise EnvironmentFault(f"torch and triton cannot be used here: {probed}")
    if probed["gpus"]:
        return "cuda"
    if probed["virtual"] is not None:
        raise EnvironmentFault(f"no GPU, and the virtual device does not work: {probed['virtual']}")
    return "virtual"


def as_table(findings: Findings) -> Table:
    """For a terminal."""
    from rich.table import Table

    table = Table(title=f"kernelagent {kernelagent.__version__} on this machine")
    for heading in ("what", "state", "found", "advice"):
        table.add_column(heading, overflow="fold")
    for finding in findings.findings:
        table.add_row(finding.code, finding.status, finding.found, finding.advice)
    return table


def _python() -> Finding:
    here = platform.python_version()
    return in_range("Python", here, Finding("python", "ok", f"{here} on {platform.platform()}"))


def _package(name: str, *, required: bool, advice: str = "") -> Finding:
    try:
        installed = version(name)
    except PackageNotFoundError:
        return Finding(name, "missing" if required else "optional", "not installed", advice)
    return in_range(name, installed, Finding(name, "ok", installed))


def in_range(name: str, installed: str, finding: Finding) -> Finding:
    """`finding`, unless it is of a version that runs refuse."""
    sentence = why_not(name, installed) if name in RANGES else None
    if sentence is None:
        return finding
    return replace(finding, status="missing", advice=sentence)


def _models() -> list[Finding]:
    return [
        Finding("model.compiler", "ok", "built in; needs neither key nor network"),
        _package("litellm", required=False, advice="for LLMs behind an API: the extra [llm]"),
        keys_finding(os.environ),
        vllm_finding(os.environ),
    ]


def keys_finding(environment: Mapping[str, str]) -> Finding:
    """Which variables hold a secret, by name only; a variable that is set to nothing holds none."""
    keys = sorted(name for name, value in environment.items() if value and is_secret_name(name))
    if keys:
        return Finding("keys", "ok", ", ".join(keys))
    advice = "export your provider's *_API_KEY"
    return Finding("keys", "optional", "none in the environment", advice)


def vllm_finding(environment: Mapping[str, str]) -> Finding:
    """Whether the interpreter that a run would start vLLM with has it."""
    options = VllmOptions().with_environment(environment)
    try:
        require_vllm(options, environment)
    except ModelError as error:
        only = "only for a checkpoint of your own (--model vllm:PATH)"
        return Finding("vllm", "optional", str(error).partition(". ")[0], only)
    return Finding("vllm", "ok", f"installed for {options.interpreter}")


def _probe() -> dict[str, Any] | str:
    probed: dict[str, Any] | str = _json_from(_PROBE)
    return probed


def _json_from(program: str, *arguments: str) -> Any:
    """What a program of ours prints as JSON, or as text the last it said when it failed."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", program, _ROOT, *arguments],
            capture_output=True,
            text=True,
            timeout=_PROBE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it gave no answer within {_PROBE_S} s"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["the probe said nothing"])[-1]
    return json.loads(done.stdout.strip().splitlines()[-1])
