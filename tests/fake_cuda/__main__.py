"""`make fake-gpu`: an environment with a CUDA build of torch, the fake device in it, every command twice.

Linux as root or with user namespaces, gcc, Python 3.12; eleven gigabytes of disk while it installs,
five afterwards, up to 5 GB of memory. The page is written anew after every command.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.commit import head_of
from tests.fake_cuda.commands import Command, Machine, chosen, commands, lay_out
from tests.fake_cuda.libraries import SOURCES, build, describe, install_hook, start_clock
from tests.fake_cuda.table import Ended, Row, kept_rows, page, written_below

ROOT = SOURCES.parents[1]
PINNED = ("torch==2.11.0", "triton==3.6.0")
OF_TORCH = ("torch==", "triton==", "setuptools==", "sympy==", "filelock==", "fsspec==")
COMPILERS = re.compile(r"^(.*-)?(gcc|cc|clang|g\+\+|c\+\+)(-\d+)?$")
LOCK = re.compile(r"^kernelagent-gpu-[\w-]+\.lock$")
MARK = "NVIDIA_FAKE_RUN"
POLL_S = 0.05
ENDED_S = 30.0
"""Within which all processes of a command must be gone; on a busy machine their ending takes seconds."""
_SET_CHILD_SUBREAPER = 36


@dataclass
class Bench:
    """The environment, the folder the commands work in, and what surrounds them."""

    venv: Path
    top: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def libraries(self) -> Path:
        """Of this bench alone: what describes the machine lies beside them."""
        return self.top / "libraries"

    @property
    def work(self) -> Path:
        return self.top / "work"

    def prepare(self) -> None:
        lay_out(SOURCES / "work", self.work)
        shutil.copytree(self.venv / "fake", self.libraries)
        start_clock(self.libraries)
        for name in ("temporary", "cache", "home"):
            (self.top / name).mkdir()
        self.environment = {
            "PATH": f"{self.venv / 'bin'}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": str(self.libraries),
            "TMPDIR": str(self.top / "temporary"),
            "XDG_CACHE_HOME": str(self.top / "cache"),
            "HOME": str(self.top / "home"),
            "COLUMNS": "200",
            # Of the names that our own processes pass on, to find what is left of them.
            MARK: str(self.top),
        }

    def run(self, command: Command) -> Ended:
        """Run it to its end, or kill it, and look at what is left."""
        describe(self.libraries, command.machine.text())
        before = self._files()
        environment = dict(self.environment)
        if not command.machine.compiler:
            environment["PATH"] = f"{self.venv / 'bin'}:{self._tools()}"
        if command.machine.smi:
            environment["PATH"] = f"{self.work / 'driver'}:{environment['PATH']}"
        if command.checkout:
            environment["PYTHONPATH"] = str(ROOT)
        began, used_s = time.monotonic(), processor_s()
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [*self._namespace(command.machine), *self._words(command)],
                cwd=self.work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            status = self._wait(process, command)
            seconds = time.monotonic() - began
            left = [*self._processes(), *self._litter(command, before)]
            output.seek(0)
            return Ended(status, seconds, processor_s() - used_s, output.read(), tuple(left))

    def _words(self, command: Command) -> list[str]:
        program = "python" if command.script else "kernelagent"
        words = [str(self.venv / "bin" / program)]
        for word in command.words:
            matching = sorted(self.work.glob(word)) if "*" in word else []
            words.append(str(matching[-1]) if matching else word)
        return words

    def _namespace(self, machine: Machine) -> list[str]:
        own = [] if os.getuid() == 0 else ["--map-root-user"]
        words = ["unshare", *own, "--mount", "sh", str(SOURCES / "with_nodes.sh")]
        if not machine.headers:
            words += [
                "--hide",
                self._asked("import sysconfig; print(sysconfig.get_paths()['include'])"),
            ]
        return [*words, *(["--closed"] if machine.closed_nodes else [])]

    def _asked(self, text: str) -> str:
        python = str(self.venv / "bin" / "python")
        done = subprocess.run([python, "-c", text], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def _tools(self) -> Path:
        """A folder with every program of the path but the C compilers."""
        folder = self.top / "tools"
        if not folder.exists():
            folder.mkdir()
            for place in reversed(os.environ["PATH"].split(":")):
                for program in sorted(Path(place).glob("*")) if place else ():
                    link = folder / program.name
                    if not COMPILERS.match(program.name):
                        link.unlink(missing_ok=True)
                        link.symlink_to(program)
        return folder

    def _wait(self, process: subprocess.Popen[bytes], command: Command) -> int:
        end = time.monotonic() + command.limit_s
        while process.poll() is None:
            if command.killed_at and self._logged(command.killed_at):
                process.send_signal(signal.SIGKILL)
            elif time.monotonic() > end:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(POLL_S)
        return process.wait()

    def _logged(self, word: str) -> bool:
        logs = (self.work / "killed").glob("*/events.jsonl")
        return any(word in log.read_text(encoding="utf-8") for log in logs)

    def _files(self) -> set[Path]:
        places = [self.top / "temporary", Path(tempfile.gettempdir())]
        kept = {self.top, Path(tempfile.gettempdir(), f"bash_jobs.{os.getuid()}")}
        result = {path for place in places for path in place.iterdir()} - kept
        return result | {path for path in self.work.iterdir() if path.suffix == ".py"}

    def _litter(self, command: Command, before: set[Path]) -> list[str]:
        wanted = {self.work / command.writes} if command.writes else set()
        own = self.top / "temporary"
        after = self._files()
        # In the machine's own folder others write, too: only what torch and triton leave there counts.
        ours = {p for p in after - before if p.parent in (own, self.work) or "inductor" in p.name}
        # The lock of a GPU is a file that stays: to remove it would let two hold it.
        ours = {path for path in ours if not LOCK.match(path.name)}
        lacking = [f"{p.name} was not written" for p in wanted - after]
        return lacking + [f"left {path.name}" for path in sorted(ours - wanted)]

    def _processes(self) -> list[str]:
        """What of it still runs a while after its end, by the environment it was given."""
        mark = f"{MARK}={self.top}".encode()
        end = time.monotonic() + ENDED_S
        while result := _with_environment(mark):
            if time.monotonic() > end:
                for pid in result:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return [f"{len(result)} processes left"]
            reap()
            time.sleep(POLL_S)
        # Processes that are only just ending have no environment any more.
        while not reap() and time.monotonic() < end:
            time.sleep(POLL_S)
        return []


def adopt_orphans() -> None:
    """Whoever outlives its parent becomes this process's child, so that its processor time is counted."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def reap() -> bool:
    """Wait for all children that have ended; True when there is none any more."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return True
    return False


def processor_s() -> float:
    """Of all processes that this one has waited for, and of those that they have waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _with_environment(mark: bytes) -> list[int]:
    result = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "environ").read_bytes()
        except OSError:
            continue
        if mark in text.split(b"\0"):
            result.append(int(entry.name))
    return result


