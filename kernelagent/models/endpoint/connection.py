"""Where an ask goes: provider, address, key, login; the only place that holds any of the latter two."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from kernelagent.models.endpoint.keys import key_from_keyring, missing_keys
from kernelagent.storage.secrets import Redactor, split_login

_NO_KEY = "no-key-needed"
"""Clients want some key also for a server of one's own that asks for none."""


@dataclass(frozen=True)
class Connection:
    """One model at one endpoint."""

    litellm: Any = field(repr=False)
    name: str
    model: str
    """As the endpoint spells it."""
    provider: str
    api_base: str | None
    """Without user and password."""
    login: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    """None: litellm reads it from the environment."""
    key_names: tuple[str, ...] = ()

    @classmethod
    def to(cls, litellm: Any, name: str, api_base: str | None, redact: Redactor) -> Connection:
        """Finds provider and key; a key from the keyring is made known to `redact`."""
        provider, model = _provider(litellm, name, api_base)
        address, login = (None, None) if api_base is None else split_login(api_base)
        result = key_from_keyring(litellm, name, provider)
        key = None
        if result is not None:
            key = result[1]
            redact.add(key)
        elif provider == "openai" and address is not None and not os.environ.get("OPENAI_API_KEY"):
            key = _NO_KEY
        names = missing_keys(litellm, name, provider) or [f"{provider.upper()}_API_KEY"]
        return cls(litellm, name, model, provider, address, login, key, tuple(names))

    @property
    def where(self) -> str:
        """For a sentence: the address, or the provider."""
        return self.api_base or self.provider

    def ask(
        self, messages: list[dict[str, Any]], parameters: dict[str, Any], *, timeout_s: float
    ) -> Any:
        """litellm's stream or whole reply; raises litellm's exceptions."""
        optional: dict[str, Any] = {}
        if self.login is not None:
            optional["extra_headers"] = {"Authorization": f"Basic {self.login}"}
        if self.key is not None:
            optional["api_key"] = self.key
        return self.litellm.completion(
            model=self.model,
            custom_llm_provider=self.provider,
            messages=messages,
            api_base=self.api_base,
            timeout=timeout_s,
            drop_params=True,
            # No retries in litellm: we retry ourselves, and the two would multiply.
            num_retries=0,
            max_retries=0,
            **parameters,
            **optional,
        )

    @property
    def takes_functions(self) -> bool:
        """Whether litellm passes functions on to such a provider at all; what it does not know it drops."""
        known = self.litellm.get_supported_openai_params(
            model=self.model, custom_llm_provider=self.provider
        )
        return "tools" in (known or ())

    def headers(self) -> dict[str, str]:
        """What a plain request to the same endpoint needs."""
        if self.login is not None:
            return {"Authorization": f"Basic {self.login}"}
        key = self.key or os.environ.get(self.key_names[0], "")
        return {"Authorization": f"Bearer {key}"} if key else {}


def _provider(litellm: Any, name: str, api_base: str | None) -> tuple[str, str]:
    """Provider and the model's own name; at an address of one's own any other name is OpenAI's kind."""
    first, slash, rest = name.partition("/")
    known = {str(getattr(item, "value", item)) for item in litellm.provider_list}
    if slash and first in known:
        return first, rest
    if api_base is not None:
        return "openai", name
    try:
        model, provider, _, _ = litellm.get_llm_provider(name)
    except Exception:  # noqa: BLE001 - litellm says so itself, with a reason, when it is asked
        return first, rest or name
    return str(provider), str(model)
