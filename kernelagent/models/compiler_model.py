"""The built-in policy as a model: asks its author's process, which alone imports the user's module."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kernelagent
from kernelagent.domain.configuration.model_options import COMPILER
from kernelagent.domain.errors import BeyondThePolicy, ModelError
from kernelagent.domain.history import Turn
from kernelagent.domain.serialization import to_data
from kernelagent.models import Exhausted, Model, ModelQuery, ModelSettings, Reply
from kernelagent.tools.wire import ChannelClosed, ChannelTimeout, Frame, pair

_ROOT = str(Path(kernelagent.__file__).resolve().parent.parent)
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from kernelagent.models.compiler.author import main; del sys.path[0]; main(int(sys.argv[2]))"
)
_ANSWER_S = 600.0
_MAX_HEADER = 1 << 28


class AuthorProcess:
    """The author, which takes seconds to import the compiler: it may be started before there is a question."""

    def __init__(self) -> None:
        self._channel, theirs = pair()
        # Inductor leaves folders in both places, whatever it is told about caches.
        self._temporary = tempfile.TemporaryDirectory(
            prefix="kernelagent-author-", ignore_cleanup_errors=True
        )
        inside = {
            "TMPDIR": self._temporary.name,
            "TORCHINDUCTOR_CACHE_DIR": f"{self._temporary.name}/inductor",
        }
        fd = theirs.socket.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT, _ROOT, str(fd)],
            stdin=subprocess.DEVNULL,
            stdout=2,  # the descriptor: a notebook's sys.stderr may have none
            pass_fds=(fd,),
            start_new_session=True,
            env=os.environ | inside,
        )
        theirs.close()

    def ask(self, request: dict[str, Any]) -> Frame:
        """Its answer; raises `ModelError` when it cannot answer or is gone."""
        try:
            self._channel.send(request, timeout=_ANSWER_S)
            answer = self._channel.receive(timeout=_ANSWER_S, max_header=_MAX_HEADER)
        except (ChannelClosed, ChannelTimeout) as error:
            raise ModelError(
                f"the built-in policy's process gave no answer ({error}); its own words stand "
                f"above on stderr. Give a model with --model"
            ) from error
        if answer.kind == "cannot":
            raise BeyondThePolicy(str(answer.header["message"]))
        return answer

    def close(self) -> None:
        """End it, with all it left; it may be closed already."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._temporary.cleanup()
        self._channel.close()


class CompilerModel:
    """TorchInductor's kernels rewritten as plain Triton, then tuned one hypothesis a turn."""

    name = COMPILER

    def __init__(self, settings: ModelSettings, author: AuthorProcess | None = None) -> None:
        """`author`: one that was started already, and is the model's from now on; else at the first question."""
        self._settings = settings
        self._author = author
        self._opened = False

    def reply(self, ask: ModelQuery, on_text: Callable[[str], None]) -> Reply | Exhausted:
        """The next hypothesis as a reply; raises `ModelError` when the module cannot be rewritten."""
        if self._author is None:
            self._author = AuthorProcess()
        if not self._opened:
            self._author.ask(self.opening)
            self._opened = True
        rows = [_row(turn) for turn in ask.history.turns if turn.request.model == self.name]
        answer = self._author.ask({"kind": "next", "history": rows})
        if answer.kind == "exhausted":
            return Exhausted(str(answer.header["message"]))
        text = str(answer.header["text"])
        on_text(text)
        return Reply(text)

    def close(self) -> None:
        if self._author is not None:
            self._author.close()

    @property
    def opening(self) -> dict[str, Any]:
        """What the author is told before the first question."""
        return {
            "kind": "open",
            "problem": to_data(self._settings.problem),
            "target": self._settings.target,
            "device": self._settings.device,
            "memory_limit": self._settings.memory_limit,
            "mode": self._settings.facts.mode,
            "executed": {
                item.name: [list(tensor.shape) for tensor in item.executed]
                for item in self._settings.facts.input_sets
                if item.executed is not None
            },
            "arguments": [list(pair) for pair in self._settings.facts.executed_arguments],
            "dynamic": {
                item.name: [
                    [list(place) for place in size.places]
                    for size in self._settings.facts.dynamic_sizes
                    if size.input_set == item.name
                ]
                for item in self._settings.facts.input_sets
            },
        }


def _row(turn: Turn) -> dict[str, Any]:
    return {
        "source": turn.candidate.source if turn.candidate else None,
        "reply": turn.reply,
        "evaluation": to_data(turn.evaluation) if turn.evaluation else None,
    }


def make(_: str, settings: ModelSettings) -> Model:
    """`compiler`."""
    begun = settings.begun.get(COMPILER)
    return CompilerModel(settings, begun if isinstance(begun, AuthorProcess) else None)
