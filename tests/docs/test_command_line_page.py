"""docs/reference/command-line.md says what the commands say of themselves."""

from docs.command_line_page import PAGE, page


def test_the_page_is_as_new() -> None:
    """Whoever changes a command runs `make docs`."""
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`, and commit docs/reference/command-line.md"
