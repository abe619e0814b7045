"""The commands that are run on the fake device, and how each must end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

OPERATOR_MS, KERNEL_MS = 8.0, 20.0
"""How long the device is busy with an operator of torch, and with a kernel: so long that few calls fill a block."""
NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
PROBLEM, SHORT, CANDIDATE, COMPILED, TRAINED = (
    "problems/last_token.py",
    "problems/short.py",
    "last_token_candidate.py",
    "last_token_compiled.py",
    "last_token_trained.py",
)


@dataclass(frozen=True)
class Machine:
    """The machine a command runs on; without arguments: nothing is wrong with it."""

    exclusive: bool = False
    """Its compute mode lets one process have a context."""
    closed_nodes: bool = False
    """/dev/nvidia* is there and cannot be opened."""
    compiler: bool = True
    headers: bool = True
    """Whether `Python.h` is there."""
    smi: bool = False
    """Whether the driver's own program, nvidia-smi, is on the path."""

    def text(self) -> str:
        """For the file beside the libraries."""
        lines = [f"node {node}" for node in NODES]
        lines += [f"exclusive {int(self.exclusive)}", f"operator_ms {OPERATOR_MS:g}"]
        lines += [f"kernel_ms {KERNEL_MS:g}"]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Command:
    """One line of the table."""

    name: str
    words: tuple[str, ...]
    """After `kernelagent`, or a script's name and its arguments."""
    status: int = 0
    says: str = ""
    """A regular expression that its output must match, as a sentence would be read."""
    writes: str = ""
    """A file it must leave behind; what else it leaves is a fault."""
    machine: Machine = Machine()
    killed_at: str = ""
    """It is killed when its run's log first holds this word, and its status does not count."""
    limit_s: float = 1200.0
    script: bool = False
    checkout: bool = False
    """Whether it runs what is not installed: benchmarks and tests of this checkout."""
    after: str = ""
    """A command whose files it reads, by name: who asks for this one gets that one before it."""


def chosen(listed: Iterable[Command], asked: str) -> list[Command]:
    """Those whose names match the regular expression, in order, and what each of them needs before it."""
    every = list(listed)
    wanted = {command.name for command in every if re.search(asked, command.name)}
    # Later ones need earlier ones.
    for command in reversed(every):
        if command.name in wanted and command.after:
            wanted.add(command.after)
    return [command for command in every if command.name in wanted]


