"""The site builds without a warning, its links lead somewhere, and it loads nothing from other hosts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tidewheel as tw
from docs.operators_table import public_methods
from tests.docs.site_pages import Page, dead_links, loaded_from_elsewhere, read_pages
from tests.packaging.repository import ROOT
from tests.packaging.surface import doors

BUILD_WITHIN_S = 120
IN_REFERENCE = ("tidewheel", "tidewheel.types", "tidewheel.errors", "tidewheel.spark_bridge")
_IN_SCRIPTS = re.compile(r"https?://[\w.-]+\.[a-z]+[^\"'`\s)]*")
_IN_STYLES = re.compile(r"(?:url\(|@import)\s*[\"']?(https?:|//)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning would have ended its making."""
    folder = tmp_path_factory.mktemp("site").resolve()
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    made = subprocess.run(
        command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=BUILD_WITHIN_S, env=environment
    )
    assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Its pages."""
    return read_pages(site)


def test_every_link_and_anchor_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    """Those to other hosts are not tried."""
    assert len(pages) > 30
    assert list(dead_links(site, pages)) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    """The test above sees a page that is not there, an anchor that is not there, and a picture that is not there."""
    (tmp_path / "a.html").write_text('<p id="x"><a href="#x"></a><a href="b.html#y"></a><a href="c.html"></a>')
    (tmp_path / "b.html").write_text('<a href="a.html#x"></a><img src="d.svg">')
    dead = list(dead_links(tmp_path.resolve(), read_pages(tmp_path.resolve())))
    assert dead == ["a.html: b.html#y", "a.html: c.html", "b.html: d.svg"]


def test_a_page_loads_nothing_from_other_hosts(site: Path, pages: dict[Path, Page]) -> None:
    """Neither scripts nor styles, fonts or pictures: it is the same behind a firewall, and reports no reader."""
    assert loaded_from_elsewhere(pages) == set()
    styles = list(site.rglob("*.css"))
    assert [style.name for style in styles if _IN_STYLES.search(style.read_text(encoding="utf-8"))] == []
    assert len(styles) > 1


@pytest.mark.parametrize(
    ("loaded", "address"),
    [
        ('<script src="https://a.b/c.js"></script>', "https://a.b/c.js"),
        ('<link rel="preconnect" href="//a.b">', "//a.b"),
        ('<img alt="x" src="http://a.b/c.svg">', "http://a.b/c.svg"),
    ],
)
def test_what_a_page_loads_is_found(tmp_path: Path, loaded: str, address: str) -> None:
    """The test above sees scripts, style sheets and pictures; a link to another host loads nothing."""
    (tmp_path / "a.html").write_text(f'<a href="https://c.d/">there</a>{loaded}<img src="own.svg">')
    assert loaded_from_elsewhere(read_pages(tmp_path)) == {address}
    assert [bool(_IN_STYLES.search(style)) for style in ("url(https://a.b/c)", "@import '//a.b'", "url(c.svg)")] == [
        True,
        True,
        False,
    ]


def test_the_scripts_of_the_theme_have_no_reason_to_load_anything(site: Path, pages: dict[Path, Page]) -> None:
    """They load Mermaid only for a page with such a chart, and ask GitHub only about a repository that a page names.

    They load the polyfill only into browsers of before 2020.
    """
    scripts = "".join(script.read_text(encoding="utf-8") for script in site.rglob("bundle*.js"))
    hosts = {address for address in _IN_SCRIPTS.findall(scripts) if "w3.org" not in address}
    known = (
        "https://api.github.com/",
        "https://clipboardjs.com/",  # in a comment
        "https://unpkg.com/mermaid@",
        "https://unpkg.com/resize-observer-polyfill",
    )
    assert {address for address in hosts if not address.startswith(known)} == set()
    for page in pages.values():
        assert not page.classes & {"mermaid", "md-source"}, page.path


def test_every_public_name_is_in_the_reference(pages: dict[Path, Page]) -> None:
    """And every operator."""
    anchors = set().union(*(page.anchors for page in pages.values()))
    shown = {f"{door}.{name}" for door in IN_REFERENCE for name in doors()[door].__all__}
    assert shown - anchors == set()
    here = {anchor for anchor in anchors if anchor.startswith(("tidewheel.operators.", "tidewheel.Stream."))}
    assert set(public_methods(tw.Stream)) - {anchor.rpartition(".")[2] for anchor in here} == set()
