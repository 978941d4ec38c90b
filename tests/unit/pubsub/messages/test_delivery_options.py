"""The requests of a subscriber to the publishers: conditions on records, and a policy."""

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.kit.messages import raises
from tidewheel.batches.batches import records
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.fanout import select
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions, MessageFilter, Where
from tidewheel.pubsub.messages.encoded_message import (
    EncodedMessage,
    decode,
    decode_batch,
    encode,
    encode_batch,
    place_of,
)
from tidewheel.pubsub.messages.filters import union_of
from tidewheel.pubsub.messages.wire import DataMessage, LowerFrontierUpdate, PartitionEnded

TABLE = pa.table({"n": [1, 2, 3, None]})


def message(batch: Any) -> DataMessage:
    return encode_batch(7, batch)


def batch_of(found: DataMessage | None) -> Any:
    assert found is not None
    assert found.time == 7
    batch = decode_batch(found)
    assert len(batch) == found.records
    return batch


def is_large(record: Any) -> bool:
    return record["n"] is not None and record["n"] > 1 if isinstance(record, dict) else record > 1


def first_is_large(record: Any) -> bool:
    return bool(record[0] > 1)


@pytest.mark.parametrize(
    ("batch", "condition", "wanted"),
    [
        ([1, 2, 3], is_large, [2, 3]),
        ((1, 2, 3), is_large, [2, 3]),
        (np.array([1, 2, 3], dtype=np.int16), is_large, [2, 3]),
        (np.array([[1, 9], [2, 8]]), first_is_large, [[2, 8]]),
        (TABLE, is_large, [{"n": 2}, {"n": 3}]),
        (TABLE, pc.field("n") > 1, [{"n": 2}, {"n": 3}]),
        (TABLE.to_batches()[0], pc.field("n").is_null(), [{"n": None}]),
    ],
    ids=["list", "tuple", "array", "rows of an array", "table", "table, expression", "record batch, expression"],
)
def test_some_records_are_left(batch: Any, condition: Any, wanted: list[Any]) -> None:
    """Of each kind of batch those records are left that meet the condition, in their order."""
    assert records(batch_of(Where(condition).of(message(batch)))) == wanted


def test_the_kind_of_batch_stays() -> None:
    """NumPy keeps its type, and Arrow stays Arrow, with its schema."""
    assert batch_of(Where(is_large).of(message(np.array([1, 2], dtype=np.int16)))).dtype == np.int16
    for condition in (is_large, pc.field("n") > 1):
        left = Where(condition).of(message(TABLE))
        assert batch_of(left).schema == TABLE.schema
        assert left is not None
        assert left.encoding == "arrow"


@pytest.mark.parametrize("batch", [[1, 2], np.array([1, 2]), pa.table({"n": [1, 2]})], ids=["list", "array", "table"])
def test_nothing_wanted_is_nothing_sent_and_all_wanted_is_the_message_itself(batch: Any) -> None:
    """No empty batches travel, and what is wanted as it is is not encoded again."""
    sent = message(batch)
    assert Where(lambda record: False).of(sent) is None
    assert Where(lambda record: True).of(sent) is sent


@pytest.mark.parametrize("truth", [1, "yes", [0]], ids=["number", "text", "list"])
def test_whatever_is_true_is_wanted(truth: object) -> None:
    """A condition need not return a bool, for tables either."""
    for batch in ([1], pa.table({"n": [1]}), np.array([1])):
        sent = message(batch)
        assert Where(lambda record: truth).of(sent) is sent


def test_equal_conditions_are_equal() -> None:
    """The same function, or the same expression made twice, is one condition, also after a journey."""
    assert Where(is_large) == Where(is_large)
    assert hash(Where(is_large)) == hash(Where(is_large))
    assert Where(pc.field("n") > 1) == Where(pc.field("n") > 1)
    assert Where(pc.field("n") > 1) != Where(pc.field("n") > 2)
    assert Where(is_large) != Where(first_is_large)
    assert Where(is_large) != is_large
    assert pickle.loads(pickle.dumps(Where(is_large))) == Where(is_large)


def test_a_condition_travels_by_value() -> None:
    """A function of a script, with what it closes over, works in a process that cannot import it."""
    limit = 2
    copy = pickle.loads(pickle.dumps(Where(lambda record: record > limit)))
    assert batch_of(copy.of(message([1, 2, 3]))) == [3]


