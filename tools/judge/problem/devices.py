"""Which device a judge works on: the local GPU, or the one that `virtual` stands in for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import triton

from kernelagent.domain.errors import EnvironmentFault
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.tools.cuda.ceilings import MeasuredCeilings, known_or_measured, with_measured
from kernelagent.tools.cuda.obstacles import closed_nodes
from kernelagent.tools.estimates.library import library_for
from kernelagent.tools.sandbox.file_access import gpu_nodes
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings, ceilings_for
from kernelagent.tools.virtual.cost.data_sheets import ceilings_of


@dataclass(frozen=True)
class JudgeDevice:
    """The device as the judge's own process uses it."""

    facts: DeviceFacts
    torch_device: str
    """Where the judge's tensors live: `cuda:0` or, for `virtual`, `cpu`."""
    promised: DeviceCeilings
    """The data sheet's: nothing is faster."""
    measured: DeviceCeilings | None = None
    """What this very device was seen to reach."""
    unmeasured: str | None = None
    """Why it has not been measured, on a GPU that could have been."""

    @property
    def ceilings(self) -> DeviceCeilings:
        """What a lower bound of a time is made of."""
        return self.measured or self.promised

    @property
    def ceilings_from(self) -> Literal["data sheet", "measured"]:
        return "data sheet" if self.measured is None else "measured"

    @property
    def kind(self) -> Literal["cuda", "virtual"]:
        return self.facts.kind

    def scope(self) -> AbstractContextManager[Any]:
        """In it the user's code may say `cuda`, whether there is one or not."""
        if self.kind == "cuda":
            return nullcontext()
        from kernelagent.tools.virtual.device.fake_cuda import pretending_cuda, with_dynamo_imported

        # The user's imports may bring it in, and must not do so among stand-ins.
        with_dynamo_imported()
        return pretending_cuda(self.facts.target)


def open_device(asked: str, target: str) -> JudgeDevice:
    """`auto`, `cuda`, `cuda:N` or `virtual`; raises `EnvironmentFault` when it is not there."""
    kind, _, index = asked.partition(":")
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "virtual"
    return _cuda(int(index or 0)) if kind == "cuda" else _virtual(target)


def _cuda(index: int) -> JudgeDevice:
    facts = gpu_facts(index)
    promised, _ = ceilings_of(facts.name, facts.target)
    # Whatever is launched without being told a device goes to this one.
    torch.cuda.set_device(index)
    return measured_device(facts, f"cuda:{index}", promised)


def measured_device(
    facts: DeviceFacts,
    torch_device: str,
    promised: DeviceCeilings,
    measure: Callable[[DeviceFacts, str], MeasuredCeilings] = known_or_measured,
) -> JudgeDevice:
    """The device with what it reaches; on a full one, with the data sheet's values and the reason."""
    try:
        measured = with_measured(promised, measure(facts, torch_device))
    except torch.OutOfMemoryError:
        why = (
            f"{facts.name} has no memory free to measure what it reaches, so bounds of the time are "
            f"the data sheet's: end what else runs on it (`nvidia-smi` lists it)"
        )
        return JudgeDevice(facts, torch_device, promised, unmeasured=why)
    return JudgeDevice(facts, torch_device, _at_least(promised, measured), measured)


def gpu_facts(index: int) -> DeviceFacts:
    """What torch says of a GPU; raises `EnvironmentFault` when it is not there."""
    if not torch.cuda.is_available() or index >= torch.cuda.device_count():
        closed = None if torch.cuda.is_available() else closed_nodes(gpu_nodes())
        if closed is not None:
            raise EnvironmentFault(f"{closed.what}. {closed.remedy}")
        raise EnvironmentFault(
            f"there is no GPU cuda:{index} here ({torch.cuda.device_count()} found); use --device "
            f"virtual to verify without timing, or run `kernelagent doctor`"
        )
    major, minor = torch.cuda.get_device_capability(index)
    properties = torch.cuda.get_device_properties(index)
    name, target = torch.cuda.get_device_name(index), f"sm_{major}{minor}"
    promised, listed = ceilings_of(name, target)
    return DeviceFacts(
        kind="cuda",
        name=name,
        target=target,
        torch=str(torch.__version__),
        triton=triton.__version__,
        driver=_driver_version(),
        multiprocessors=properties.multi_processor_count,
        shared_bytes=getattr(properties, "shared_memory_per_block_optin", None),
        l2_bytes=getattr(properties, "L2_cache_size", None),
        dram_bytes_per_s=promised.dram_bytes_per_s if listed else None,
        operations_per_s=_peaks(promised) if listed else (),
    )


def _at_least(promised: DeviceCeilings, measured: DeviceCeilings) -> DeviceCeilings:
    """A card that is not listed may do more than the row of its architecture says."""
    most = max(promised.dram_bytes_per_s, measured.dram_bytes_per_s)
    return replace(promised, dram_bytes_per_s=most)


def _virtual(target: str) -> JudgeDevice:
    from kernelagent.tools.virtual.device.driver import supported

    why_not = supported()
    if why_not is not None:
        raise EnvironmentFault(f"the virtual device does not work here: {why_not}")
    limits = ceilings_for(target)
    facts = DeviceFacts(
        kind="virtual",
        name=f"{limits.name}, not present",
        target=limits.target,
        gpu=limits.key,
        torch=str(torch.__version__),
        triton=triton.__version__,
        multiprocessors=limits.sms,
        shared_bytes=limits.shared_bytes_per_sm - limits.shared_reserved_bytes,
        l2_bytes=limits.l2_bytes,
        dram_bytes_per_s=limits.dram_bytes_per_s,
        operations_per_s=_peaks(limits),
        launch_us=round(library_for(limits).triton_launch_us, 2),
    )
    return JudgeDevice(facts, "cpu", limits)


def _peaks(limits: DeviceCeilings) -> tuple[tuple[str, float], ...]:
    return (*limits.dot_flops_per_s.items(), ("fp32", limits.fp32_flops_per_s))


def _driver_version() -> str | None:
    try:
        from pathlib import Path

        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return None
    return next((word for word in text.split() if word[:1].isdigit() and "." in word), None)
