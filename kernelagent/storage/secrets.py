"""Keeps keys out of everything that is written or shown: one `Redactor` for a run, used at each border."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

MARK = "[redacted]"
_TELLING = frozenset("KEY APIKEY TOKEN SECRET PASSWORD PASSWD PASSPHRASE PAT".split())
_PLACES = ("_PATH", "_FILE", "_DIR", "_HOME")
_PLACEHOLDERS = frozenset("not-needed no-key-needed dummy-key fake-key fake-api-key".split())
_SHORTEST = 8
"""Shorter values stand in ordinary words and in code; no provider's key is that short."""
_USERINFO = re.compile(r"(?<=://)[^/@\s\"'\\]+@")


@dataclass
class Redactor:
    """Replaces known secrets, and user and password of any URL, by a mark."""

    secrets: tuple[str, ...] = ()
    """Longest first, so that a secret that holds another goes whole."""

    def __call__(self, text: str) -> str:
        for secret in self.secrets:
            if secret in text:
                text = text.replace(secret, MARK)
        return _USERINFO.sub(f"{MARK}@", text) if "://" in text else text

    def add(self, *secrets: str) -> None:
        """Secrets that were found after the run had begun, in the keyring."""
        forms = {form for secret in secrets for form in _forms(secret)}
        self.secrets = _longest_first({*self.secrets, *forms})

    def held_back(self, text: str) -> int:
        """How many characters at the end may be the beginning of a secret that is still arriving."""
        return max((_overlap(text, secret) for secret in self.secrets), default=0)


def redactor_for(environment: Mapping[str, str], api_base: str | None = None) -> Redactor:
    """Knows all that looks like a key in `environment`, and the login in `api_base`."""
    redactor = Redactor()
    redactor.add(*_in_environment(environment), *_in_url(api_base or ""))
    return redactor


def is_secret_name(name: str) -> bool:
    """Whether a variable of that name holds a secret, by the words it is made of."""
    words = name.upper().replace("-", "_")
    return bool(_TELLING & set(words.split("_"))) and not words.endswith(_PLACES)


def split_login(url: str) -> tuple[str, str | None]:
    """The address without user and password, and these two as HTTP's Basic scheme wants them.

    None where the address has no login. Raises `ValueError` where it has an `@` and is no address.
    """
    if "@" not in url:
        return url, None
    parts = urlsplit(url)
    if parts.username is None and parts.password is None:
        return url, None
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return bare, _in_base64(_login(parts))


def _in_environment(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if is_secret_name(name) and len(value) >= _SHORTEST and value not in _PLACEHOLDERS:
            yield value
        elif "://" in value:
            yield from _in_url(value)


def _in_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    if not parts.password:
        return
    login = _login(parts)
    # What a server that echoes the header Authorization would send back.
    yield _in_base64(login)
    yield login
    if len(parts.password) >= _SHORTEST:
        yield unquote(parts.password)


def _login(parts: SplitResult) -> str:
    return f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"


def _in_base64(login: str) -> str:
    return base64.b64encode(login.encode()).decode()


def _forms(secret: str) -> Iterator[str]:
    """The secret as it stands in text, in JSON and in a URL."""
    yield secret
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield json.dumps(secret)[1:-1]
    yield quote(secret, safe="")


def _longest_first(forms: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _overlap(text: str, secret: str) -> int:
    longest = min(len(secret) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if text.endswith(secret[:n])), 0)