def commands() -> Iterator[Command]:
    """In an order in which later ones find what earlier ones wrote."""
    cuda = ("--device", "cuda")
    replies = ("--model", "replay:replies.jsonl", "--turns", "1", "--sandbox", "require")
    whole = ("optimize", "problems/decoder.py", "--submodule", "norm")
    # A canary that takes two seconds is one that every run waits for.
    yield Command(
        "doctor", ("doctor",), says=r"NVIDIA H200.*a confined kernel ran[^.]* in [01]\.\d s"
    )
    yield Command(
        "what the ceilings took is given back", ("ceilings_memory.py",), says="free", script=True
    )
    yield Command("evaluate", ("evaluate", PROBLEM, CANDIDATE, *cuda), says="Accepted")
    yield Command(
        "evaluate a module without kernels",
        ("evaluate", PROBLEM, "plain.py", *cuda),
        status=1,
        says="no_kernel",
    )
    # What its kernel leaves out holds whatever was there; that is made NaN.
    yield Command(
        "evaluate a candidate that writes half of its output",
        ("evaluate", PROBLEM, "half_written.py", *cuda),
        status=1,
        says="never written: columns 256 to 511 of 512.*got nan",
    )
    yield Command(
        "optimize by relative path",
        ("optimize", PROBLEM, *cuda, *replies, "--out", "emitted.py"),
        writes="emitted.py",
    )
    yield Command(
        "the emitted module in a script",
        ("use_emitted.py", "emitted.py"),
        script=True,
        after="optimize by relative path",
    )
    yield Command(
        "recheck",
        ("recheck", "emitted.py", PROBLEM, *cuda),
        after="optimize by relative path",
    )
    # There is no CUPTI here, and where it is forbidden this is how it ends.
    yield Command(
        "profile", ("profile", PROBLEM, *cuda), status=3, says="torch.profiler saw no kernel"
    )
    yield Command(
        "profile with a candidate",
        ("profile", PROBLEM, CANDIDATE, *cuda),
        says="The reference is not profiled.*Accepted",
    )
    yield Command("--policy pure", ("evaluate", PROBLEM, CANDIDATE, *cuda, "--policy", "pure"))
    yield Command(
        "--policy any, torch.compile in the candidate",
        ("evaluate", PROBLEM, COMPILED, *cuda, "--policy", "any"),
        says="Accepted",
    )
    yield Command(
        "--train without a backward",
        ("evaluate", PROBLEM, CANDIDATE, *cuda, "--train"),
        status=1,
        says="gradient|requires_grad|missing_grad",
    )
    yield Command(
        "--train with a backward",
        ("evaluate", SHORT, TRAINED, *cuda, "--train"),
        says="Accepted",
    )
    yield Command("scan", ("scan", "problems/decoder.py", *cuda))
    yield Command(
        "--submodule",
        (*whole, *cuda, *replies, "--out", "norm_emitted.py"),
        writes="norm_emitted.py",
    )
    yield Command(
        "a run that is killed",
        ("optimize", PROBLEM, *cuda, *replies, "--runs", "killed", "--out", "resumed.py"),
        killed_at="ReplyReceived",
    )
    yield Command(
        "--resume",
        ("optimize", "--resume", "killed/*", "--runs", "killed", "--out", "resumed.py"),
        writes="resumed.py",
        after="a run that is killed",
    )
    yield Command(
        "the library call",
        ("library_call.py", "replay:replies.jsonl"),
        writes="Model_optimized.py",
        script=True,
    )
    yield Command("bench over three problems", ("bench", "suite", *cuda, *replies), limit_s=3600)
    # The fake has one stream, so that nobody need join another: this alone may go wrong.
    yield Command(
        "doctor --judge --quick",
        ("doctor", "--judge", "--quick"),
        status=1,
        says=r"^(?!.*WRONG \w+ (?!69 stream-nobody-joins)).*WRONG cheat 69 stream-nobody-joins",
    )
    # The others are at sizes that nobody interprets. Stage 2 asks for a trace, and there is no CUPTI.
    ends = {1: "NVIDIA H200; gcc", 2: "in no row, not even unconfined", 3: "ceilings measured"}
    for number, sentence in ends.items():
        yield Command(
            f"stage {number} of the first thirty minutes",
            (
                "-m",
                "benchmarks.gpu_first",
                "--stage",
                str(number),
                "--slower",
                "5",
                "--out",
                "plan",
            ),
            says=f"finished.*{sentence}",
            machine=Machine(smi=True),
            script=True,
            checkout=True,
        )
    evaluate = ("evaluate", PROBLEM, CANDIDATE, *cuda)
    yield Command(
        "no C compiler",
        evaluate,
        status=3,
        says="needs a C compiler on a GPU machine and there is none",
        machine=Machine(compiler=False),
    )
    yield Command(
        "no Python.h",
        evaluate,
        status=3,
        says=r"finds no Python\.h in",
        machine=Machine(headers=False),
    )
    yield Command(
        "exclusive compute mode",
        evaluate,
        status=3,
        says="its compute mode is exclusive",
        machine=Machine(exclusive=True),
    )
    yield Command(
        "/dev/nvidia* closed",
        evaluate,
        status=3,
        says="/dev/nvidia.* is closed to this user",
        machine=Machine(closed_nodes=True),
    )


def lay_out(sources: Path, work: Path) -> None:
    """Put the problems, candidates, scripts and recorded replies into `work`."""
    (work / "problems").mkdir(parents=True)
    (work / "suite").mkdir()
    problem = (sources / "last_token.py").read_text(encoding="utf-8")
    for name in ("problems", "."):
        (work / name / "last_token.py").write_text(problem, encoding="utf-8")
    # torch.compile's backward writes a gradient for each input element: half a million are too many to interpret.
    (work / SHORT).write_text(problem.replace("1024", "16"), encoding="utf-8")
    (work / "problems" / "decoder.py").write_text(
        (sources / "decoder.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    for number in (1, 2, 3):
        shorter = problem.replace("1024", str(1024 - 128 * number))
        (work / "suite" / f"{number}_last_token.py").write_text(shorter, encoding="utf-8")
    for name in (
        CANDIDATE,
        COMPILED,
        TRAINED,
        "library_call.py",
        "use_emitted.py",
        "ceilings_memory.py",
    ):
        (work / name).write_text((sources / name).read_text(encoding="utf-8"), encoding="utf-8")
    smi = work / "driver" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text((sources / "nvidia-smi").read_text(encoding="utf-8"), encoding="utf-8")
    smi.chmod(0o755)
    plain = problem.replace("class Model(", "class ModelNew(")
    (work / "plain.py").write_text(plain, encoding="utf-8")
    candidate = (sources / CANDIDATE).read_text(encoding="utf-8")
    half = candidate.replace("mask=inside)\n\n", "mask=inside & (at < hidden // 2))\n\n")
    (work / "half_written.py").write_text(half, encoding="utf-8")
    reply = {"reply": f"```python\n{candidate}```\n"}
    (work / "replies.jsonl").write_text(json.dumps(reply) + "\n", encoding="utf-8")
