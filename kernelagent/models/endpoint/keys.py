"""Where a key comes from: the environment, else the OS keyring; never a file of ours."""

from __future__ import annotations

import os
from typing import Any

SERVICE = "kernelagent"
"""The keyring's entries are made with `keyring set kernelagent OPENAI_API_KEY`."""


def key_from_keyring(litellm: Any, model: str, provider: str | None) -> tuple[str, str] | None:
    """Variable and key, when the environment lacks what the provider needs and the keyring has it."""
    for variable in missing_keys(litellm, model, provider):
        key = from_keyring(variable)
        if key is not None:
            return variable, key
    return None


def missing_keys(litellm: Any, model: str, provider: str | None) -> list[str]:
    """Names of the variables that the provider's client wants and the environment lacks."""
    if provider == "openai":
        return [] if os.environ.get("OPENAI_API_KEY") else ["OPENAI_API_KEY"]
    try:
        return list(litellm.validate_environment(model)["missing_keys"])
    except Exception:  # noqa: BLE001 - an unknown provider is refused by the ask itself, with a reason
        return []


def from_keyring(variable: str) -> str | None:
    """The key under that name; None without the package `keyring`, a keyring, or such an entry."""
    try:
        import keyring
    except ImportError:
        return None
    try:
        result: str | None = keyring.get_password(SERVICE, variable)
    except Exception:  # noqa: BLE001 - backends raise what they like; without a key the ask says so
        return None
    return result
