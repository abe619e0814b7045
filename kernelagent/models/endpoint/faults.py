"""What went wrong between us and an endpoint, read from the many exceptions of litellm and below.

litellm's classes have no common base and differ between providers, so the status, the class's name
and the message decide together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal

Kind = Literal[
    "rate_limited",
    "server",
    "unreachable",
    "timeout",
    "key",
    "quota",
    "name",
    "too_long",
    "refused",
    "bad_request",
    "other",
]
WORTH_WAITING = frozenset({"rate_limited", "server", "unreachable", "timeout"})
"""Kinds that may pass by themselves."""
_TOO_LONG = re.compile(
    r"context.?length|context.?window|maximum context|prompt is too long|too many (input )?tokens"
    r"|exceed\w* (the )?(model'?s )?(max\w* )?(context|number of tokens|input)"
    r"|input (is|was) too long|reduce the length",
    re.IGNORECASE,
)
_WINDOW = re.compile(
    r"context (?:length|window|size)\D{0,12}?([\d,]+) ?tokens|tokens > ([\d,]+) maximum",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"content.?(policy|filter|management)|safety (system|reasons)|flagged|responsible ai",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"model\b.{0,80}(does not exist|not found|not exist|is not a valid|not supported by|unknown)"
    r"|(unknown|invalid|no such) model|provider not provided",
    re.IGNORECASE | re.DOTALL,
)
_NO_KEY = re.compile(
    r"api.?key.{0,40}(must be set|is (missing|required|not set))|missing (credentials|.{0,20}api.?key)"
    r"|no api.?key|(incorrect|invalid) api.?key",
    re.IGNORECASE | re.DOTALL,
)
"""A client that has no key says so itself, and litellm gives that the status of a server's fault."""
_QUOTA = re.compile(r"insufficient.?(quota|balance|credit)|billing|payment required", re.IGNORECASE)
_PREFIX = re.compile(r"^(litellm\.)?(\w+(Error|Exception|Timeout))\s*[:-]\s*")
_LONGEST = 300


class StreamFault(Exception):
    """A stream that holds something that is no chunk: garbage, or an error in mid-reply."""


@dataclass(frozen=True)
class Fault:
    """One failure, of one kind."""

    kind: Kind
    message: str
    """One line, as the endpoint put it."""
    retry_after_s: float | None = None
    """How long the endpoint asked us to wait."""


def fault_of(error: BaseException, *, now_s: float) -> Fault:
    """`error` as a fault; `now_s` (seconds since the epoch) is for a Retry-After that is a date."""
    chain = tuple(_chain(error))
    message = _one_line(str(error))
    return Fault(_kind(error, chain, str(error)), message, _retry_after(chain, now_s))


def stated_window(message: str) -> int | None:
    """Tokens of the window that a refusal names, as common endpoints word it; None where it does not."""
    result = _WINDOW.search(message)
    return int((result[1] or result[2]).replace(",", "")) if result is not None else None


def _kind(error: BaseException, chain: tuple[BaseException, ...], message: str) -> Kind:
    classes = {cls.__name__ for item in chain for cls in type(item).__mro__}
    status = _status(error)
    if "ContextWindowExceededError" in classes or (
        (status in {400, 413, 422, 500} or "StreamFault" in classes) and _TOO_LONG.search(message)
    ):
        return "too_long"
    if "ContentPolicyViolationError" in classes or (status == 400 and _REFUSED.search(message)):
        return "refused"
    if _QUOTA.search(message) and status in {402, 403, 429}:
        return "quota"
    if status in {401, 403} or _NO_KEY.search(message):
        return "key"
    if status == 404 or (status in {400, 422} and _NAME.search(message)):
        return "name"
    if status == 429:
        return "rate_limited"
    return _kind_of_transport(classes, status)


def _kind_of_transport(classes: set[str], status: int | None) -> Kind:
    if "ConnectError" in classes or "ConnectTimeout" in classes:
        return "unreachable"
    if status in {408, 504} or classes & {"TimeoutException", "Timeout", "APITimeoutError"}:
        return "timeout"
    transport = {"TransportError", "APIConnectionError", "ConnectionError", "StreamFault"}
    if (status is not None and status >= 500) or classes & transport:
        return "server"
    return "bad_request" if status in {400, 422} else "other"


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it was made from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        original: Any = getattr(error, "original_exception", None)
        result = original if isinstance(original, BaseException) else None
        error = result or error.__cause__ or error.__context__


def _retry_after(chain: tuple[BaseException, ...], now_s: float) -> float | None:
    for error in chain:
        for headers in (
            getattr(error, "litellm_response_headers", None),
            getattr(getattr(error, "response", None), "headers", None),
        ):
            wait = _wait_in(headers, now_s) if headers is not None else None
            if wait is not None:
                return wait
    return None


def _wait_in(headers: Mapping[str, str], now_s: float) -> float | None:
    value = headers.get("retry-after")
    if value is None:
        return None
    # Seconds, or a date.
    with suppress(ValueError):
        return max(0.0, float(value))
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now_s)
    except ValueError:
        return None


def _one_line(text: str) -> str:
    """The first line, without the class names that litellm puts before it."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")
    line = line.partition(" Original exception:")[0]
    while (shorter := _PREFIX.sub("", line)) != line:
        line = shorter
    return re.sub(r"^\w+Exception - ", "", line)[:_LONGEST]
