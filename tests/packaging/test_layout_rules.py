"""The rules of the layout: tests mirror modules, no import circles, small files and classes, plain words, less code.

Offenders are printed by `python -m tests.packaging.layout [FOLDER]` and line counts by
`python -m tests.packaging.count_lines`. The offenders still permitted stand here, by root folder, and only get fewer.
"""

import ast
from collections import Counter
from itertools import pairwise

import pytest

from tests.packaging.count_lines import code_lines, folder_lines, lines_under, product_lines
from tests.packaging.layout import (
    crowded_files,
    import_circles,
    large_classes,
    long_sentences,
    method_names,
    questioning_docstrings,
    sentences,
    strongly_connected,
    unit_tests_without_module,
)
from tests.packaging.repository import name_of, shipped_modules

MOST_CROWDED_FILES = 3
MOST_PRODUCT_LINES = 45_500
"""28,700 before the features for new users (a thousand) and snapshots (five), and exactly once for whole jobs:
restarts, sinks, logs in object stores, trees of relays that form by themselves (three), telemetry (1,090), the page
(520), metrics and their exports (480), lines of JSON in logs (130), terminals and notebooks (890), large payloads
that are received in the log (170), live views in notebooks with sizes of state and lags in seconds (515), lines of
logs and kept tokens in telemetry (200), collections (1,925) of tables of any columns (205), with look-ups (345),
topics with history (254), and snapshots that write only the values that are new (95)."""
MOST_PUBSUB_LINES = 13_373
"""9,200 before publishers were found again that had died, clocks were no matter, relays acknowledged once, logs were in
object stores, epochs that come again were compared, filters went up the tree, and topics kept their partitions with any
number of workers; then telemetry (285), metrics and their exports (400), live views in notebooks (375), and
histories of topics (257)."""

PERMITTED_CIRCLES = {"operators": 20}
"""The 20 have `Stream`, the 14 classes that it inherits, and `Dataflow`: their public methods return each other.
`Collection`, with the three classes that it inherits, is made of a `Stream`, and makes one.

`map`, of one of the 14, returns a Stream of other records, and
Python has no type for "this class, of other records": `Self` keeps its parameters. So each of them names Stream.
`Stream.flow` is a Dataflow, which makes Streams and Loops.
"""
PERMITTED_CLASSES: dict[str, int] = {}
PERMITTED_DOCSTRINGS: dict[str, int] = {}


def _more_than(permitted: dict[str, int], offenders: list[str]) -> list[str]:
    """Return the offenders of each root folder that has more of them than are permitted."""
    counted = Counter(offender.partition("/")[0] for offender in offenders)
    crowded = {root for root, count in counted.items() if count > permitted.get(root, 0)}
    return [offender for offender in offenders if offender.partition("/")[0] in crowded]


def test_unit_tests_mirror_the_modules() -> None:
    """The test of `a/b/c.py` is `tests/unit/a/b/test_c.py`, so that each is found from the other."""
    assert unit_tests_without_module() == []


def test_modules_do_not_import_each_other_in_large_circles() -> None:
    """At most two modules need each other; imports for types and inside functions count."""
    found = [circle for circle in import_circles() if len(circle) > PERMITTED_CIRCLES.get(circle[0].split("/")[0], 0)]
    assert found == []


def test_few_files_are_crowded() -> None:
    """A file of more than 350 lines is an exception."""
    found = crowded_files()
    assert len(found) <= MOST_CROWDED_FILES, found


def test_classes_are_small() -> None:
    """A class with more than 30 methods has more than one task."""
    assert _more_than(PERMITTED_CLASSES, large_classes()) == []


def test_module_docstrings_begin_with_a_noun_phrase() -> None:
    """The first words name the thing, so that a list of first lines can be read."""
    assert _more_than(PERMITTED_DOCSTRINGS, questioning_docstrings()) == []


def test_texts_have_short_sentences() -> None:
    """A person whose job has just failed does not understand a sentence of more than 25 words."""
    assert long_sentences() == []


def test_the_product_is_small() -> None:
    """The whole, and the part for topics without its gateway, stay small enough to be read."""
    assert product_lines() <= MOST_PRODUCT_LINES, folder_lines()
    assert lines_under("pubsub", without="pubsub/gateway") <= MOST_PUBSUB_LINES, folder_lines()


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ("ab bc", []),
        ("ab ba", ["ab"]),
        ("ab bc ca", ["abc"]),
        ("ab bc cb cd dc be ef fe", ["bcd", "ef"]),
        ("ab bc cd da ce ec", ["abcde"]),
    ],
)
def test_circles_are_found(pairs: str, expected: list[str]) -> None:
    """The rule about circles sees those that meet in one module, and no modules beside them."""
    edges: dict[str, set[str]] = {}
    for pair in pairs.split():
        edges.setdefault(pair[0], set()).add(pair[1])
        edges.setdefault(pair[1], set())
    assert sorted("".join(sorted(group)) for group in strongly_connected(edges)) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("raise ValueError('One two. Three')", ["One two.", "Three"]),
        ("reason = f'{a} of {b}: 0.1 s! ' 'Stop it'", ["{} of {}: 0.1 s!", "Stop it"]),
        ("f('at ' + ('one' if a else f'{b} two'))", ["at one", "at {} two", "at ", "one", "{} two"]),
        ("f(a, topic='three\\n  four')", ["three", "four"]),
        ("class A:\n    'doc'\n    def f(self):\n        'doc'\n        return 'text'", ["text"]),
    ],
)
def test_sentences_are_found(source: str, expected: list[str]) -> None:
    """The rule about sentences sees joined texts, both branches of a condition, and texts that are raised elsewhere."""
    assert [sentence for _, sentence in sentences(ast.parse(source))] == expected


def test_code_is_counted() -> None:
    """Docstrings, comments and blank lines do not count; each line of another text does."""
    lines = ['"""Text.', "", 'More."""', "", 'x = """a', "", 'b"""  # why', "# comment"]
    lines += ["def f():", '    """Say."""', "    return (", "        1", "    )"]
    source = "\n".join(lines)
    assert code_lines(source) == 7
    roots = {folder.partition("/")[0] for folder in folder_lines()}
    assert product_lines() == sum(map(lines_under, roots))


def test_methods_are_counted() -> None:
    """Variants of an overloaded method, and the setter of a property, count with it."""
    source = "class A:\n    def f(self): ...\n    def f(self, x): ...\n    async def g(self): ...\n    def_ = 1\n"
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    assert method_names(node) == {"f", "g"}


def test_offenders_are_named_by_their_files() -> None:
    """Counting by root folder relies on it."""
    roots = {name_of(path).partition("/")[0] for path in shipped_modules()}
    every = [*large_classes(), *questioning_docstrings(), *long_sentences(), *crowded_files()]
    assert {offender.partition("/")[0] for offender in every} <= roots
    assert [1 for first, second in pairwise(import_circles()) if len(first) < len(second)] == []
