"""The pictures of dataflows on the site are those that the sources draw."""

from docs.flow_pictures import FOLDER, pictures


def test_the_pictures_are_as_new() -> None:
    """Whoever changes the drawing runs `make docs`."""
    drawn = dict(pictures())
    assert {file for file in drawn if file.read_text(encoding="utf-8") != drawn[file]} == set(), "run `make docs`"
    assert {file.parent for file in drawn} == {FOLDER}
