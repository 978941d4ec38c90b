"""The history of one partition: what it keeps, and what it costs. `tests/protocol/test_history.py` has whole topics."""

import pytest

from tests.kit.messages import raises
from tidewheel.progress import IntegerDomain, ProtocolError
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages import changes
from tidewheel.pubsub.messages.delivery_options import Where
from tidewheel.pubsub.messages.encoded_message import decode_batch, encode_batch
from tidewheel.pubsub.messages.wire import DataMessage, History
from tidewheel.pubsub.protocol import history as module
from tidewheel.pubsub.protocol.history import PartitionHistory


def read(told: History) -> tuple[tuple[int, ...], list[tuple[int, int, object]]]:
    found = [(number, message.time, decode_batch(message)) for number, message in told.messages]
    return told.as_of, found


def test_it_goes_on_from_what_it_has_told() -> None:
    """Batches that were not complete have the number of the message at which it goes on: all of them stand."""
    history = PartitionHistory(IntegerDomain())
    for number, time in enumerate((0, 3, 1, 5)):
        history.receive(number, encode_batch(time, [("a", 1)]))
    history.advance(lambda time: time < 3)
    again = PartitionHistory(IntegerDomain(), history.kept, number=3)
    assert [number for number, _ in history.kept.messages] == [-1, -1, 1, 3]
    assert read(again.told()) == ((1,), [(-1, 1, [("a", 2)]), (3, 3, [("a", 1)]), (3, 5, [("a", 1)])])
    again.receive(4, encode_batch(3, [("a", -3)]))
    again.advance(lambda time: time < 4)
    assert read(again.told()) == ((3,), [(3, 5, [("a", 1)])])


def test_the_last_complete_epoch_never_goes_back() -> None:
    """Where two partitions have become one, an epoch may be complete after a later one."""
    late, early = PartitionHistory(IntegerDomain()), PartitionHistory(IntegerDomain())
    late.receive(0, encode_batch(5, [("a", 1)]))
    late.advance(lambda time: time < 6)
    early.receive(0, encode_batch(3, [("b", 1)]))
    joined = PartitionHistory(IntegerDomain())
    for one in (late, early):
        joined.add(one.kept)
    joined.advance(lambda time: time < 4)
    assert read(joined.told()) == ((5,), [(-1, 5, [("a", 1), ("b", 1)])])


def test_a_condition_leaves_its_records() -> None:
    """Of the sum and of open epochs; one that raises is an error."""
    history = PartitionHistory(IntegerDomain())
    history.receive(0, encode_batch(0, [("a", 1), ("b", 1)]))
    history.receive(1, encode_batch(1, [("b", 1)]))
    history.advance(lambda time: time < 1)
    assert read(history.told(Where(lambda change: change[0] == "a"))) == ((0,), [(-1, 0, [("a", 1)])])
    with raises(DeliveryError):
        history.told(Where(lambda change: 1 / 0 > 1))


def test_what_is_no_change_is_an_error_of_its_worker() -> None:
    """The publisher refuses it, as it does all that makes no sense."""
    history = PartitionHistory(IntegerDomain())
    history.receive(0, encode_batch(0, [1]))
    history.advance(lambda time: time < 1)
    with raises(ProtocolError):
        history.told()


def test_adding_up_costs_no_more_than_the_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a state that grows to 20,000 records, one epoch at a time, each record is added up a few times."""
    added = 0

    def counting(time: int, messages: list[DataMessage]) -> DataMessage:
        nonlocal added
        added += sum(message.records for message in messages)
        return changes.summed(time, messages)

    monkeypatch.setattr(module, "summed", counting)
    monkeypatch.setattr(module, "_LEAST_BYTES", 1000)
    history = PartitionHistory(IntegerDomain())
    for time in range(2000):
        history.receive(time, encode_batch(time, [(time * 10 + record, 1) for record in range(10)]))
        history.advance(lambda other, now=time: other <= now)  # type: ignore[misc]
    assert sum(message.records for _, message in history.told().messages) == 20_000
    assert added < 5 * 20_000
