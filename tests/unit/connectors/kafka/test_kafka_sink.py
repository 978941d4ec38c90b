"""`KafkaSink` on tansu, and on the broker that ``TIDEWHEEL_KAFKA`` names."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import cloudpickle
import confluent_kafka
import pytest

import tidewheel as tw
from tests.kit.kafka.mock_cluster import MockCluster, unused_address
from tests.kit.kafka.tansu import REAL, Broker, tansu
from tests.kit.messages import raises
from tidewheel.connectors.kafka import Json, KafkaError, KafkaRecord, KafkaSink, KafkaSource
from tidewheel.host.retry import Retry
from tidewheel.testing import check_sink

_OPEN: list[KafkaSink] = []


@pytest.fixture(autouse=True)
def closed_sinks() -> Iterator[None]:
    yield
    while _OPEN:
        _OPEN.pop().close()


@pytest.fixture(scope="session", params=["tansu", "real"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker until all tests have ended: a client of a broker that has gone opens sockets again and again."""
    if request.param == "tansu":
        with tansu() as broker:
            yield broker
    elif REAL is None:
        pytest.skip("TIDEWHEEL_KAFKA names no broker")
    else:
        yield Broker(REAL, is_real=True)


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"tides-{uuid4().hex}"
    broker.make(name)
    return name


def sink_of(broker: Broker, topic: str, **more: Any) -> KafkaSink:
    _OPEN.append(KafkaSink(broker.servers, topic, name=topic, value=Json(), **more))
    return _OPEN[-1]


def commit(sink: KafkaSink, epoch: int, *values: Any) -> None:
    """Have a sink prepare and commit an epoch."""
    sink.commit(epoch, [sink.prepare(epoch, [KafkaRecord(value, key=b"k") for value in values])])


@pytest.mark.parametrize(
    ("transactions", "numbers"),
    [(True, [2]), pytest.param(True, [2, 0, 2], marks=pytest.mark.long), (False, [2])],
    ids=["transactions", "transactions of three epochs", "idempotent"],
)
def test_it_keeps_the_contract_of_sinks(broker: Broker, transactions: bool, numbers: list[int]) -> None:
    """Crashes before and after each call; without transactions a crash within a call may double an epoch."""
    epochs = [[KafkaRecord([epoch, n], key=b"%d" % n) for n in range(number)] for epoch, number in enumerate(numbers)]

    def topic_of(folder: Path) -> str:
        return f"{folder.parent.name}-{run}"

    def make(folder: Path) -> KafkaSink:
        broker.make(topic_of(folder))
        return sink_of(broker, topic_of(folder), transactions=transactions)

    def read(folder: Path) -> dict[Any, list[KafkaRecord]]:
        found: dict[Any, list[KafkaRecord]] = defaultdict(list)
        for value in map(json.loads, broker.values(topic_of(folder))):
            found[value[0]].append(KafkaRecord(value, key=b"%d" % value[1]))
        return found

    run = uuid4().hex
    check_sink(make, read, epochs)


