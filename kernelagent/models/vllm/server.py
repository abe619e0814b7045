"""A vLLM server: started on 127.0.0.1, waited for, put to sleep and woken, ended."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelagent.domain.configuration.model_options import VllmOptions
from kernelagent.domain.errors import ModelError
from kernelagent.models.vllm import guardian as vllm_guardian
from kernelagent.models.vllm.options import command_for, environment_for, require_vllm, served_name

_HOST = "127.0.0.1"
_GRACE_S = 8.0
_ASK_S = 10.0
_HEALTH_S = 2.0
_SLEEP_S = 600.0
"""Level 1 copies the weights to the host's memory and back."""
_POLL_S = 0.1
_TELL_S = 5.0
"""Seconds between reports of a new log line; an unchanged line is reported six times less often."""
_SHOWN_LINES = 20
_PORTS_TRIED = 3
_PORT_TAKEN = "address already in use"


@dataclass(frozen=True)
class Waiting:
    """How far a start is."""

    seconds: float
    last_line: str
    """Of the server's log."""


class VllmServer:
    """One server process for one checkpoint, with a guardian that outlives a killed controller."""

    def __init__(
        self,
        checkpoint: str,
        key: str,
        log: Path,
        options: VllmOptions,
        *,
        sleeps: bool = False,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Starts nothing yet; raises `ModelError` where the chosen interpreter has no vLLM.

        `log` receives what the server prints. `sleeps`: started with vLLM's sleep mode.
        """
        require_vllm(options, environment)
        self.served = served_name(checkpoint)
        self.log = log
        self._checkpoint = checkpoint
        self._key = key
        self._options = options
        self._sleeps = sleeps
        self._environment = environment_for(checkpoint, key, environment, sleeps=sleeps)
        self._guardian: subprocess.Popen[bytes] | None = None
        self._lifeline = -1
        self._port = 0

    @property
    def url(self) -> str:
        """Where the server speaks OpenAI's protocol."""
        return f"http://{_HOST}:{self._port}/v1"

    @property
    def alive(self) -> bool:
        return self._guardian is not None and self._guardian.poll() is None

    def start(self, on_wait: Callable[[Waiting], None]) -> float:
        """Start and wait until it answers; returns the seconds, raises `ModelError` with the log's end."""
        began = time.monotonic()
        for attempt in range(1, _PORTS_TRIED + 1):
            self._port = free_port()
            self._launch()
            try:
                self._wait_until_healthy(began, on_wait)
            except _PortTaken as error:
                self.close()
                if attempt == _PORTS_TRIED:
                    raise ModelError(str(error)) from error
                continue
            except BaseException:
                self.close()
                raise
            return time.monotonic() - began
        raise AssertionError("unreachable")

    def sleep(self) -> None:
        """Level 1: the cache is dropped, the weights wait in the host's memory."""
        self._command("/sleep?level=1")

    def wake(self) -> None:
        self._command("/wake_up")

    def last_lines(self, count: int = _SHOWN_LINES) -> str:
        """The end of the server's log, without the key should it stand there."""
        try:
            text = self.log.read_bytes()[-65536:].decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.replace(self._key, "***").splitlines()[-count:])

    def close(self) -> None:
        """End the server and everything it started; safe to call twice."""
        if self._guardian is None:
            return
        os.close(self._lifeline)
        try:
            self._guardian.wait(_GRACE_S + _ASK_S)
        except subprocess.TimeoutExpired:
            # The server's first process dies with it; see the guardian.
            self._guardian.kill()
            self._guardian.wait()
        self._guardian = None

    def _launch(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        theirs, self._lifeline = os.pipe()
        command = command_for(
            self._checkpoint, self.served, self._port, self._options, sleeps=self._sleeps
        )
        guardian = [sys.executable, "-I", str(vllm_guardian.__file__), str(theirs), str(_GRACE_S)]
        with self.log.open("ab") as log:
            self._guardian = subprocess.Popen(
                [*guardian, *command],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs,),
                start_new_session=True,
            )
        os.close(theirs)

    def _wait_until_healthy(self, began: float, on_wait: Callable[[Waiting], None]) -> None:
        reported, line = time.monotonic(), ""
        while not self.healthy():
            now = time.monotonic()
            if not self.alive:
                self._raise_ended()
            if now - began > self._options.start_minutes * 60:
                raise ModelError(
                    f"vLLM did not answer within {self._options.start_minutes:g} minutes ([vllm] "
                    f"start_minutes); the last lines of {self.log}:\n{self.last_lines()}"
                )
            if now - reported >= _TELL_S:
                latest = self.last_lines(1)
                if latest != line or now - reported >= 6 * _TELL_S:
                    on_wait(Waiting(now - began, latest))
                    reported, line = now, latest
            time.sleep(_POLL_S)
        self._require_ours()

    def _raise_ended(self) -> None:
        assert self._guardian is not None
        status, end = self._guardian.returncode, self.last_lines()
        self.close()
        if _PORT_TAKEN in end.lower():
            raise _PortTaken(f"vLLM found its port taken, {_PORTS_TRIED} times; see {self.log}")
        raise ModelError(
            f"vLLM ended before it answered (exit status {status}); the last lines of "
            f"{self.log}:\n{end}"
        )

    def healthy(self) -> bool:
        """Whether it answers at all; False also where it cannot be reached."""
        try:
            return self._request("GET", "/health", timeout=_HEALTH_S)[0] == http.client.OK
        except OSError:
            return False
        except http.client.HTTPException:
            return False

    def _require_ours(self) -> None:
        """Whoever answers on the port knows the run's key and the model's name."""
        status, body = self._request("GET", "/v1/models")
        with contextlib.suppress(ValueError, KeyError, TypeError):
            offered = [item["id"] for item in json.loads(body)["data"]]
            if status == http.client.OK and self.served in offered:
                return
        raise _PortTaken(
            f"something else answers on port {self._port} (status {status}); see {self.log}"
        )

    def _command(self, path: str) -> None:
        try:
            status, body = self._request("POST", path, timeout=_SLEEP_S)
        except (OSError, http.client.HTTPException) as error:
            raise ModelError(
                f"vLLM gave no answer to {path} ({error}); the last lines of {self.log}:\n"
                f"{self.last_lines()}"
            ) from error
        if status != http.client.OK:
            text = body[:200].decode(errors="replace")
            raise ModelError(f"vLLM refused {path} with status {status}: {text}")

    def _request(self, method: str, path: str, *, timeout: float = _ASK_S) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(_HOST, self._port, timeout=timeout)
        try:
            connection.request(method, path, headers={"Authorization": f"Bearer {self._key}"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


class _PortTaken(Exception):
    """Between finding a port free and the server's binding it somebody else took it."""


def free_port() -> int:
    """A port of this machine that nothing listens on now."""
    with socket.socket() as item:
        item.bind((_HOST, 0))
        port: Any = item.getsockname()[1]
        return int(port)
