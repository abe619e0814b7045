"""The controller's end of the judge: starts its process, asks for verdicts, and never imports torch."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import msgspec

import kernelagent
from kernelagent.domain import errors
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import EnvironmentFault, KernelAgentError
from kernelagent.domain.evaluation import DeviceFacts, Evaluation, Stage
from kernelagent.domain.problem import ProblemFacts
from kernelagent.domain.profile import ReferenceProfile
from kernelagent.domain.replies.tool_calls import ToolCall, ToolResult
from kernelagent.domain.serialization import from_data, to_data
from kernelagent.domain.whole_model import Scan, WholeModel
from kernelagent.tools.closing import Closing
from kernelagent.tools.judge.environment import at_start, can_come_later
from kernelagent.tools.judge.fork_server import is_likely_virtual
from kernelagent.tools.sandbox.file_access import first_lines, package_folders
from kernelagent.tools.versions import require_supported
from kernelagent.tools.wire import ChannelClosed, Frame, pair

_ROOT = str(Path(kernelagent.__file__).resolve().parent.parent)
# The root leaves the path again, so that `import tools` inside the user's code cannot reach ours.
# Nothing is freed while modules are imported, and looking for garbage takes a sixth of that time.
_BOOT = (
    first_lines(3) + "import gc; gc.disable(); sys.path.insert(0, sys.argv[1]); "
    "from kernelagent.tools.judge.server import main; del sys.path[0]; gc.freeze(); gc.enable(); "
    "main(int(sys.argv[2]))"
)
_HUGE_PAGES = "glibc.malloc.hugetlb=1"
"""Ask for huge pages: half of the time to read a large problem went into faulting in small ones."""
_MAX_HEADER = 1 << 28


class _Connection(Closing):
    """The judge's process before it was told anything; a context manager."""

    def __init__(self, *, split_off: bool) -> None:
        """`split_off`: the process candidates are forked from may be forked from this one, once torch is imported.

        It is where the environment can wait so long. Raises `EnvironmentFault` when it cannot be started.
        """
        require_supported()
        split_off = split_off and can_come_later(os.environ)
        ours, theirs = pair()
        self._channel = ours
        self._one_at_a_time = Lock()
        os.set_inheritable(theirs.socket.fileno(), True)
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-c",
                _BOOT,
                _ROOT,
                str(theirs.socket.fileno()),
                *package_folders(),
            ],
            stdin=subprocess.DEVNULL,
            stdout=2,  # the descriptor: a notebook's sys.stderr may have none
            pass_fds=(theirs.socket.fileno(),),
            start_new_session=True,
            env=(at_start(os.environ) if split_off else dict(os.environ)) | _tunables(),
        )
        theirs.close()
        try:
            self._begin(split_off)
        except BaseException:
            self.close()
            raise

    def _begin(self, split_off: bool) -> None:
        self._ask({"kind": "begin", "split_off": split_off}, _ignore)
        if split_off:
            self._ask({"kind": "environment", "environment": dict(os.environ)}, _ignore)

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._channel.close()

    def _ask(self, request: dict[str, Any], on_stage: Callable[[Stage], None]) -> Frame:
        # A writer may have a candidate checked while another of its calls is being judged.
        with self._one_at_a_time:
            return self._answer(request, on_stage)

    def _answer(self, request: dict[str, Any], on_stage: Callable[[Stage], None]) -> Frame:
        try:
            self._channel.send(request)
            while True:
                frame = self._channel.receive(max_header=_MAX_HEADER)
                if frame.kind == "stage":
                    on_stage(from_data(frame.header["stage"], Stage))
                elif frame.kind == "fault":
                    raise _fault(frame.header)
                else:
                    return frame
        except ChannelClosed as error:
            code = self._process.poll()
            if code == -signal.SIGKILL:
                raise EnvironmentFault(
                    "the judge was killed from outside, as the kernel does when memory runs out: give "
                    "it less with --memory-limit (as in 4G) or smaller inputs with --inputs FUNCTION"
                ) from error
            raise EnvironmentFault(
                f"the judge's process is gone (exit status {code}); its own words stand above on "
                f"stderr. Run `kernelagent doctor` to see what this machine can do"
            ) from error
        except msgspec.ValidationError as error:
            raise EnvironmentFault(f"the judge's answer is not understood: {error}") from error


