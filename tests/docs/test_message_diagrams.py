"""Message diagrams: the text of a block, and the picture that is made of it."""

from xml.etree import ElementTree

import pytest

from docs.message_diagrams import Step, drawn, fence, parsed

SOURCE = """
driver | worker 0 | worker 1
driver -> worker 0: records at 3 & more
worker 0 -> worker 0: takes a step
worker 1 --> driver: an answer: "done" <at once>
note: time passes
worker 0 -x worker 1: lost
"""
SVG = "{http://www.w3.org/2000/svg}"


def test_each_line_is_a_step() -> None:
    """Messages, events at one party, answers, remarks and lost messages, in order."""
    diagram = parsed(SOURCE)
    assert diagram.parties == ("driver", "worker 0", "worker 1")
    assert diagram.steps == (
        Step("records at 3 & more", 0, 1, "->"),
        Step("takes a step", 1, 1, "->"),
        Step('an answer: "done" <at once>', 2, 0, "-->"),
        Step("time passes"),
        Step("lost", 1, 2, "-x"),
    )


@pytest.mark.parametrize("line", ["a -> c: hello", "a b", "a => b: hello", "a -> b:"])
def test_a_line_of_no_known_form_is_an_error(line: str) -> None:
    """A slip in a page fails the building of the site instead of dropping a message."""
    with pytest.raises(ValueError, match="is no step of a message diagram between a, b"):
        parsed(f"a | b\n{line}")


def test_texts_fit_between_the_lines_of_the_parties() -> None:
    """The picture is well-formed, has every text once, and is as wide as the widest of them needs."""
    picture = ElementTree.fromstring(drawn(parsed(SOURCE)))
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert texts == ["driver", "worker 0", "worker 1", *(step.text for step in parsed(SOURCE).steps)]
    long = "x" * 300
    wide = ElementTree.fromstring(drawn(parsed(f"a | b\na -> b: {long}")))
    assert float(wide.attrib["width"]) > 300 * 7


def test_the_fence_is_marked_for_the_style_sheet() -> None:
    """Colours come from the page, so that a diagram can be read on a dark one as well."""
    assert fence("a | b\na -> b: hello", "messages", "messages", {}, None).startswith('<div class="messages"><svg ')
