"""Commands in the order in which they are used, in groups; `--help` shows them so."""

from __future__ import annotations

import typer

GROUPS: dict[str, tuple[str, ...]] = {
    "Before": ("doctor", "keys", "scan", "profile"),
    "Optimize": ("optimize", "tui", "steer", "runs", "show", "diff", "report"),
    "Take it home": ("apply", "evaluate", "recheck", "import"),
    "Many runs": ("bench", "compare", "memory"),
    "Other writers and trainers": ("mcp", "prompt", "record", "export"),
}


def put_in_order(app: typer.Typer) -> None:
    """Sort and group what `app` has; a command that is in no group comes last, ungrouped."""
    places = {
        name: (at, group)
        for at, (group, name) in enumerate((g, n) for g, names in GROUPS.items() for n in names)
    }
    # The commands of a group without a name stand among the others.
    for group in list(app.registered_groups):
        inner = group.typer_instance
        if inner is None or isinstance(group.name, str) or inner.registered_groups:
            continue
        app.registered_commands += inner.registered_commands
        app.registered_groups.remove(group)
    last = (len(places), None)
    for command in app.registered_commands:
        command.rich_help_panel = places.get(_name(command), last)[1] or "More"
    for group in app.registered_groups:
        group.rich_help_panel = places.get(_name(group), last)[1] or "More"
    app.registered_commands.sort(key=lambda entry: places.get(_name(entry), last)[0])


def _name(entry: object) -> str:
    name = getattr(entry, "name", None)
    callback = getattr(entry, "callback", None)
    return str(name or getattr(callback, "__name__", "")).rstrip("_").replace("_", "-")