def test_an_expression_works_where_nobody_imported_pyarrow_compute() -> None:
    """A publisher that has only ever seen tables knows an expression for what it is."""
    condition, sent = cloudpickle.dumps(Where(pc.field("n") > 1)), cloudpickle.dumps(message(TABLE))
    program = (
        "import pickle, sys\n"
        f"condition, sent = pickle.loads({condition!r}), pickle.loads({sent!r})\n"
        "assert 'pyarrow.compute' not in sys.modules\n"
        "assert condition.of(sent).records == 2\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("condition", [3, "n > 1", [lambda record: True]], ids=["number", "text", "list"])
def test_what_is_no_condition_is_refused(condition: Any) -> None:
    """The error says what goes there."""
    with raises(DeliveryError):
        Where(condition)


def test_what_cannot_be_pickled_is_refused() -> None:
    """At once, where it is asked for, and not at a publisher."""
    lock = threading.Lock()
    with raises(DeliveryError):
        Where(lambda record: lock.locked())


@pytest.mark.parametrize(
    ("batch", "condition", "text"),
    [
        ([1, "two"], lambda record: record > 0, r"time 7: TypeError: .*, for record 'two'"),
        (TABLE, lambda row: row["missing"], r"KeyError: 'missing', for record \{'n': 1\}"),
        (TABLE, pc.field("missing") > 1, r"time 7: ArrowInvalid: .*missing"),
        ([1], pc.field("n") > 1, r"an expression goes with Arrow tables, and here is a list"),
    ],
    ids=["list", "table", "no such column", "expression on a list"],
)
def test_a_condition_that_fails_says_when_and_for_what(batch: Any, condition: Callable[..., Any], text: str) -> None:
    """The error names the epoch, what was raised, and the record where there is one."""
    with pytest.raises(DeliveryError, match=text):
        Where(condition).of(message(batch))


async def waits(record: int) -> bool:
    return record > 0


def test_an_async_condition_is_refused() -> None:
    """A coroutine is true, so every record would meet it."""
    with raises(DeliveryError):
        Where(waits)


def test_a_condition_that_exits_does_not_end_a_publisher() -> None:
    """Its error is that of other conditions; on the main thread it may be a signal, which goes on."""
    where = Where(lambda record: sys.exit(3) if record == 2 else True)
    with ThreadPoolExecutor(1) as thread, raises(DeliveryError):
        thread.submit(where.of, message([1, 2])).result(10)
    with pytest.raises(SystemExit):
        where.of(message([1, 2]))


def encoded(*records: int) -> EncodedMessage:
    return encode(encode_batch(4, list(records)), number=2)


def is_odd(number: int) -> bool:
    return bool(number % 2)


def test_of_a_batch_what_is_wanted_passes_at_the_same_place() -> None:
    """All of it as it is, a part encoded anew, or nothing."""
    odd = MessageFilter(Where(is_odd))
    whole = encoded(1, 3)
    assert odd.of(whole) is whole
    assert odd.of(encoded(2, 4)) is None
    part = odd.of(encoded(1, 2, 3))
    assert part is not None
    assert place_of(part) == (4, 2)
    event = decode(part)
    assert isinstance(event, DataMessage)
    assert decode_batch(event) == [1, 3]


def test_what_is_no_batch_passes() -> None:
    """Moves of the frontier, and the end."""
    odd = MessageFilter(Where(is_odd))
    for message in (encode(LowerFrontierUpdate([(0, -1)])), encode(PartitionEnded())):
        assert odd.of(message) is message


def test_filters_of_one_condition_are_one() -> None:
    """So that a relay tells their subscribers the same without looking twice."""
    assert MessageFilter(Where(is_odd)) == MessageFilter(Where(is_odd))
    assert len({MessageFilter(Where(is_odd)), MessageFilter(Where(is_odd)), MessageFilter(Where(bool))}) == 2


@pytest.mark.parametrize(
    ("conditions", "wanted"),
    [
        ((pc.field("n") > 2, pc.field("n") < 2), [{"n": 1}, {"n": 3}]),
        ((lambda row: row["n"] == 2, lambda row: row["n"] is None), [{"n": 2}, {"n": None}]),
        ((is_large,), [{"n": 2}, {"n": 3}]),
    ],
    ids=["expressions", "functions", "one"],
)
def test_a_union_has_the_records_that_meet_either_condition(conditions: Any, wanted: list[Any]) -> None:
    """In one batch, in their order, also after a journey."""
    united = union_of([MessageFilter(Where(condition)) for condition in conditions])
    event = decode(pickle.loads(pickle.dumps(united)).of(encode(message(TABLE), 0)))
    assert isinstance(event, DataMessage)
    assert records(batch_of(event)) == wanted


def test_a_union_that_cannot_be_evaluated_lets_everything_through() -> None:
    """Where a condition raises, or functions and expressions are together."""
    whole = encode(message(TABLE), 0)
    for conditions in ((pc.field("n") > 2, is_large), (pc.field("m") > 2,), (lambda row: 1 // 0,)):
        united = union_of([MessageFilter(Where(condition)) for condition in conditions])
        assert united is not None
        assert united.of(whole) is whole


def test_a_condition_that_raises_is_an_error_with_the_time() -> None:
    """Of those who subscribed with it, and of nobody else."""
    with raises(DeliveryError):
        select(MessageFilter(Where(lambda number: 1 // number)), ((7, encoded(0)),))


@pytest.mark.parametrize("slow", ["drop", None, 3, ["disconnect"]])
def test_a_policy_that_does_not_exist_is_refused(slow: Any) -> None:
    """The error lists those that do."""
    with raises(DeliveryError):
        DeliveryOptions(slow=slow)


def test_options_travel() -> None:
    """They are told to publisher actors, condition and all."""
    options = DeliveryOptions(Where(len), "drop_epochs")
    assert pickle.loads(pickle.dumps(options)) == options
    assert DeliveryOptions() == EVERYTHING
