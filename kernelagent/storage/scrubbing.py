"""Takes secrets and this machine's paths out of text that is going to leave it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SHORTEST = 8
_FORMS = re.compile(
    r"""\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}          # OpenAI, Anthropic and alike
    |\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}
    |\bhf_[A-Za-z0-9]{20,}|\bAIza[0-9A-Za-z_-]{30,}|\bAKIA[0-9A-Z]{16}\b
    |\bxox[abprs]-[A-Za-z0-9-]{10,}
    |\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{6,}
    |-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?-----END[ ][A-Z ]*PRIVATE[ ]KEY-----
    |(?<=://)[^\s/:@]+:[^\s/@]+(?=@)""",
    re.VERBOSE | re.DOTALL,
)
_ASSIGNED = re.compile(
    r"""(\b\w*(?:api_?key|token|secret|passw(?:or)?d)\w*\s*[:=]\s*)(["'])[^"'\n]{8,}\2""",
    re.IGNORECASE,
)
# Roots by name: `sum(x)/n/m` is no path.
_PATHS = re.compile(
    r"(?<![\w.])/(?:home|root|Users|tmp|var|opt|mnt|media|usr|etc|srv|run|private|work|workspace"
    r"|data|scratch|nix|gpfs|lustre)(?:/[\w.@+-]+)+/?"
)


@dataclass
class Scrubber:
    """Cleans text and counts what it took out.

    `environment`: values of variables that are named like secrets never leave, whatever their form.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    taken: int = 0

    def __post_init__(self) -> None:
        named = (value for name, value in self.environment.items() if _SECRET_NAME.search(name))
        self._values = sorted({v for v in named if len(v) >= _SHORTEST}, key=len, reverse=True)

    def clean(self, text: str) -> str:
        """`text` without secrets, and with absolute paths cut to their last part."""
        for value in self._values:
            self.taken += text.count(value)
            text = text.replace(value, "[secret]")
        text, count = _FORMS.subn("[secret]", text)
        self.taken += count
        text, count = _ASSIGNED.subn(r"\1\2[secret]\2", text)
        self.taken += count
        return _PATHS.sub(self._last_part, text)

    def _last_part(self, match: re.Match[str]) -> str:
        self.taken += 1
        return f".../{Path(match[0]).name}"
