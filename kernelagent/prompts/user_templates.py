"""Prompts from templates of the user's own (`--prompts FOLDER`), for models trained on another wording.

The folder holds `first.md.j2` and `next.md.j2`, and `system.md.j2` where there is a system message. Their
fields are documented in docs/agents.md; whatever is wrong with a template is a `UsageError` of one sentence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2
import jinja2.meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from kernelagent.domain.errors import UsageError
from kernelagent.domain.history import Message

_SYSTEM, _FIRST, _NEXT = "system.md.j2", "first.md.j2", "next.md.j2"


@dataclass(frozen=True)
class UserTemplates:
    """The templates of one folder, read once."""

    folder: str
    environment: jinja2.Environment
    has_system: bool
    version: str
    """A hash over the templates, for the log."""
    tells_of_tools: bool = False
    """The first message has the field `tools`."""

    def opening(self, fields: Mapping[str, object]) -> list[Message]:
        """The system message, if there is one, and the first user message; raises `UsageError`."""
        system = [Message("system", self._text(_SYSTEM, fields))] if self.has_system else []
        return [*system, Message("user", self._text(_FIRST, fields))]

    def following(self, fields: Mapping[str, object]) -> str:
        """What is said after a turn; raises `UsageError`."""
        return self._text(_NEXT, fields)

    def _text(self, name: str, fields: Mapping[str, object]) -> str:
        try:
            return self.environment.get_template(name).render(**fields).strip()
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise UsageError(f"--prompts: {self.folder}/{name}: {_why(error)}") from error


@cache
def user_templates(folder: str) -> UserTemplates:
    """The templates in `folder`; raises `UsageError` where one is missing or is not Jinja."""
    path = Path(folder)
    if not path.is_dir():
        raise UsageError(
            f"--prompts {folder}: use strong, small, or a folder with {_FIRST} and {_NEXT}"
        )
    texts = {}
    for name in (_SYSTEM, _FIRST, _NEXT):
        try:
            texts[name] = (path / name).read_text(encoding="utf-8")
        except FileNotFoundError as error:
            if name != _SYSTEM:
                raise UsageError(
                    f"--prompts {folder}: there is no {name} in this folder"
                ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--prompts {folder}: {name} cannot be read: {error}") from error
    environment = ImmutableSandboxedEnvironment(
        loader=jinja2.ChoiceLoader([jinja2.DictLoader(texts), jinja2.FileSystemLoader(path)]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["as_json"] = _as_json
    for name in texts:
        try:
            environment.get_template(name)
        except jinja2.TemplateError as error:
            raise UsageError(f"--prompts: {folder}/{name}: {_why(error)}") from error
    digest = hashlib.sha256("\0".join(f"{k}\0{v}" for k, v in texts.items()).encode())
    version = f"own-{digest.hexdigest()[:8]}"
    used = jinja2.meta.find_undeclared_variables(environment.parse(texts[_FIRST]))
    return UserTemplates(folder, environment, _SYSTEM in texts, version, "tools" in used)


def _as_json(value: object, indent: int = 4) -> str:
    """As Python writes it: keys in their order, and `<` as it is, which Jinja's own filter escapes."""
    return json.dumps(value, indent=indent, ensure_ascii=False)


def _why(error: Exception) -> str:
    line = f"line {error.lineno}: " if isinstance(error, jinja2.TemplateSyntaxError) else ""
    return f"{line}{error.message if isinstance(error, jinja2.TemplateError) else error}"
