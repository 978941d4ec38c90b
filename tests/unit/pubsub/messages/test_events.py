"""The events of a subscriber, and whole epochs."""

import pickle
from typing import Any

import pyarrow as pa

from tests.kit.messages import raises
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.events import Batch, Epoch, SubscriberStatistics


def test_a_batch_decodes_once_and_only_on_demand() -> None:
    """Its length is known without decoding; asking twice decodes once."""
    counter = SubscriberStatistics()
    batch = Batch(3, 0, encode_batch(3, [1, 2]), counter)
    assert len(batch) == 2
    assert not batch.is_arrow
    assert counter.decoded == 0
    assert batch.records == batch.data == [1, 2]
    assert counter.decoded == 1


def test_an_arrow_batch_offers_table_and_rows() -> None:
    """``data`` stays Arrow, ``records`` are dicts."""
    batch = Batch(3, 0, encode_batch(3, pa.table({"x": [1]})), SubscriberStatistics())
    assert batch.is_arrow
    assert batch.data.num_rows == 1
    assert batch.records == [{"x": 1}]


def test_a_batch_can_be_handed_on_to_another_process() -> None:
    """It pickles, decoded or not."""
    batch = Batch(3, 0, encode_batch(3, [1, 2]), SubscriberStatistics())
    assert pickle.loads(pickle.dumps(batch)).records == [1, 2]
    assert batch.records == pickle.loads(pickle.dumps(batch)).records


def epoch_of(*batches: Any) -> Epoch:
    counter = SubscriberStatistics()
    return Epoch(
        0, tuple(Batch(0, partition, encode_batch(0, batch), counter) for partition, batch in enumerate(batches))
    )


def test_records_of_all_batches_in_order() -> None:
    """Lists are joined, rows of Arrow are dicts; the count needs no decoding."""
    epoch = epoch_of([1, 2], pa.table({"x": [3]}))
    assert len(epoch) == 3
    assert epoch.batches[0].counter.decoded == 0
    assert epoch.records == [1, 2, {"x": 3}]


def test_arrow_batches_become_one_table() -> None:
    """``to_arrow`` joins all batches."""
    assert epoch_of(pa.table({"x": [1]}), pa.table({"x": [2, 3]})).to_arrow().to_pydict() == {"x": [1, 2, 3]}


def test_tables_may_differ_in_how_wide_their_indices_are() -> None:
    """As those of pandas do, where one has few categories and another many."""
    columns = [
        pa.array(["x"]).dictionary_encode().cast(pa.dictionary(kind, pa.string())) for kind in (pa.int8(), pa.int16())
    ]
    table = epoch_of(*(pa.table({"word": column}) for column in columns)).to_arrow()
    assert table.to_pydict() == {"word": ["x", "x"]}


def test_to_arrow_refuses_other_batches() -> None:
    """A list among the batches is an error that says what to use."""
    with raises(DeliveryError):
        epoch_of(pa.table({"x": [1]}), [2]).to_arrow()


def test_an_epoch_shows_few_of_its_records() -> None:
    """A notebook that ends a cell with an epoch of a million records stays readable."""
    batches = [Batch(3, 0, encode_batch(3, numbers), SubscriberStatistics()) for numbers in ([1, 2], list(range(1000)))]
    assert repr(Epoch(3, (batches[0],))) == "Epoch(time=3, records=[1, 2])"
    shown = repr(Epoch(3, (batches[1],)))
    assert shown == "Epoch(time=3, records=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], and 990 more)"
    assert repr(Epoch(3, ())) == "Epoch(time=3, records=[])"


def test_a_notebook_shows_an_epoch_as_a_table() -> None:
    """Of the first records, as text; the batches behind them are not decoded."""
    counter = SubscriberStatistics()
    batches = [Batch(3, 0, encode_batch(3, [{"n": number, "<b>": "&"}] * 15), counter) for number in range(3)]
    shown = Epoch(3, tuple(batches))._repr_html_()
    assert shown.startswith("<table><caption>epoch 3: 45 records, of which 20 are shown</caption><tr><th>n</th>")
    assert "<td>&amp;</td>" in shown
    assert "<b>" not in shown
    assert shown.count("<tr>") == 21
    assert counter.decoded == 2
    arrow = Epoch(3, (Batch(3, 0, encode_batch(3, pa.table({"x": [1]})), SubscriberStatistics()),))
    assert "<tr><th>x</th></tr><tr><td>1</td></tr>" in arrow._repr_html_()
