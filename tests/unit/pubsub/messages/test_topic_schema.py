"""The schema that topics are said to have: of batches that agree or not, and of other topics."""

import pickle
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypedDict

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest

from tests.kit.messages import raises
from tidewheel.pubsub.errors import DeliveryError, SchemaMismatch
from tidewheel.pubsub.messages.topic_schema import TopicSchema, topic_schema

SCHEMA = pa.schema({"word": pa.string(), "n": pa.int64()})
TABLE = pa.table({"word": ["a"], "n": [1]})


class Row(TypedDict):
    """A row of a table."""

    n: int


class Pair(NamedTuple):
    """A tuple of a user's own."""

    left: int
    right: int


@dataclass
class Event:
    """A record of a user's own."""

    at: int


class Late(Event):
    """A kind of it."""


@pytest.mark.parametrize(
    ("said", "batch"),
    [
        (int, [1, 2]),
        (int, []),
        (int, [1, True]),
        (float, [1, 2.5]),
        (int | str, [1, "a", 2]),
        (tuple[str, int], [("a", 1)]),
        (tuple, [Pair(1, 2), (1, 2)]),
        (Event, [Event(1), Late(2)]),
        (Mapping, [{"n": 1}, OrderedDict(n=1)]),
        (Row, [{"n": 1}]),
        (Row, TABLE),
        (dict, TABLE.to_batches()[0]),
        (object, [None, 1]),
        (Any, TABLE),
        (int, np.array([1, 2], np.uint8)),
        (bool, np.array([True])),
        (float, np.array([1.5], np.float32)),
        (str, np.array(["a"])),
        (datetime, np.array(["2026-01-01", "NaT"], "M8[us]")),
        (list, np.zeros((2, 3))),
        (tuple, np.array([(1, 2.0)], [("a", int), ("b", float)])),
        (int | None, np.array([1, None], object)),
        (SCHEMA, TABLE),
        (SCHEMA, TABLE.to_batches()[0]),
        (SCHEMA, TABLE.slice(1)),
        (SCHEMA, TABLE.replace_schema_metadata({"a": "b"})),
        (SCHEMA, TABLE.cast(pa.schema([pa.field("word", pa.string(), nullable=False), SCHEMA.field("n")]))),
        (pa.schema({"w": pa.dictionary(pa.int8(), pa.string())}), pa.table({"w": pa.array(["a"]).dictionary_encode()})),
    ],
    ids=str,
)
def test_what_agrees(said: Any, batch: Any) -> None:
    """Subclasses are as good, rows are dicts, an int may be a float; metadata, nulls and widths of indices are free."""
    topic_schema(said).check("topic", 0, 3, batch)


@pytest.mark.parametrize(
    ("said", "batch", "came", "expected"),
    [
        (int, [1, "two", 3.0], "str: 'two'", "int"),
        (int, [1, 2.5], "float: 2.5", "int"),
        (bool, [True, 1], "int: 1", "bool"),
        (int | str, [1, "a", None], "NoneType: None", "int | str"),
        (tuple[str, int], [["a", 1]], "list: ['a', 1]", "tuple[str, int]"),
        (Late, [Late(1), Event(2)], f"{__name__}.Event: Event(at=2)", f"{__name__}.Late"),
        (Mapping, [("n", 1)], "tuple: ('n', 1)", "collections.abc.Mapping"),
        (int, TABLE, "a table, whose rows are dicts", "int"),
        (int, np.array([1.5]), "float: 1.5", "int"),
        (str, np.zeros((2, 3)), "list: [0.0, 0.0, 0.0]", "str"),
        (int, np.array([1, None], object), "NoneType: None", "int"),
        (SCHEMA, [("a", 1)], "a list", "(word: string, n: int64)"),
        (SCHEMA, np.array([1]), "a ndarray", "(word: string, n: int64)"),
        (SCHEMA, TABLE.select(["n", "word"]), "a table of (n: int64, word: string)", "(word: string, n: int64)"),
        (SCHEMA, TABLE.select(["word"]), "a table of (word: string)", "(word: string, n: int64)"),
        (
            SCHEMA,
            TABLE.set_column(1, "n", pa.array([1], pa.int32())),
            "a table of (word: string, n: int32)",
            "(word: string, n: int64)",
        ),
    ],
    ids=str,
)
def test_what_does_not_agree(said: Any, batch: Any, came: str, expected: str) -> None:
    """The error names the topic, the partition, the time, what came and what was expected."""
    with pytest.raises(SchemaMismatch) as caught:
        topic_schema(said).check("topic", 2, 3, batch)
    assert str(caught.value) == f"topic 'topic', partition 2: at time 3 came {came}, where {expected} is expected"
    assert (caught.value.topic, caught.value.partition) == ("topic", 2)


