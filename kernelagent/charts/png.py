"""A drawing as PNG, by the optional library `resvg_py`; nothing else of the program needs it."""

from __future__ import annotations

from kernelagent.errors import UsageError


def to_png(drawing: str, *, scale: float = 2.0) -> bytes:
    """The SVG rastered on white, `scale` pixels a unit; raises `UsageError` without the library."""
    try:
        import resvg_py
    except ImportError as error:
        raise UsageError(
            "PNG needs the optional library resvg_py: install kernelagent with its extra `png`, or "
            "keep the SVG, which every browser shows"
        ) from error
    return bytes(resvg_py.svg_to_bytes(svg_string=drawing, zoom=round(scale), background="#ffffff"))
