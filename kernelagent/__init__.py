"""kernelagent: a PyTorch module in, a verified, faster drop-in module out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelagent.loop.api import Result, evaluate, optimize

__version__ = "0.1.0"
__all__ = ["Result", "__version__", "evaluate", "optimize"]


def __getattr__(name: str) -> Any:
    # Lazy (PEP 562): importing the package must not cost a second of torch.
    if name in {"Result", "evaluate", "optimize"}:
        from kernelagent.loop import api

        return getattr(api, name)
    raise AttributeError(f"module 'kernelagent' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