def test_what_agreed_once_does_not_vouch_for_others() -> None:
    """Each batch is looked at, whatever came before."""
    schema = topic_schema(int)
    for batch in ([1], [True], [1, 2]):
        assert schema.mismatch(batch) is None
    assert schema.mismatch(["one"]) == "str: 'one'"
    assert schema.mismatch([1, "one"]) == "str: 'one'"


@pytest.mark.parametrize("said", [3, "int", [int], ..., None], ids=str)
def test_what_is_no_schema(said: Any) -> None:
    """The error says what one is."""
    with raises(DeliveryError):
        topic_schema(said)


@pytest.mark.parametrize(
    ("expected", "declared"),
    [
        (int, int),
        (int, bool),
        (float, int),
        (int | str, str),
        (object, Event),
        (Event, Late),
        (tuple, Pair),
        (Mapping, dict),
        (dict, Row),
        (dict, SCHEMA),
        (Mapping, SCHEMA),
        (SCHEMA, SCHEMA.with_metadata({"a": "b"})),
    ],
    ids=str,
)
def test_topics_that_have_what_is_expected(expected: Any, declared: Any) -> None:
    """Whatever is declared is, whichever of it comes, what is expected; after a way through a pickle, too."""
    told = pickle.loads(pickle.dumps(topic_schema(declared).declared))
    assert topic_schema(expected).takes(told)


@pytest.mark.parametrize(
    ("expected", "declared"),
    [
        (bool, int),
        (int, float),
        (int, int | str),
        (Late, Event),
        (Pair, tuple),
        (int, object),
        (int, SCHEMA),
        (SCHEMA, dict),
        (SCHEMA, pa.schema({"n": pa.int64(), "word": pa.string()})),
        (SCHEMA, pa.schema({"word": pa.string(), "n": pa.int32()})),
    ],
    ids=str,
)
def test_topics_that_may_have_something_else(expected: Any, declared: Any) -> None:
    """One that could come would be wrong."""
    assert not topic_schema(expected).takes(topic_schema(declared).declared)


READER = """
import pickle, sys
text = pickle.load(sys.stdin.buffer).text
print(text, sorted({name.partition(".")[0] for name in sys.modules} & {"pyarrow", "tests"}))
"""


@pytest.mark.parametrize(("said", "text"), [(SCHEMA, "(word: string, n: int64)"), (Event, f"{__name__}.Event")])
def test_what_is_declared_is_read_without_what_it_is_about(said: Any, text: str) -> None:
    """The catalog needs neither the modules of users nor Arrow."""
    found = subprocess.run(
        [sys.executable, "-c", READER],
        input=pickle.dumps(topic_schema(said).declared),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert found.stdout.decode().strip() == f"{text} []"


def class_of_a_script(name: str) -> type:
    """Make a class as a script has it: each process gets one of its own."""
    return type(name, (), {"__module__": "__main__"})


def test_classes_of_scripts_go_by_their_names() -> None:
    """Two drivers run the same script, or a worker has a copy of a class: both mean the same."""
    here, there = class_of_a_script("Order"), class_of_a_script("Order")
    assert here is not there
    assert topic_schema(here).mismatch([there()]) is None
    assert topic_schema(here).takes(topic_schema(there).declared)
    assert not topic_schema(here).takes(topic_schema(class_of_a_script("Invoice")).declared)


@pytest.mark.parametrize("said", [int, Event, SCHEMA], ids=str)
def test_a_schema_goes_to_the_workers(said: Any) -> None:
    """It pickles, with what it needs to check."""
    copy: TopicSchema = pickle.loads(cloudpickle.dumps(topic_schema(said)))
    assert copy.declared.text == topic_schema(said).declared.text
    assert copy.mismatch(["x"]) is not None
