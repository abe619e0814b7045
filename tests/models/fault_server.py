"""An OpenAI-compatible server over real HTTP that fails the way real ones do, on request.

Each ask is answered by the next `Answer` of the plan, afterwards by `otherwise`; what was asked is
kept in `received`. Nothing here knows the client.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

MODEL = "writer-1"


@dataclass(frozen=True)
class Answer:
    """What the server does with one ask."""

    text: str = ""
    thinking: str = ""
    """Sent as `reasoning_content`, before the text."""
    calls: tuple[tuple[str, str], ...] = ()
    """Functions that it calls: name, and arguments as JSON (or as whatever a model writes)."""
    finish: str = "stop"
    usage: bool = True
    dollars: float | None = None
    """What the usage says it cost, as some providers do."""
    status: int = 200
    error: str = ""
    """The message of an error body; used when `status` is not 200."""
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    """Before the first byte."""
    stops_at: float = 1.0
    """The share of the text that is sent before `then` happens."""
    then: Literal["end", "drop", "fade", "stall", "garbage", "error_chunk"] = "end"
    """`fade`: the connection ends in good order, and the reply does not."""
    stall_s: float = 30.0
    piece: int = 4
    """Characters in a chunk; about one token."""
    pace_s: float = 0.0
    """Seconds between chunks."""

    @property
    def tokens_out(self) -> int:
        written = [self.text, self.thinking, *(name + given for name, given in self.calls)]
        return -(-len("".join(written)) // self.piece)

    @property
    def ends_with(self) -> str:
        return "tool_calls" if self.calls else self.finish


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    path: str
    body: dict[str, Any]
    authorization: str
    time_s: float
    taught: bool = False
    """It was refused by the rules, before the plan was looked at."""


@dataclass(frozen=True)
class Rules:
    """What this endpoint cannot do, whatever the plan; each refusal reads like a known server's."""

    system_role: bool = True
    temperature: bool = True
    stream: bool = True
    stream_options: bool = True
    tools: bool = True
    max_tokens: bool = True
    """False: it wants `max_completion_tokens`."""
    explains: bool = True
    """False: a refusal says no more than that the request is bad."""
    key: str | None = None
    window: int | None = None
    """Characters of all messages that fit."""
    models: tuple[str, ...] = (MODEL, "writer-1-mini")


