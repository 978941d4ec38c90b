"""The English of pages, docstrings of public names, and messages: short sentences and the usual words.

`python -m tests.packaging.layout [FOLDER]` prints the offenders. Those still permitted stand here, by page and by root
folder of the code, and only get fewer. README and tutorial have none.
"""

from collections import Counter

import pytest

from tests.packaging.english import (
    docstring_sentences,
    docstrings,
    long_sentences,
    messages,
    page_sentences,
    pages,
    refused,
    unusual_words,
)

PERMITTED_SENTENCES = {
    "docs/design.md": 30,
    "operators": 12,
    "progress": 1,
    "pubsub": 6,
    "runtime": 15,
}
PERMITTED_WORDS = {
    "docs/design.md": 25,
    "operators": 6,
    "pubsub": 15,
    "runtime": 17,
    "transport": 2,
}


def _more_than(permitted: dict[str, int], offenders: list[str]) -> list[str]:
    """Return the offenders of each page or root folder that has more of them than are permitted."""
    counted = Counter(map(_place, offenders))
    return [offender for offender in offenders if counted[_place(offender)] > permitted.get(_place(offender), 0)]


def _place(offender: str) -> str:
    file = offender.partition(":")[0]
    return file if file.endswith(".md") else file.partition("/")[0]


def test_sentences_are_short() -> None:
    """A reader who is not a native speaker follows 25 words."""
    assert _more_than(PERMITTED_SENTENCES, long_sentences()) == []


def test_words_are_usual() -> None:
    """The words are those that an engineer expects, and a sentence names who acts."""
    assert _more_than(PERMITTED_WORDS, unusual_words()) == []


def test_offenders_are_read_where_users_read() -> None:
    """In pages, in methods that a class inherits, in decorated functions, and in messages of the program."""
    files = {sentence.place.partition(":")[0] for sentence in (*pages(), *docstrings(), *messages())}
    assert files >= {
        "README.md",
        "docs/tutorial/local.md",
        "operators/records/record_operators.py",
        "pubsub/gateway/gateway_config.py",
        "spark_bridge/session.py",
        "src/tidewheel/__main__.py",
    }


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