def install(venv: Path, python: str) -> None:
    """Make the environment, once: the CUDA build of torch, this checkout, the libraries and the hook."""
    if not (venv / "bin" / "python").exists():
        subprocess.run([python_of(python), "-m", "venv", str(venv)], check=True)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    if not list(venv.glob("lib/python3*/site-packages/torch-2.11.0*")):
        subprocess.run([*pip, *PINNED], check=True)
    without = venv / "constraints.txt"
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    # What torch brings along it pins itself, setuptools among it.
    kept = [line for line in lines if not line.startswith(OF_TORCH)]
    without.write_text("\n".join([*kept, *PINNED]) + "\n", encoding="utf-8")
    subprocess.run([*pip, "-c", str(without), "-e", str(ROOT)], check=True)
    site = next(venv.glob("lib/python3*/site-packages"))
    includes = [site / "nvidia/cu13/include", site / "triton/backends/nvidia/include"]
    build(venv / "fake", includes)
    install_hook(site)
    (site / "fake_cuda.pth").write_text("import fake_cuda_hook\n", encoding="utf-8")


def python_of(asked: str) -> str:
    """The program of a Python that runs; raises `SystemExit` where there is none of that name.

    A name on the path may belong to a chooser of versions that has chosen another.
    """
    installed = sorted(
        Path.home().glob(f".pyenv/versions/{asked.removeprefix('python')}*/bin/python")
    )
    for name in (asked, *map(str, installed)):
        program = shutil.which(name)
        if program and not subprocess.run([program, "-c", ""], capture_output=True).returncode:
            return program
    raise SystemExit(
        f"fake_cuda: there is no {asked} that runs here; install it, or name one with --python"
    )


def main(arguments: list[str]) -> int:
    """0 when every command ended as it must."""
    parser = argparse.ArgumentParser(prog="python -m tests.fake_cuda", description=__doc__)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv-fake-gpu")
    parser.add_argument("--python", default=os.environ.get("PYTHON_FAKE", "python3.12"))
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/fake_gpu.md")
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--installed", action="store_true", help="take the environment as it is")
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--go-on", action="store_true", help="keep what was run on this commit")
    asked = parser.parse_args(arguments)
    if not asked.installed:
        install(asked.venv.resolve(), asked.python)
    adopt_orphans()
    good = True
    commit, log = head_of(ROOT), asked.out.with_suffix(".jsonl")
    rows = kept_rows(log, commit) if asked.go_on else []
    for number in range(asked.times):
        with tempfile.TemporaryDirectory(prefix="fake-gpu-") as top:
            bench = Bench(asked.venv.resolve(), Path(top))
            bench.prepare()
            for command in chosen(commands(), asked.only):
                ended = bench.run(command)
                row = Row.of(command, ended, commit, os.getloadavg()[0])
                good = good and not row.faults
                rows.append(row)
                log.write_text("".join(row.line() for row in rows), encoding="utf-8")
                text = page(list(commands()), rows, written_below(asked.out))
                asked.out.write_text(text, encoding="utf-8")
                sys.stdout.write(
                    f"{number + 1} {command.name}: {ended.seconds:.0f} s {row.faults}\n"
                )
                if row.faults:
                    sys.stdout.write(ended.output[-3000:] + "\n")
                sys.stdout.flush()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
