"""Debian's Chromium for tests of the page, and what a test asks of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright


class Served(Protocol):
    """The place of a page, wherever it is served."""

    @property
    def url(self) -> str: ...

    @property
    def page_url(self) -> str: ...


CHROMIUM = Path("/usr/bin/chromium")
SOON_MS = 2_000
"""The time within which the page has to show a change, in milliseconds."""

needs_chromium = pytest.mark.skipif(
    not CHROMIUM.exists(), reason="there is no /usr/bin/chromium: apt-get install chromium"
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Browser, gateway: Served, fragment: str = "", *, may_say: str = "", **options: object
) -> Iterator[Page]:
    """Open the page; on leaving, check that it asked this gateway alone, and had only errors that say ``may_say``."""
    requests: list[str] = []
    problems: list[str] = []
    context = browser.new_context(**options)  # type: ignore[arg-type]
    try:
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.goto(f"{gateway.page_url}{fragment}")
        yield page
    finally:
        context.close()
    assert {urlsplit(url).netloc for url in requests} == {urlsplit(gateway.url).netloc}
    assert not any("token" in urlsplit(url).query for url in requests)
    unexpected = [problem for problem in problems if not may_say or may_say not in problem]
    assert not unexpected, "; ".join(unexpected)


def soon(page: Page, selector: str, attribute: str, value: str) -> None:
    """Wait until an element has an attribute, for two seconds at most."""
    expect(page.locator(selector).first).to_have_attribute(attribute, value, timeout=SOON_MS)
