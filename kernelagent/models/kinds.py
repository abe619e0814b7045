"""Which kinds of models there are, by the beginning of their names, and how a model is made of a name.

A package of anybody's adds one by an entry point in the group `kernelagent.models`: the entry point's name is
the kind's, and `NAME:REST` is given to its factory.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from kernelagent.domain.configuration.model_options import COMPILER
from kernelagent.domain.errors import UsageError
from kernelagent.models import Begun, Model, ModelSettings
from kernelagent.storage.secrets import MARK

ENTRY_POINTS = "kernelagent.models"
MCP = "mcp"
"""The name under which a coding agent writes, through `kernelagent mcp`."""
Factory = Callable[[str, ModelSettings], Model]
"""Makes a model of the text behind the colon of its name."""


@dataclass(frozen=True)
class ModelKind:
    """One kind of model: how it is named, made, and where it sends the module's source."""

    name: str
    """What stands before the colon, or the whole name."""
    spelling: str
    """How a user writes it, for messages."""
    factory: str
    """`package.module:function`, imported when such a model is asked for."""
    sends_to: Literal["nobody", "this machine", "elsewhere"] = "elsewhere"
    uses_gpu: bool = False
    """Whether it may keep the GPU busy that candidates are timed on, and is told when to wait."""
    reads: bool = False
    """Whether the text behind the colon, up to a comma, names a file or folder that must be there."""
    reads_prompts: bool = True
    """Whether what a prompt says can change its answer: where not, hints and bans reach nobody."""
    begins: str = ""
    """`package.module:function`: what such a model needs, started while the problem is read."""


BUILT_IN = (
    ModelKind(
        COMPILER,
        COMPILER,
        "kernelagent.models.compiler_model:make",
        "nobody",
        uses_gpu=True,
        reads_prompts=False,
        begins="kernelagent.models.compiler_model:AuthorProcess",
    ),
    ModelKind(
        "replay",
        "replay:PATH",
        "kernelagent.models.replay:make",
        "nobody",
        reads=True,
        reads_prompts=False,
    ),
    ModelKind("files", "files:DIR", "kernelagent.models.files_model:make", "nobody"),
    # It shares its GPU by itself: it is put to sleep while candidates are timed.
    ModelKind("vllm", "vllm:CHECKPOINT", "kernelagent.models.vllm.model:make", "this machine"),
)


def load_model(name: str, settings: ModelSettings) -> Model:
    """The model of a name; imports only the kind asked for. Raises `UsageError` for an unknown name."""
    kind = kind_of(name)
    if kind is None:
        model = _endpoint(name, settings)
        uses_gpu = _on_this_machine(settings.api_base)
    else:
        factory: Factory = _function(kind.factory)
        model, uses_gpu = factory(name.partition(":")[2], settings), kind.uses_gpu
    if settings.gpu is not None and uses_gpu:
        from kernelagent.models.draining import drained

        return drained(model, settings.gpu, settings.publish)
    return model


def begin(names: Sequence[str]) -> dict[str, Begun]:
    """Start what models of these names will need; whoever calls it closes it."""
    begins = {kind.name: kind.begins for kind in BUILT_IN if kind.begins}
    return {name: _function(begins[name])() for name in names if name in begins}


def _function(spelling: str) -> Callable[..., Any]:
    module, _, name = spelling.partition(":")
    result: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return result


def kind_of(name: str) -> ModelKind | None:
    """The kind that a name belongs to; None: it is a provider's name for litellm."""
    first, colon, _ = name.partition(":")
    # Entry points are read only when needed: that opens the metadata of every installed package.
    for kinds in (lambda: BUILT_IN, _installed):
        for kind in kinds():
            if kind.name == first and bool(colon) == (kind.name != COMPILER):
                return kind
    return None


def needs_no_endpoint(name: str) -> bool:
    """True for models to which we send nothing over a network."""
    kind = kind_of(name)
    return name == MCP or (kind is not None and kind.sends_to == "nobody")


def stays_on_this_machine(name: str) -> bool:
    """True for models that keep the module's source on this machine."""
    kind = kind_of(name)
    return needs_no_endpoint(name) or (kind is not None and kind.sends_to != "elsewhere")


def why_unheard(names: Collection[str]) -> str | None:
    """A sentence where none of these models reads its prompt, else None."""
    kinds = {name: kind_of(name) for name in names}
    if not kinds or any(kind is None or kind.reads_prompts for kind in kinds.values()):
        return None
    verb = "reads" if len(kinds) == 1 else "read"
    return f"{' and '.join(kinds)} {verb} no prompt: a hint or a ban reaches LLMs only"


def missing_file(name: str) -> str | None:
    """The file or folder that a model of this name reads and that is not there."""
    kind, rest = kind_of(name), name.partition(":")[2].partition(",")[0]
    return rest if kind is not None and kind.reads and not Path(rest).exists() else None


def unknown_model(name: str) -> UsageError:
    """The error for a name that is neither of a kind nor of a provider."""
    close = difflib.get_close_matches(name, [kind.name for kind in BUILT_IN], 1, 0.6)
    hint = f"; did you mean {close[0]}?" if close else ""
    spelled = ", ".join(f"`{kind.spelling}`" for kind in (*BUILT_IN, *_installed()))
    return UsageError(
        f"there is no model {name!r}{hint}; use {spelled}, or a provider's name as litellm spells it, "
        f"for example openai/gpt-5"
    )


def _installed() -> tuple[ModelKind, ...]:
    # A plug-in's model may send the source anywhere, so it is treated as remote.
    return tuple(
        ModelKind(point.name, f"{point.name}:...", point.value)
        for point in entry_points(group=ENTRY_POINTS)
    )


def _endpoint(name: str, settings: ModelSettings) -> Model:
    if name == MCP:
        raise UsageError(
            "this run was driven by a coding agent; go on with `kernelagent mcp --resume RUN`, or name "
            "another writer with --model"
        )
    if "/" not in name and settings.api_base is None:
        raise unknown_model(name)
    if MARK in (settings.api_base or ""):
        raise UsageError(
            "the run's --api-base held a login, which is not kept; give --api-base again"
        )
    from kernelagent.models.litellm_model import LitellmModel

    return LitellmModel(name, api_base=settings.api_base, redact=settings.redact)


def _on_this_machine(api_base: str | None) -> bool:
    host = urlsplit(api_base or "").hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")