class JudgeProcess(_Connection):
    """A judge for one problem; a context manager. Raises what the judge could not do."""

    def __init__(self, settings: JudgeSettings) -> None:
        """Start the process and let it read the problem; raises `ProblemError`, `EnvironmentFault`."""
        super().__init__(split_off=is_likely_virtual(settings.device))
        try:
            self.read(settings)
        except BaseException:
            self.close()
            raise

    def read(self, settings: JudgeSettings) -> None:
        """Judge candidates of this problem from now on; raises `ProblemError`, `EnvironmentFault`."""
        opened = self._ask({"kind": "open", "settings": to_data(settings)}, _ignore)
        self.facts = from_data(opened.header["facts"], ProblemFacts)
        self.device = from_data(opened.header["device"], DeviceFacts)
        self.sandbox = str(opened.header["sandbox"])

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        """Judge one candidate as a turn does, whose winner is judged again."""
        return self._judge(candidate, "turn", on_stage)

    def verdict(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        """The same with all that is told of inputs unlike the user's, of which a turn asks a sample."""
        return self._judge(candidate, "verdict", on_stage)

    def call_tool(self, call: ToolCall, seconds: float) -> ToolResult:
        """Answer a writer's call beside its turns, within that time; nothing of it enters a verdict."""
        request = {"kind": "tool", "call": to_data(call), "seconds": seconds}
        return from_data(self._ask(request, _ignore).header["result"], ToolResult)

    def evaluate_final(
        self, candidate: Candidate, on_stage: Callable[[Stage], None], seconds: float | None = None
    ) -> Evaluation:
        """Judge the winner again: fresh processes, new seeds, the long measurement on `cuda`.

        `seconds`: how long it may take at most on `virtual`; None: twice as long as a turn's judging.
        """
        return self._judge(candidate, "certificate", on_stage, seconds)

    def profile_reference(self) -> tuple[ReferenceProfile, ...]:
        """Where the user's own module spends its time, by input set."""
        rows = self._ask({"kind": "profile"}, _ignore).header["reference"]
        return tuple(from_data(row, ReferenceProfile) for row in rows)

    def count(self, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """The acceptance with hardware counters, or with one line why there are none; `cuda` alone."""
        request = {
            "kind": "count",
            "source": candidate.source,
            "evaluation": to_data(evaluation),
        }
        return from_data(self._ask(request, _ignore).header["evaluation"], Evaluation)

    def widen(self, candidate: Candidate, evaluation: Evaluation, seconds: float) -> Evaluation:
        """The acceptance with the neighbouring inputs that were verified too, in that time."""
        request = {
            "kind": "widen",
            "source": candidate.source,
            "evaluation": to_data(evaluation),
            "seconds": seconds,
        }
        return from_data(self._ask(request, _ignore).header["evaluation"], Evaluation)

    def try_emitted(self, file: Candidate, evaluation: Evaluation, seconds: float) -> Evaluation:
        """The acceptance with what calls of the emitted file on the user's module have shown; refused where they go
        otherwise."""
        request = {
            "kind": "try_emitted",
            "source": file.source,
            "evaluation": to_data(evaluation),
            "seconds": seconds,
        }
        return from_data(self._ask(request, _ignore).header["evaluation"], Evaluation)

    def _judge(
        self,
        candidate: Candidate,
        purpose: Literal["turn", "verdict", "certificate"],
        on_stage: Callable[[Stage], None],
        seconds: float | None = None,
    ) -> Evaluation:
        request = {
            "kind": "evaluate",
            "source": candidate.source,
            "purpose": purpose,
            "seconds": seconds,
        }
        return from_data(self._ask(request, on_stage).header["evaluation"], Evaluation)


class WholeModelProcess(_Connection):
    """The judge asked about a whole model and its parts; raises what it could not do."""

    def __init__(self, settings: JudgeSettings, *, verifies: bool = False) -> None:
        """`verifies`: it is going to be asked to, for which it needs a process that candidates are forked from."""
        super().__init__(split_off=verifies and is_likely_virtual(settings.device))
        self._settings = to_data(settings)

    def scan(self) -> Scan:
        """Run the model once; its submodules, most to gain first."""
        return from_data(self._of("scan").header["scan"], Scan)

    def capture(self, path: str, folder: Path) -> tuple[str, ...]:
        """Save one submodule with its weights and inputs in `folder`; the paths of parts like it."""
        return tuple(self._of("capture", path=path, folder=str(folder)).header["alike"])

    def verify(
        self,
        paths: Sequence[str],
        candidate: Candidate,
        ratio: float | None,
        envelope: Mapping[str, Any],
    ) -> WholeModel:
        """The whole model's answer with the candidate at `paths` where `envelope` takes the call, against its own."""
        asked = {"paths": list(paths), "ratio": ratio, "envelope": dict(envelope)}
        frame = self._of("whole", source=candidate.source, **asked)
        return from_data(frame.header["whole"], WholeModel)

    def _of(self, kind: str, **more: Any) -> Frame:
        return self._ask({"kind": kind, "settings": self._settings, **more}, _ignore)


def _tunables() -> dict[str, str]:
    given = os.environ.get("GLIBC_TUNABLES")
    return {"GLIBC_TUNABLES": ":".join(filter(None, (_HUGE_PAGES, given)))}


def _ignore(_: Stage) -> None:
    pass


def _fault(header: dict[str, Any]) -> KernelAgentError:
    kind = getattr(errors, str(header.get("class")), KernelAgentError)
    fault: KernelAgentError = kind(str(header.get("message")))
    return fault
