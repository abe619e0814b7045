"""What `vllm:` costs beside vLLM itself: from our start to its first token, less vLLM's own share.

`python -m benchmarks.local_models CHECKPOINT [--rounds N]` with `KERNELAGENT_VLLM_PYTHON` set, on a
machine with vLLM. Each round starts one server. vLLM's own share runs from the moment its
interpreter is executed (a wrapper script writes it down) to the first healthy answer (a watcher of
its own asks every 10 ms), and from a bare HTTP request to its first token.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from kernelagent.domain.events import Event, ServerProgress
from kernelagent.domain.history import History, Message, TurnRequest
from kernelagent.domain.problem import ProblemFacts, ProblemSpec
from kernelagent.models import ModelQuery, ModelSettings
from kernelagent.models.vllm.model import KEY, VllmModel
from kernelagent.models.vllm.options import PYTHON

_WATCH = """
import sys, time, urllib.request
port, out = sys.argv[1:]
while True:
    try:
        if urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).status == 200:
            break
    except OSError:
        time.sleep(0.01)
open(out, "w").write(repr(time.time()))
"""
_WRAPPER = """#!/bin/sh
case "$*" in *api_server*)
  date +%s.%N > {folder}/executed
  for word; do test "$before" = --port && port=$word; before=$word; done
  {python} -S -c {watch} $port {folder}/healthy &
esac
exec {python} "$@"
"""
_WORDS = (Message("user", "Write a Triton kernel that adds two vectors."),)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    print(
        "| round | before vLLM | vLLM's own start | healthy to first token | bare request | ours |"
    )
    print("|---|---|---|---|---|---|")
    for number in range(1, given.rounds + 1):
        print(
            f"| {number} | " + " | ".join(f"{s:.2f} s" for s in one_round(given.checkpoint)) + " |"
        )


def one_round(checkpoint: str) -> tuple[float, float, float, float, float]:
    """Seconds of one start, in the order of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = os.environ.get(PYTHON, sys.executable)
        _wrap(folder, python)
        os.environ[PYTHON] = str(folder / "python")
        try:
            return _measured(checkpoint, folder)
        finally:
            os.environ[PYTHON] = python


def _measured(checkpoint: str, folder: Path) -> tuple[float, float, float, float, float]:
    where: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, ServerProgress) and event.phase == "ready":
            where.append(event.detail)

    began = time.time()
    model = VllmModel(f"vllm:{checkpoint}", _settings(folder, hear))
    try:
        first: list[float] = []
        request = TurnRequest("write", model.name)
        model.reply(
            ModelQuery(0, request, _WORDS, History(), tokens_left=2048),
            lambda text: first.append(time.time()) if text else None,
        )
        bare = _bare_first_token(where[0], Path(checkpoint).name)
    finally:
        model.close()
    executed, healthy = (float((folder / name).read_text()) for name in ("executed", "healthy"))
    after = first[0] - healthy
    return executed - began, healthy - executed, after, bare, executed - began + after - bare


def _bare_first_token(url: str, name: str) -> float:
    """Seconds from a request to its first byte of text, without any client library."""
    words = [{"role": m.role, "content": m.content} for m in _WORDS]
    body = json.dumps({"model": name, "messages": words, "stream": True, "max_tokens": 16})
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=600)
    headers = {"Authorization": f"Bearer {os.environ[KEY]}", "Content-Type": "application/json"}
    began = time.time()
    connection.request("POST", "/v1/chat/completions", body, headers)
    response = connection.getresponse()
    assert response.status == http.client.OK, response.read()
    for line in response:
        if b'"content":"' in line.replace(b" ", b"") and b'"content":""' not in line:
            break
    return time.time() - began


def _wrap(folder: Path, python: str) -> None:
    script = folder / "python"
    script.write_text(
        _WRAPPER.format(
            folder=shlex.quote(str(folder)), python=shlex.quote(python), watch=shlex.quote(_WATCH)
        ),
        encoding="utf-8",
    )
    script.chmod(0o755)


def _settings(folder: Path, hear: object) -> ModelSettings:
    facts = ProblemFacts("p", "", "Model", "init", "()", (), (), (), "eval", "0", "")
    return ModelSettings(
        ProblemSpec(path="x.py"), facts, "sm_90", "virtual", folder=folder, publish=hear
    )


if __name__ == "__main__":
    main()
