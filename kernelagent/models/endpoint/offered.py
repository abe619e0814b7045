"""What an endpoint says of its models: their names, and how much they read at once."""

from __future__ import annotations

import difflib
import json
import urllib.request
from collections.abc import Sequence
from typing import Any

_PATIENCE_S = 10.0
_MOST = 12


def offered(
    litellm: Any, name: str, provider: str, url: str | None, headers: dict[str, str]
) -> str:
    """`it offers A, B`: from the endpoint's own list, else the names litellm knows that are close."""
    listed = _listed(url, headers) if url is not None else None
    if listed is not None:
        return f"it offers {_shown(listed, name)}" if listed else "it offers no model at all"
    known = sorted(getattr(litellm, "models_by_provider", {}).get(provider, ()))
    if url is not None or not known:
        return "its list of models could not be read; check --api-base and the name"
    return f"of {provider}'s models litellm knows {_shown(known, name)}"


def vllm_window(url: str | None, headers: dict[str, str], name: str) -> int | None:
    """Tokens of question and answer that a running vLLM takes; None where it does not say."""
    for entry in (_entries(url, headers) if url is not None else None) or ():
        if entry.get("id") == name and isinstance(message := entry.get("max_model_len"), int):
            return message
    return None


def _listed(url: str, headers: dict[str, str]) -> list[str] | None:
    entries = _entries(url, headers)
    return None if entries is None else [str(entry.get("id")) for entry in entries]


def _entries(url: str, headers: dict[str, str]) -> list[dict[str, Any]] | None:
    request = urllib.request.Request(f"{url.rstrip('/')}/models", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
            return [dict(entry) for entry in json.load(answer)["data"]]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _shown(names: Sequence[str], wanted: str) -> str:
    """The closest first."""
    close = difflib.get_close_matches(wanted, names, _MOST, 0.3)
    ordered = [*close, *(name for name in names if name not in close)]
    more = f" and {len(ordered) - _MOST} more" if len(ordered) > _MOST else ""
    return ", ".join(ordered[:_MOST]) + more
