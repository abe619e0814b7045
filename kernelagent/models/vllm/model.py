"""A checkpoint of the user's own as the model: `vllm:PATH_OR_NAME` starts vLLM and asks it by litellm."""

from __future__ import annotations

import importlib.util
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from kernelagent.domain.configuration.budget import Cost
from kernelagent.domain.configuration.model_options import VllmOptions
from kernelagent.domain.errors import FunctionsRefused, ModelError, UsageError
from kernelagent.domain.events import Remarked, ServerProgress
from kernelagent.domain.history import Message
from kernelagent.models import (
    Calling,
    CallsTools,
    Concurrent,
    Exhausted,
    Model,
    ModelQuery,
    ModelSettings,
    NotAnswered,
    Priced,
    Reply,
    Windowed,
)
from kernelagent.models.draining import Gate
from kernelagent.models.endpoint.waiting import Patience
from kernelagent.models.vllm.server import VllmServer, Waiting
from kernelagent.storage.secrets import Redactor
from kernelagent.tools.gpu_lock import Gpu, GpuLock
from kernelagent.tools.gpu_memory import MemorySplit, checkpoint_bytes, module_bytes

PREFIX = "vllm:"
_GONE_S = 3.0
KEY = "HOSTED_VLLM_API_KEY"
"""Where litellm looks for the key of a vLLM; candidates' processes never see this environment."""
_IN_FLIGHT = 8
_key_in_use = threading.Lock()


