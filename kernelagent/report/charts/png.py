"""A drawing as PNG, by the optional library `resvg_py`; nothing else of the program needs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelagent.domain.errors import UsageError

FONT_FOLDERS = (
    Path("/usr/share/fonts"),
    Path("/usr/local/share/fonts"),
    Path("~/.local/share/fonts").expanduser(),
    Path("~/.fonts").expanduser(),
)
# In the order of preference; the first has every mark that the drawings use.
_FAMILIES = {
    "DejaVuSans.ttf": "DejaVu Sans",
    "NotoSans-Regular.ttf": "Noto Sans",
    "LiberationSans-Regular.ttf": "Liberation Sans",
    "Arial.ttf": "Arial",
}


def to_png(drawing: str, *, zoom: int = 2, fonts: Sequence[Path] = FONT_FOLDERS) -> bytes:
    """The SVG rastered on white, `zoom` pixels a unit.

    Raises `UsageError` without the library, and where no font is found: text would be left out.
    """
    try:
        import resvg_py
    except ImportError as error:
        raise UsageError(
            "PNG needs the optional library resvg_py: install kernelagent with its extra `png`, or "
            "keep the SVG, which every browser shows"
        ) from error
    file, family = _font(fonts)
    made = resvg_py.svg_to_bytes(
        svg_string=drawing.replace("system-ui, sans-serif", family),
        zoom=zoom,
        background="#ffffff",
        skip_system_fonts=True,
        font_files=[str(file), *map(str, file.parent.glob(f"{file.stem.split('-')[0]}-Bold.ttf"))],
    )
    return bytes(made)


def _font(folders: Sequence[Path]) -> tuple[Path, str]:
    there = {path.name: path for folder in folders for path in folder.rglob("*.ttf")}
    for name, family in _FAMILIES.items():
        if name in there:
            return there[name], family
    looked = ", ".join(map(str, folders))
    raise UsageError(
        f"PNG needs one of the fonts {', '.join(_FAMILIES.values())} below {looked}: install one, for "
        "example the package fonts-dejavu-core, or keep the SVG"
    )
