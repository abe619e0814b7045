"""What an endpoint offers, for the sentence after a wrong model name."""

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


def _listed(url: str, headers: dict[str, str]) -> list[str] | None:
    request = urllib.request.Request(f"{url.rstrip('/')}/models", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
            return [str(entry["id"]) for entry in json.load(answer)["data"]]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _shown(names: Sequence[str], wanted: str) -> str:
    """The closest first."""
    close = difflib.get_close_matches(wanted, names, _MOST, 0.3)
    ordered = [*close, *(name for name in names if name not in close)]
    more = f" and {len(ordered) - _MOST} more" if len(ordered) > _MOST else ""
    return ", ".join(ordered[:_MOST]) + more
