"""A strict look at an HTML page: balanced tags, nothing fetched, text apart from markup."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = frozenset({"meta", "br", "hr", "img", "link", "input"})
_FETCHING = frozenset({"src", "srcset", "data", "action", "formaction", "poster", "background"})


@dataclass
class Page(HTMLParser):
    """What one page holds; `problems` is empty for a page that is well made."""

    problems: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, html: str) -> Page:
        page = cls()
        page.feed(html)
        page.close()
        page.problems += [f"<{tag}> is never closed" for tag in page.open]
        twice = {name for name in page.ids if page.ids.count(name) > 1}
        page.problems += [f"id {name} stands twice" for name in twice]
        page.problems += [f"#{to} leads nowhere" for to in page.links if to not in page.ids]
        return page

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in _VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in _FETCHING or name.startswith("on"):
                self.problems.append(f"<{tag} {name}=...>")
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                if (value or "").startswith("#"):
                    self.links.append((value or "")[1:])
                else:
                    self.problems.append(f"a link to {value}")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)
        elif "http" in data or "@import" in data or "url(" in data:
            self.problems.append("a style that fetches")
