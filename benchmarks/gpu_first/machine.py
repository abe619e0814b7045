"""What the machine is, and what its GPU reaches."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.gpu_first.options import Options
from benchmarks.gpu_first.programs import kernelagent, program
from benchmarks.gpu_first.record import NotPossible, Record

_ASKED = (
    "name", "driver_version", "memory.total", "memory.used", "compute_mode", "mig.mode.current",
    "persistence_mode", "clocks.max.sm", "clocks.max.mem", "power.limit", "utilization.gpu",
)  # fmt: skip
_PACKAGES = ("torch", "triton", "numpy", "msgspec", "pytest", "hypothesis", "litellm")
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "CUDA_MPS_PIPE_DIRECTORY", "CC",
    "LD_LIBRARY_PATH", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR",
)  # fmt: skip
_TEXTS = {
    "kernel": "/proc/sys/kernel/osrelease",
    "security modules": "/sys/kernel/security/lsm",
    "driver": "/proc/driver/nvidia/version",
    "unprivileged user namespaces": "/proc/sys/user/max_user_namespaces",
    "profiling for administrators only": "/proc/driver/nvidia/params",
}


def look(record: Record, options: Options) -> str:
    """Everything that a later failure may be asked about, before anything of ours runs."""
    record.head("what", "found")
    gpus = _gpus(record)
    for what, path in _TEXTS.items():
        record.add(what, _text(path, only="RmProfilingAdminOnly" if "profiling" in what else ""))
    record.add("nodes", ", ".join(sorted(str(p) for p in Path("/dev").glob("nvidia*"))) or "none")
    record.add("Python", f"{platform.python_version()}, {sys.executable}")
    for name in _PACKAGES:
        record.add(name, _package(name))
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    record.add("Python.h", header if header.is_file() else f"MISSING: {header}")
    for name in ("gcc", "cc", "git", "file", "ncu", "nsys"):
        record.add(name, shutil.which(name) or "not found")
    record.add("user", f"uid {os.getuid()}, gid {os.getgid()}, home {Path.home()}")
    record.add("cores, memory", f"{os.cpu_count()}, {_memory()}")
    record.add("room in /tmp, /dev/shm", f"{_room('/tmp')}, {_room('/dev/shm')}")
    for name in _VARIABLES:
        if name in os.environ:
            record.add(name, os.environ[name])
    missing = [name for name in ("gcc", "git") if shutil.which(name) is None]
    missing += [] if header.is_file() else ["Python.h"]
    if missing:
        record.note(
            f"triton compiles its launcher with gcc and Python.h; missing: {', '.join(missing)}"
        )
    if not gpus and options.device == "cuda":
        raise NotPossible(
            "no GPU: nvidia-smi names none on this machine; what else is here stands in the table"
        )
    return f"{', '.join(gpus) or 'no GPU'}; " + (
        f"missing: {', '.join(missing)}" if missing else "gcc, Python.h and git are there"
    )


def ceilings(record: Record, options: Options) -> str:
    """`doctor`, then each measured ceiling beside what the maker's data sheet promises."""
    record.head("what", "measured or found", "data sheet", "share")
    doctor = kernelagent("doctor", seconds=120)
    for finding in doctor.data.get("findings", []):
        record.add(f"doctor: {finding['code']}", f"{finding['status']}: {finding['found']}", "", "")
    if not doctor.data:
        record.note(f"doctor: {doctor.shown}")
    if options.device != "cuda":
        return f"doctor ended with {doctor.shown}; no ceilings were measured"
    from kernelagent.tools.cuda.ceilings import known_or_measured
    from kernelagent.tools.judge.problem.devices import gpu_facts
    from kernelagent.tools.virtual.cost.data_sheets import ceilings_of

    facts = gpu_facts(0)
    promised, listed = ceilings_of(facts.name, facts.target)
    measured = known_or_measured(facts, "cuda:0")
    rows = {"copy": (measured.copy_bytes_per_s, promised.dram_bytes_per_s)}
    rows |= {
        kind: (rate, promised.dot_flops_per_s.get(kind, 0.0))
        for kind, rate in measured.flops_per_s.items()
    }
    for name, (reached, most) in rows.items():
        record.add(name, f"{reached:.3e}", f"{most:.3e}", f"{reached / most:.0%}" if most else "-")
    above = [name for name, (reached, most) in rows.items() if most and reached > 1.02 * most]
    if not listed:
        record.note(f"{facts.name} is not in the table of cards: its architecture's row was used")
    return (
        f"{facts.name} ({facts.target}): {len(rows)} ceilings measured, "
        f"{'ABOVE the data sheet: ' + ', '.join(above) if above else 'none above the data sheet'}"
    )


def _gpus(record: Record) -> list[str]:
    asked = program(
        ["nvidia-smi", f"--query-gpu={','.join(_ASKED)}", "--format=csv,noheader"], seconds=20
    )
    if asked.status != 0:
        record.add("nvidia-smi", asked.shown)
        return []
    names = []
    for number, line in enumerate(asked.output.strip().splitlines()):
        values = dict(zip(_ASKED, (part.strip() for part in line.split(",")), strict=False))
        names.append(values["name"])
        record.add(f"GPU {number}", "; ".join(f"{key} {value}" for key, value in values.items()))
    busy = program(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader"])
    record.add("processes on the GPU", busy.output.strip().replace("\n", "; ") or "none")
    return names


def _text(path: str, only: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        return f"{path}: {error.strerror}"
    lines = [line for line in text.splitlines() if only in line]
    return lines[0][:200] if lines else f"{path} does not say"


def _package(name: str) -> str:
    if importlib.util.find_spec(name) is None:
        return "not installed"
    try:
        return version(name)
    except PackageNotFoundError:
        return "importable, without metadata"


def _memory() -> str:
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"


def _room(folder: str) -> str:
    try:
        return f"{shutil.disk_usage(folder).free / 2**30:.1f} GiB"
    except OSError as error:
        return f"{error.strerror}"