class VllmModel:
    """A vLLM server started on 127.0.0.1, from the first moment to `close`.

    With `settings.gpu` (model and benchmark share it) the server is put to sleep by `pause` and
    woken by the first ask after `resume`.
    """

    def __init__(self, name: str, settings: ModelSettings) -> None:
        """Starts the server and waits for it; raises `ModelError`, `UsageError`."""
        began = time.monotonic()
        checkpoint = name.removeprefix(PREFIX)
        if not checkpoint:
            raise UsageError("say which checkpoint: --model vllm:FOLDER, or vllm:NAME")
        self.name = name
        self._publish = settings.publish
        self._may_sleep = settings.gpu is not None
        self._asleep = False
        options = settings.vllm.with_environment(os.environ)
        gpu = settings.gpu
        if gpu is not None:
            options = self._divided(options, checkpoint, gpu, settings)
        lock = GpuLock(gpu.id) if gpu is not None else None
        shared = (lambda: lock.shared(self._warn)) if lock is not None else nullcontext
        self._gate = Gate(shared, self._wake)
        key = _run_key()
        settings.redact.add(key)
        self._server = VllmServer(
            checkpoint, key, _log_in(settings.folder, name), options, sleeps=gpu is not None
        )
        self._publish(
            ServerProgress(name, "starting", 0.0, f"its words stand in {self._server.log}")
        )
        _load_litellm_meanwhile()
        with shared():
            self._server.start(self._tell)
        try:
            self._model = _endpoint(self._server.served, self._server.url, settings.redact)
        except BaseException:
            self._server.close()
            raise
        self._publish(ServerProgress(name, "ready", time.monotonic() - began, self._server.url))

    def reply(
        self, ask: ModelQuery, on_text: Callable[[str], None]
    ) -> Reply | Exhausted | NotAnswered:
        """Ask the server; raises `ModelError`, with the end of its log when it is gone."""
        with self._gate.generating():
            try:
                answer = self._model.reply(ask, on_text)
            except ModelError as error:
                if isinstance(error, FunctionsRefused) or self._server.healthy():
                    raise
                raise ModelError(
                    f"vLLM ended while it was asked; the last lines of {self._server.log}:\n"
                    f"{self._server.last_lines()}"
                ) from error
        if not isinstance(answer, Reply):
            return answer
        # Of a whole reply the client remarks only that its price is unknown: here there is none.
        remark = answer.remark if answer.finish == "lost" else None
        return replace(answer, dollars=0.0, remark=remark)

    @property
    def most_in_flight(self) -> int:
        return self._model.most_in_flight if isinstance(self._model, Concurrent) else _IN_FLIGHT

    @property
    def calling(self) -> Calling | None:
        return self._model.calling if isinstance(self._model, CallsTools) else None

    def worst_case(self, messages: Sequence[Message], tokens_left: int | None) -> Cost:
        """Its tokens; no dollars, for the machine is the user's."""
        if isinstance(self._model, Priced):
            return Cost(self._model.worst_case(messages, tokens_left).tokens, 0.0)
        return Cost(None, 0.0)

    @property
    def prompt_room(self) -> int | None:
        return self._model.prompt_room if isinstance(self._model, Windowed) else None

    def pause(self) -> None:
        """Let asks end, then have the server give its memory back."""
        self._gate.close()
        if self._asleep or not self._may_sleep:
            return
        try:
            self._server.sleep()
            self._asleep = True
        except ModelError as error:
            # Nothing is generated all the same, so a timing is not disturbed: only memory is short.
            self._may_sleep = False
            self._warn(f"{self.name} keeps its memory during evaluations: {error}")

    def resume(self) -> None:
        """Asks may begin; the first one wakes the server, so that nothing here can fail."""
        self._gate.open()

    def close(self) -> None:
        began = time.monotonic()
        self._server.close()
        self._publish(ServerProgress(self.name, "stopped", time.monotonic() - began))

    def _wake(self) -> None:
        if self._asleep:
            self._server.wake()
            self._asleep = False

    def _tell(self, waiting: Waiting) -> None:
        self._publish(ServerProgress(self.name, "waiting", waiting.seconds, waiting.last_line))

    def _warn(self, message: str) -> None:
        self._publish(Remarked("warning", message))

    def _divided(
        self, options: VllmOptions, checkpoint: str, gpu: Gpu, settings: ModelSettings
    ) -> VllmOptions:
        """The options with the model's share of the GPU; the split is said, and when it does not fit."""
        if gpu.memory_bytes is None:
            self._warn(f"how much memory GPU {gpu.id} has is unknown; nvidia-smi would tell")
            return options
        split = MemorySplit(
            gpu.memory_bytes, module_bytes(settings.facts), checkpoint_bytes(checkpoint)
        )
        share = options.gpu_memory_utilization or split.share
        self._publish(Remarked("info", split.shown(share)))
        if (warning := split.warning(share)) is not None:
            self._warn(warning)
        return options.with_share(share) if share > 0 else options


def _endpoint(served: str, url: str | None, redact: Redactor) -> Model:
    from kernelagent.models.litellm_model import LitellmModel, Surroundings

    # Our own server was ready when it was asked first: where nothing listens any more, it has ended.
    around = Surroundings(patience=Patience(unreachable_s=_GONE_S))
    return LitellmModel(f"hosted_vllm/{served}", api_base=url, redact=redact, surroundings=around)


def _load_litellm_meanwhile() -> None:
    """Its import takes seconds, which pass while vLLM starts; raises `ModelError` when it is missing."""
    loading = partial(_endpoint, "any", "http://127.0.0.1:9/v1", Redactor())
    if importlib.util.find_spec("litellm") is None:
        loading()
    threading.Thread(target=loading, daemon=True).start()


def _run_key() -> str:
    """Drawn once for the process, and left where litellm looks for it; the user's own, if there is one."""
    with _key_in_use:
        return os.environ.setdefault(KEY, secrets.token_urlsafe(24))


def _log_in(folder: Path, name: str) -> Path:
    safe = "".join(c if c.isalnum() else "-" for c in name)[-60:].strip("-")
    return folder / f"{safe}.log"


def make(checkpoint: str, settings: ModelSettings) -> Model:
    """`vllm:CHECKPOINT`."""
    return VllmModel(f"{PREFIX}{checkpoint}", settings)
