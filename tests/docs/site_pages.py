"""The pages of the built site, as the tests of its links see them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("video", "src"),
    ("object", "data"),
}
_LOADED_LINKS = {"stylesheet", "preconnect", "preload", "prefetch", "dns-prefetch", "icon", "manifest", "modulepreload"}


@dataclass(slots=True)
class Page:
    """One page: the anchors in it, what it links to, what a browser loads with it, and the classes that it uses."""

    path: Path
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    classes: set[str] = field(default_factory=set)


class _Reader(HTMLParser):
    def __init__(self, page: Page) -> None:
        super().__init__()
        self._page = page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._page.anchors.update(given[name] for name in ("id", "name") if name in given)
        self._page.classes.update(given.get("class", "").split())
        if tag == "a" and "href" in given:
            self._page.links.append(given["href"])
        if tag == "link" and set(given.get("rel", "").split()) & _LOADED_LINKS:
            self._page.loaded.append(given["href"])
        self._page.loaded += [value for name, value in given.items() if (tag, name) in _LOADED]


def read_pages(site: Path) -> dict[Path, Page]:
    """Read every page of a built site."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        page = pages[path] = Page(path)
        _Reader(page).feed(path.read_text(encoding="utf-8"))
    return pages


def loaded_from_elsewhere(pages: dict[Path, Page]) -> set[str]:
    """Return the addresses on other hosts of what a browser loads with the pages."""
    return {address for page in pages.values() for address in page.loaded if urlsplit(address).netloc}


def dead_links(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Yield each link within the site, and each file that a page loads, that leads nowhere; anchors, too."""
    for page in pages.values():
        if page.path.name == "404.html":  # it is shown at any address, so its links begin with a slash
            continue
        for address in [*page.links, *page.loaded]:
            parts = urlsplit(address)
            if parts.netloc or parts.scheme in {"mailto", "data"}:
                continue
            target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
            target = target / "index.html" if target.is_dir() else target
            found = target.is_file() and target.is_relative_to(site)
            if found and parts.fragment and target in pages:
                found = unquote(parts.fragment) in pages[target].anchors
            if not found:
                yield f"{page.path.relative_to(site)}: {address}"
