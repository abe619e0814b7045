"""Keys and addresses, looked at before a run is begun; litellm, which takes seconds to import, is not."""

from __future__ import annotations

import difflib
import importlib.util
import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Container
from pathlib import Path
from urllib.parse import urlsplit

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import ModelError, UsageError
from kernelagent.models.endpoint.keys import from_keyring
from kernelagent.models.kinds import (
    missing_file,
    needs_no_endpoint,
    stays_on_this_machine,
    unknown_model,
)
from kernelagent.storage.secrets import MARK, Redactor, split_login

_ANSWER_S = 0.8
"""A server that answers more slowly is not an error: the first request will show."""
KEYS: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"),
    "xai": ("XAI_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "cerebras": ("CEREBRAS_API_KEY",),
}
"""Where a provider's key is looked for, by the provider's name; one of them is enough.

From litellm's documentation of each provider. Providers that are not here are left to litellm.
"""


def check_keys(config: RunConfig) -> None:
    """Raises `ModelError` naming the variable of a missing key, `UsageError` for an unknown provider."""
    for name in config.model:
        if stays_on_this_machine(name):
            _check_recording(name)
            continue
        _check_provider(name, config.api_base)
        wanted = KEYS.get(name.partition("/")[0])
        if wanted is None or config.api_base is not None or _key(wanted) is not None:
            continue
        raise ModelError(
            f"{name} could not be asked: there is no key for {name.partition('/')[0]}; set "
            f"{' or '.join(wanted)} in the environment, or keep it with `kernelagent keys set "
            f"{wanted[0]}`"
        )
    _check_address(config)


def check_endpoint(config: RunConfig, ready: Container[str]) -> None:
    """Raises `ModelError` where nothing answers at --api-base, or where it refuses the key."""
    names = [n for n in config.model if not stays_on_this_machine(n) and n not in ready]
    if not names or config.api_base is None or MARK in config.api_base:
        return
    address, login = split_login(config.api_base)
    shown = Redactor()(address)
    status = _status(f"{address.rstrip('/')}/models", _headers(names[0], login))
    if status == "unreachable":
        raise ModelError(
            f"{names[0]} could not be asked: nothing answers at {shown}; is the server running, and is "
            f"--api-base right?"
        )
    if status in (401, 403):
        variables = " or ".join(KEYS.get(names[0].partition("/")[0], KEYS["openai"]))
        raise ModelError(
            f"{names[0]} could not be asked: {shown} refuses the key (HTTP {status}); set {variables} "
            f"in the environment"
        )


def _check_recording(name: str) -> None:
    path = missing_file(name)
    if path is not None:
        raise UsageError(f"there is no recording {path} (from --model {name})")


def _check_provider(name: str, api_base: str | None) -> None:
    provider, slash, _ = name.partition("/")
    if api_base is not None:
        return
    if not slash:
        raise unknown_model(name)
    known = _providers()
    if known is None or provider in known:
        return
    close = difflib.get_close_matches(provider, sorted(known), 3, 0.6)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    raise UsageError(
        f"there is no provider {provider!r} (from --model {name}){hint}; a server of your own needs "
        f"--api-base as well"
    )


def _providers() -> set[str] | None:
    """Every provider litellm has code or prices for; raises `ModelError` where it is not installed."""
    result = importlib.util.find_spec("litellm")
    if result is None or result.origin is None:
        raise ModelError(
            "this model needs litellm, which is not installed; install the extra: "
            "pip install -e '.[llm]'"
        )
    folder = Path(result.origin).parent
    try:
        code = {path.name for path in (folder / "llms").iterdir()}
        table = json.loads((folder / "model_prices_and_context_window_backup.json").read_bytes())
        priced = {str(row.get("litellm_provider")) for row in table.values()}
        priced |= {str(key).partition("/")[0] for key in table if "/" in key}
    except (OSError, ValueError, AttributeError):
        # Another layout of the package: it says itself what it does not know.
        return None
    return code | priced | set(KEYS)


def _check_address(config: RunConfig) -> None:
    if config.api_base is None or all(map(needs_no_endpoint, config.model)):
        return
    try:
        parts = urlsplit(config.api_base)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(
            f"--api-base {Redactor()(config.api_base)} is no address; write it whole, for example "
            f"http://localhost:8000/v1"
        )


def _key(variables: tuple[str, ...]) -> str | None:
    for name in variables:
        key = os.environ.get(name) or from_keyring(name)
        if key:
            return key
    return None


def _headers(name: str, login: str | None) -> dict[str, str]:
    if login is not None:
        return {"Authorization": f"Basic {login}"}
    key = _key(KEYS.get(name.partition("/")[0], KEYS["openai"]))
    return {} if key is None else {"Authorization": f"Bearer {key}", "x-api-key": key}


def _status(url: str, headers: dict[str, str]) -> int | str:
    """The HTTP status of the list of models, `unreachable`, or `slow`."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except urllib.error.URLError as error:
        refused = isinstance(error.reason, ConnectionRefusedError | socket.gaierror)
        return "unreachable" if refused else "slow"
    except (OSError, ValueError):
        return "slow"
