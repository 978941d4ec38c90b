"""The pictures of docs/collections.md are those that the sources draw."""

from docs.collection_pictures import FOLDER, pictures
from tests.packaging.repository import ROOT


def test_the_pictures_are_as_new() -> None:
    """Whoever changes the drawing runs `make docs`."""
    drawn = dict(pictures())
    assert {file for file in drawn if file.read_text(encoding="utf-8") != drawn[file]} == set(), "run `make docs`"
    assert {file.parent for file in drawn} == {FOLDER}


def test_the_page_shows_all_of_them() -> None:
    """And in the order in which they are drawn."""
    page = (ROOT / "docs" / "collections.md").read_text(encoding="utf-8")
    places = [page.find(f"pictures/{file.name}") for file, _ in pictures()]
    assert places == sorted(places)
    assert places[0] > 0
