"""A small server that is started and spoken to as vLLM's is, for tests of processes and of turns.

What it does beyond answering stands in `behaviour.json` of the checkpoint's folder; what it was
asked goes to `asked.jsonl` there, one line when an ask begins and one when it ends.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--model", "--served-model-name", "--host"):
        parser.add_argument(name, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--gpu-memory-utilization", type=float)
    parser.add_argument("--enable-sleep-mode", action="store_true")
    given = parser.parse_args()
    folder = Path(given.model)
    behaviour = json.loads((folder / "behaviour.json").read_text(encoding="utf-8"))
    if "fails" in behaviour:
        sys.stderr.write(f"loading with key {os.environ['VLLM_API_KEY']}\n")
        sys.exit(behaviour["fails"])
    server = ThreadingHTTPServer((given.host, given.port), handler(given, folder, behaviour))
    apart = [
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=s
        )
        for s in (False, True)
    ]
    pids = {"server": os.getpid(), "worker": apart[0].pid, "own_session": apart[1].pid}
    (folder / "pids.json").write_text(json.dumps(pids), encoding="utf-8")
    server.serve_forever()


def handler(given, folder: Path, behaviour: dict):
    log = folder / "asked.jsonl"
    began = time.monotonic()

    def note(what: str) -> None:
        line = json.dumps({"what": what, "at": time.monotonic()}) + "\n"
        with log.open("a", encoding="utf-8") as file:
            file.write(line)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            if self.path == "/health":
                up = time.monotonic() - began >= behaviour.get("starts_after_s", 0)
                self.answer(200 if up else 503, b"")
            elif self.allowed():
                models = {"data": [{"id": given.served_model_name, "object": "model"}]}
                self.answer(200, json.dumps(models).encode())

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            sleeps = given.enable_sleep_mode and os.environ.get("VLLM_SERVER_DEV_MODE") == "1"
            if self.path in {"/sleep?level=1", "/wake_up"}:
                note(self.path.strip("/").partition("?")[0] if sleeps else "refused")
                self.answer(200 if sleeps else 404, b"{}")
            elif self.path == "/v1/chat/completions" and self.allowed():
                assert json.loads(body)["model"] == given.served_model_name
                note("ask")
                if behaviour.get("dies_when_asked"):
                    sys.stderr.write("out of memory, as it were\n")
                    os._exit(7)
                self.stream(behaviour.get("says", "hello"), behaviour.get("speaks_for_s", 0.0))

        def allowed(self) -> bool:
            right = self.headers.get("Authorization") == f"Bearer {os.environ['VLLM_API_KEY']}"
            if not right:
                self.answer(401, b"{}")
            return right

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def stream(self, text: str, seconds: float) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            words = text.split(" ")
            for at, word in enumerate(words):
                time.sleep(seconds / len(words))
                self.event({"content": word + (" " if at + 1 < len(words) else "")}, None)
            # Before the client can know that this was all: it may look, or ask again, at once.
            note("answered")
            self.event({}, "stop")
            self.wfile.write(b"data: [DONE]\n\n")

        def event(self, delta: dict, finish: str | None) -> None:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            head = {"id": "1", "object": "chat.completion.chunk", "created": 1}
            chunk = head | {"model": given.served_model_name, "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()

    return Handler


if __name__ == "__main__":
    main()