def test_records_come_back_as_they_were_sent(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Through a job with snapshots: value, key, headers and timestamp."""
    sent = [
        KafkaRecord({"hour": 4}, b"Brest", (("from", b"\xff"), ("from", b"")), 1_000),
        KafkaRecord(None, b"Dover", (), 2_000),
        KafkaRecord({"hour": 5}, None, (), 3_000),
    ]
    flow = tw.Dataflow("out")
    flow.source("tides", tw.RecordSource(sent)).sink(sink_of(broker, topic))
    with tw.run(flow, workers=2, engine="local", snapshots=tw.Snapshots(tmp_path)) as job:
        job.wait(timeout_s=30)
    flow = tw.Dataflow("in")
    flow.source("tides", KafkaSource(broker.servers, topic, value=Json(), bounded=True)).capture("tides")
    with tw.run(flow, engine="local") as job:
        job.wait(timeout_s=30)
        read = [record for captured in job.captured("tides") for record in captured.batch]
    found = sorted(read, key=lambda record: record.timestamp_ms)
    assert [(one.value, one.key, one.headers, one.timestamp_ms) for one in found] == [
        (one.value, one.key, one.headers, one.timestamp_ms) for one in sent
    ]


def test_an_older_sink_of_the_name_is_fenced(broker: Broker, topic: str) -> None:
    """A worker that seemed dead can neither repeat an epoch nor add one."""
    older, newer = sink_of(broker, topic), sink_of(broker, topic)
    commit(older, 0, "a")
    commit(newer, 1, "b")
    commit(older, 1, "not this")
    with raises(KafkaError):
        commit(older, 2, "nor this")
    commit(newer, 2, "c")
    assert sorted(broker.values(topic)) == [b'"a"', b'"b"', b'"c"']
    assert newer.last_committed() == 2


class _Watched(confluent_kafka.Producer):  # type: ignore[misc,unused-ignore]
    """A producer that notes the ends of its transactions, and can lose the answer to a commit."""

    events: list[str]
    loses_answer: bool

    def begin_transaction(self) -> None:
        self.events.append("begin")
        super().begin_transaction()

    def commit_transaction(self, *given: Any) -> None:
        super().commit_transaction(*given)
        self.events.append("commit")
        if _Watched.loses_answer:
            _Watched.loses_answer = False
            lost = confluent_kafka.KafkaError(confluent_kafka.KafkaError._TIMED_OUT, "no answer", retriable=True)
            raise confluent_kafka.KafkaException(lost)

    def abort_transaction(self, *given: Any) -> None:
        self.events.append("abort")
        super().abort_transaction(*given)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[_Watched]:
    monkeypatch.setattr(_Watched, "events", [], raising=False)
    monkeypatch.setattr(_Watched, "loses_answer", False, raising=False)
    monkeypatch.setattr(confluent_kafka, "Producer", _Watched)
    return _Watched


def test_a_commit_whose_answer_is_lost_is_not_repeated(broker: Broker, topic: str, watched: type[_Watched]) -> None:
    """The sink asks the broker what has become of the epoch."""
    sink = sink_of(broker, topic)
    commit(sink, 0, "a")
    assert cloudpickle.loads(cloudpickle.dumps(sink)).last_committed() == 0
    watched.loses_answer = True
    commit(sink, 1, "b")
    commit(sink, 2, "c")
    assert sorted(broker.values(topic)) == [b'"a"', b'"b"', b'"c"']
    assert not watched.loses_answer


def test_no_transaction_stays_open_after_an_error(broker: Broker, topic: str, watched: type[_Watched]) -> None:
    """An open one would hold up all readers of committed records."""
    sink = sink_of(broker, topic)
    commit(sink, 0, "a")
    with pytest.raises(TypeError):
        sink.commit(1, [[(b'"b"', b"k", (), None), (object(), None, (), None)]])  # type: ignore[list-item]
    assert watched.events == ["begin", "commit", "begin", "abort"]
    assert sink.last_committed() == 0
    commit(sink, 1, "c")
    visible = broker.values(topic)
    assert visible[0] == b'"a"'
    assert visible[-1] == b'"c"'
    assert len(visible) == 2 or not broker.is_real


# ---------------------------------------------------------------------- bad ends


def test_no_broker_is_an_error_that_may_pass() -> None:
    sink = KafkaSink(unused_address(), "tides", name="tides")
    sink.retry = Retry(attempts=1, on=ConnectionError)
    with raises(ConnectionError):
        sink.last_committed()


def test_wrong_credentials_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDES_PASSWORD", "correct-horse")
    cluster = MockCluster()
    config = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": tw.Secret("TIDES_PASSWORD"),
    }
    sink = KafkaSink(cluster.servers, "tides", name="tides", config=config)
    assert b"correct-horse" not in cloudpickle.dumps(sink)
    with raises(KafkaError):
        sink.last_committed()
    assert b"correct-horse" not in cloudpickle.dumps(sink)
    cluster.close()


@pytest.mark.parametrize(
    "record", ["tide", KafkaRecord(1j), KafkaRecord("tide", key="text")], ids=["no record", "value", "key"]
)
def test_a_record_of_no_such_format_is_shown(record: Any) -> None:
    with raises(KafkaError):
        KafkaSink("broker:9092", "tides", name="tides", value=Json()).prepare(3, [record])


def test_records_of_no_such_format_are_refused() -> None:
    """By their place; others are not looked at again."""
    sink = KafkaSink("broker:9092", "tides", name="tides", value=Json())
    records = [KafkaRecord(1), "tide", KafkaRecord(2), KafkaRecord(1j), KafkaRecord(3, key="text")]
    refused = sink.refused(records)
    assert sorted(refused) == [1, 3, 4]
    assert all(isinstance(error, KafkaError) for error in refused.values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"headers": (("\ud800", b""),)},
        {"headers": (("hour", "\ud800"),)},
        {"headers": ((5, b""),)},
        {"headers": (("hour", 4),)},
        {"headers": ("hour",)},
        {"headers": None},
        {"timestamp_ms": 1 << 63},
        {"timestamp_ms": 1.5},
    ],
    ids=["half a pair", "half a pair as bytes", "name", "number", "no pair", "none", "long", "float"],
)
def test_headers_and_times_that_the_client_would_not_send_are_refused(wrong: dict[str, Any]) -> None:
    """Without dead letters the sink raises; half a surrogate pair in a name would crash the worker's process."""
    sink = KafkaSink("broker:9092", "tides", name="tides")
    record = KafkaRecord(b"high", **wrong)
    assert sorted(sink.refused([KafkaRecord(b"low"), record])) == [1]
    with raises(KafkaError):
        sink.prepare(3, [record])


@pytest.mark.parametrize(
    "record",
    [
        KafkaRecord(b""),
        KafkaRecord(None, key=b"Brest"),
        KafkaRecord(b"", headers=(("hour", b"4"), ("é", b""))),
        KafkaRecord(b"", key=b"k" * 300, headers=(("n" * 64, b"v" * 64), ("none", None))),  # type: ignore[arg-type]
    ],
    ids=["value", "key", "headers", "long headers"],
)
def test_a_record_that_the_client_would_not_send_is_refused(record: KafkaRecord) -> None:
    """The limit is that of the client, to the byte: another release of it may count otherwise."""
    config = {"message.max.bytes": 2000}
    sink = KafkaSink("127.0.0.1:1", "tides", name="tides", config=config)
    producer = confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **config})

    def sends(value: bytes) -> bool:
        try:
            producer.produce("tides", value, record.key, headers=list(record.headers))
        except confluent_kafka.KafkaException as error:
            if error.args[0].name() != "MSG_SIZE_TOO_LARGE":
                raise
            return False
        return True

    sizes = range(1400, 2000)
    most = next(size for size in sizes if not sends(b"v" * (size + 1)))
    for size in (most, most + 1):
        value = b"v" * size
        is_refused = bool(sink.refused([KafkaRecord(value, record.key, record.headers)]))
        assert is_refused == (size > most)
    producer.purge()


@pytest.mark.parametrize(
    "given",
    [
        {"topic": ""},
        {"name": ""},
        {"config": {"sasl.password": "correct-horse"}},
        {"config": {"transactional.id": "t"}},
    ],
    ids=["topic", "name", "password", "transactional id"],
)
def test_wrong_arguments_are_refused(given: dict[str, Any]) -> None:
    with raises(tw.GraphError):
        KafkaSink(**{"servers": "broker:9092", "topic": "tides", "name": "tides", **given})


def test_an_epoch_has_to_be_an_offset() -> None:
    with raises(KafkaError):
        KafkaSink("broker:9092", "tides", name="tides").commit((1, 2), [])
