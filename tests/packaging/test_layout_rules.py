"""The rules of the layout: modules import each other in no large circles."""

import pytest

from tests.packaging.layout import import_circles, strongly_connected

PERMITTED_CIRCLES = {"operators": 20}
"""The 20 have `Stream`, the 14 classes that it inherits, and `Dataflow`: their public methods return each other.
`Collection`, with the three classes that it inherits, is made of a `Stream`, and makes one.

`map`, of one of the 14, returns a Stream of other records, and
Python has no type for "this class, of other records": `Self` keeps its parameters. So each of them names Stream.
`Stream.flow` is a Dataflow, which makes Streams and Loops.
"""


def test_modules_do_not_import_each_other_in_large_circles() -> None:
    """At most two modules need each other; imports for types and inside functions count."""
    found = [circle for circle in import_circles() if len(circle) > PERMITTED_CIRCLES.get(circle[0].split("/")[0], 0)]
    assert found == []


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
