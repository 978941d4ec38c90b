"""The English of pages, docstrings of public names, and messages: short sentences and the usual words.

`python -m tests.packaging.layout [FOLDER]` prints the offenders. Those still permitted stand here, by root folder, and
only get fewer. The README has none.
"""

from collections import Counter

import pytest

from tests.packaging.english import docstring_sentences, long_sentences, page_sentences, refused, unusual_words

PERMITTED_SENTENCES = {"docs": 99, "operators": 30, "progress": 1, "pubsub": 6, "runtime": 16}
PERMITTED_WORDS = {"docs": 105, "operators": 56, "pubsub": 17, "runtime": 39, "transport": 2}


def _more_than(permitted: dict[str, int], offenders: list[str]) -> list[str]:
    """Return the offenders of each root folder, or file beside them, that has more of them than are permitted."""
    roots = [offender.partition(":")[0].partition("/")[0] for offender in offenders]
    counted = Counter(roots)
    return [offender for root, offender in zip(roots, offenders, strict=True) if counted[root] > permitted.get(root, 0)]


def test_sentences_are_short() -> None:
    """A reader who is not a native speaker follows 25 words."""
    assert _more_than(PERMITTED_SENTENCES, long_sentences()) == []


def test_words_are_usual() -> None:
    """The words are those that an engineer expects, and a sentence names who acts."""
    assert _more_than(PERMITTED_WORDS, unusual_words()) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "Nothing is kept for nobody: a subscriber sees what begins after it has come.",
            "A topic stores nothing. A subscriber receives the epochs that begin after it has subscribed.",
        ),
        (
            "What is sent at a time is complete once the input has gone past it.",
            "An epoch is complete when its input has advanced past it and all its records have been processed.",
        ),
        (
            "What was given out counts as done with when the next is asked for.",
            "Asking for the next epoch acknowledges the previous one.",
        ),
        (
            "Take what is to be taken, give away what there is to be given, and let everybody look again.",
            "Receive pending input, send pending output, and wake all waiting readers.",
        ),
        ("Who reads too slowly is cut off.", "The publisher cuts off a subscriber that reads too slowly."),
        ("Ask the worker, who knows it.", "Ask the worker, which knows it."),
        ("An oblivious operator gets through.", "A stateless operator finishes."),
        ("The loop is over.", "The loop has finished."),
        ("The operator is told of ends.", "The operator learns which substreams have ended."),
    ],
)
def test_the_word_list_knows_before_from_after(before: str, after: str) -> None:
    """It refuses a sentence as it should not be, and lets its better form pass."""
    assert list(refused(before))
    assert list(refused(after)) == []


@pytest.mark.parametrize(
    "sentence",
    ["What does a worker do?", "what", "Choose who is allowed to read.", "It takes in 3 seconds.", "Move over there."],
)
def test_the_word_list_lets_plain_sentences_pass(sentence: str) -> None:
    """Questions, headings of tables, and words that are part of others."""
    assert list(refused(sentence)) == []


def test_sentences_of_a_page_are_found() -> None:
    """Wrapped lines are one sentence; an item, a cell and a heading each are their own; code is one word, or none."""
    page = """# Head line

One `a b c` sentence that
is wrapped. Another [one](http://x.y), e.g. this.

- item one
  goes on
- item two

| a b | c |
| --- | --- |

```python
code = 1
```

    more code
"""
    assert list(page_sentences(page)) == [
        (1, "Head line"),
        (3, "One `x` sentence that is wrapped."),
        (3, "Another one, e.g. this."),
        (6, "item one goes on"),
        (8, "item two"),
        (10, "a b"),
        (10, "c"),
        (11, "---"),
        (11, "---"),
    ]


def test_sentences_of_a_docstring_are_found() -> None:
    """Each argument by itself, and no example."""
    text = """First line
goes on. Second.

Args:
    name: of it,
        or not. Really.
    other: no.

Raises:
    JobError: it fails.

>>> run(1)
2 and more

Last."""
    assert [sentence for _, sentence in docstring_sentences(text)] == [
        "First line goes on.",
        "Second.",
        "of it, or not.",
        "Really.",
        "no.",
        "it fails.",
        "Last.",
    ]