class FaultServer:
    """A context manager; `url` is the api_base."""

    def __init__(
        self,
        plan: Sequence[Answer] = (),
        otherwise: Answer = Answer("nothing is planned here"),
        rules: Rules = Rules(),
    ) -> None:
        self.plan = list(plan)
        self.otherwise = otherwise
        self.rules = rules
        self.received: list[Received] = []
        self.given: list[Answer] = []
        self.chunks_sent = 0
        self.closing = threading.Event()
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"faults": self})
        self._http = _Http(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def asks(self) -> list[Received]:
        """The chat completions among what was received."""
        return [item for item in self.received if item.path.endswith("/chat/completions")]

    def next_answer(self, received: Received) -> Answer:
        """What the rules refuse is refused without using up the plan."""
        with self._lock:
            refused = refusal(self.rules, received)
            self.received.append(replace(received, taught=refused is not None))
            if refused is not None:
                return refused
            answer = self.plan.pop(0) if self.plan else self.otherwise
            self.given.append(answer)
            return answer

    def __enter__(self) -> FaultServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in mid-reply is no error of ours."""


def refusal(rules: Rules, received: Received) -> Answer | None:
    """The error that the rules answer this request with, if any."""
    body = received.body
    if rules.key is not None and received.authorization != f"Bearer {rules.key}":
        sent = received.authorization.removeprefix("Bearer ")
        return failing(401, f"Incorrect API key provided: {sent}.", "invalid_api_key")
    if body.get("model") not in rules.models:
        name = body.get("model")
        return failing(404, f"The model `{name}` does not exist.", "model_not_found")
    refused = _refused_parameter(rules, body)
    if refused is not None:
        return failing(400, refused if rules.explains else "Bad request")
    if rules.window is not None and _length(body) > rules.window:
        return failing(
            400,
            f"This model's maximum context length is {rules.window // 4} tokens. However, your "
            f"messages resulted in {_length(body) // 4} tokens.",
            "context_length_exceeded",
        )
    return None


def _refused_parameter(rules: Rules, body: Mapping[str, Any]) -> str | None:
    if not rules.system_role and any(m["role"] == "system" for m in body["messages"]):
        return "System role not supported"
    if not rules.temperature and "temperature" in body:
        return "Unsupported value: 'temperature' does not support 0.7 with this model."
    if not rules.tools and "tools" in body:
        return (
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        )
    if not rules.stream and body.get("stream"):
        return "This endpoint does not support streaming; set stream to false."
    if not rules.stream_options and "stream_options" in body:
        return "Unrecognized request argument supplied: stream_options"
    if not rules.max_tokens and "max_tokens" in body:
        return (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead."
        )
    return None


def _length(body: Mapping[str, Any]) -> int:
    return sum(len(message["content"] or "") for message in body["messages"])


def failing(status: int, message: str, code: str | None = None, **headers: str) -> Answer:
    """An error answer; `retry_after="2"` becomes the header Retry-After."""
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return Answer(status=status, error=message, code=code, headers=named)


class _Handler(BaseHTTPRequestHandler):
    faults: FaultServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Quiet."""

    def do_GET(self) -> None:
        self.faults.received.append(self._received({}))
        listed = [{"id": name, "object": "model"} for name in self.faults.rules.models]
        self._send_json(200, {"object": "list", "data": listed}, {})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        body = json.loads(self.rfile.read(length))
        answer = self.faults.next_answer(self._received(body))
        if self.faults.closing.wait(answer.wait_s) or (answer.then == "drop" and not answer.text):
            self._cut()
        elif answer.status != 200:
            error = {"message": answer.error, "type": "invalid_request_error", "code": answer.code}
            self._send_json(answer.status, {"error": error}, answer.headers)
        elif body.get("stream"):
            self._stream(answer, wants_usage="stream_options" in body)
        else:
            self._whole(answer)

    def _received(self, body: dict[str, Any]) -> Received:
        return Received(self.path, body, self.headers.get("Authorization", ""), time.monotonic())

    def _send_json(self, status: int, data: object, headers: Mapping[str, str]) -> None:
        self._send(status, json.dumps(data).encode(), headers)

    def _send(
        self, status: int, raw: bytes, headers: Mapping[str, str], share: float = 1.0
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw[: int(len(raw) * share)])
        self.wfile.flush()

    def _whole(self, answer: Answer) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text}
        if answer.thinking:
            message["reasoning_content"] = answer.thinking
        if answer.calls:
            message["tool_calls"] = [_called(*row) for row in enumerate(answer.calls)]
        data = _envelope("chat.completion") | {
            "choices": [{"index": 0, "message": message, "finish_reason": answer.ends_with}]
        }
        if answer.usage:
            data["usage"] = _usage(answer)
        raw = json.dumps(data).encode()
        match answer.then:
            case "end":
                self._send(200, raw, answer.headers)
            case "garbage":
                self._send(200, raw[: int(len(raw) * answer.stops_at)] + b"\x00}{", answer.headers)
            case "error_chunk":
                self._send_json(500, {"error": {"message": "the engine died"}}, answer.headers)
            case _:
                self._send(200, raw, answer.headers, answer.stops_at)
                if answer.then == "stall":
                    self.faults.closing.wait(answer.stall_s)
                self._cut()

    def _stream(self, answer: Answer, *, wants_usage: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in _deltas(answer):
            if self.faults.closing.is_set():
                return
            self._event(_chunk(chunk, None))
            if answer.pace_s:
                time.sleep(answer.pace_s)
        match answer.then:
            case "end":
                self._event(_chunk({}, answer.ends_with))
                if wants_usage and answer.usage:
                    self._event(
                        _envelope("chat.completion.chunk")
                        | {"choices": [], "usage": _usage(answer)}
                    )
                self._write(b"data: [DONE]\n\n")
            case "garbage":
                self._write(b'data: {"choices": [{"delta": {"con\n\n')
            case "error_chunk":
                self._event({"error": {"message": "the engine died", "code": 500}})
            case "stall":
                self.faults.closing.wait(answer.stall_s)
                self._cut()
                return
            case "drop":
                self._cut()
                return
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data: object) -> None:
        self.faults.chunks_sent += 1
        self._write(b"data: " + json.dumps(data).encode() + b"\n\n")

    def _write(self, data: bytes) -> None:
        """One chunk of HTTP's chunked encoding."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _cut(self) -> None:
        """As a lost connection looks: no last chunk, no goodbye."""
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)


def _called(place: int, call: tuple[str, str]) -> dict[str, Any]:
    name, arguments = call
    function = {"name": name, "arguments": arguments}
    return {"index": place, "id": f"id-{place}", "type": "function", "function": function}


def _deltas(answer: Answer) -> Iterator[dict[str, Any]]:
    for kind, text in (("reasoning_content", answer.thinking), ("content", answer.text)):
        share = text if kind != "content" else text[: int(len(text) * answer.stops_at)]
        for start in range(0, len(share), answer.piece):
            yield {kind: share[start : start + answer.piece]}
    for place, (name, arguments) in enumerate(answer.calls):
        yield {"tool_calls": [_called(place, (name, ""))]}
        for start in range(0, len(arguments), 7):
            more = {"arguments": arguments[start : start + 7]}
            yield {"tool_calls": [{"index": place, "function": more}]}


def _chunk(delta: Mapping[str, Any], finish: str | None) -> dict[str, Any]:
    return _envelope("chat.completion.chunk") | {
        "choices": [{"index": 0, "delta": dict(delta), "finish_reason": finish}]
    }


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": MODEL}


def _usage(answer: Answer) -> dict[str, float]:
    out = answer.tokens_out
    message = {} if answer.dollars is None else {"cost": answer.dollars}
    return message | {"prompt_tokens": 100, "completion_tokens": out, "total_tokens": 100 + out}


def mid(answer: Answer, then: Any, share: float = 0.5) -> Answer:
    """This answer, with `then` happening after a share of its text."""
    return replace(answer, then=then, stops_at=share)
