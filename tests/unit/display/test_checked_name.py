"""Names that users give."""

import sys
import unicodedata

import pytest

from tests.kit.messages import raises
from tidewheel.display.checked_name import check_name

FINE = [
    "a",
    "words of today",
    "a/b",
    "日本",
    "naïve",
    "\u0634\u0628\u200c",
    "👩\u200d🔬",
    "no\xa0break",
    " ",
    "n" * 200,
]


@pytest.mark.parametrize("name", FINE)
def test_texts_of_any_language_are_names(name: str) -> None:
    """Also with the joiners that some languages need."""
    check_name("a topic", name, ValueError)


@pytest.mark.parametrize(
    "name",
    [
        *("", "a\n", "\0", "\x1b[2J", "a\tb", "\x85", "\u2028", "\u2029", "\ud800", "a\udfff"),
        *("n" * 201, None, 3, b"topic", ["topic"]),
    ],
)
def test_what_cannot_be_shown_is_no_name(name: object) -> None:
    """The error can be shown itself, and is short."""
    with raises(ValueError) as caught:
        check_name("a topic", name, ValueError)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


def test_each_name_can_be_encoded_and_takes_one_line() -> None:
    """Of all characters that there are."""
    for number in range(sys.maxunicode + 1):
        try:
            check_name("x", name := f"a{chr(number)}b", ValueError)
        except ValueError:
            assert unicodedata.category(chr(number)) in {"Cc", "Cs", "Zl", "Zp"}
        else:
            name.encode()
            assert len(name.splitlines()) == 1
