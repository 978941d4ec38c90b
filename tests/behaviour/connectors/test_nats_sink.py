"""A sink of NATS JetStream stores each message of an epoch once, over crashes, and completes what a crash has left."""

import asyncio
from collections import defaultdict
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import tidewheel as tw
from tests.kit.connectors.stream_fixtures import nats_server, own_nats_server
from tests.kit.connectors.stream_servers import PASSWORD, StreamServer, new_nats_stream, on_nats
from tests.kit.messages import raises
from tidewheel.connectors.nats import NatsError, NatsRecord, NatsSink, NatsSource, nats_publisher, nats_sink
from tidewheel.connectors.nats.nats_connection import NatsConnection
from tidewheel.connectors.nats.nats_servers import NatsServers
from tidewheel.progress import GraphError
from tidewheel.testing import check_sink

__all__ = ["nats_server", "own_nats_server"]


def records(*numbers: int) -> list[NatsRecord]:
    return [NatsRecord({"hour": number}) for number in numbers]


def store(sink: tw.Sink, epoch: int, *batches: Any) -> None:
    sink.commit(epoch, [sink.prepare(epoch, batch) for batch in batches])


def stored(server: StreamServer, stream: str) -> list[NatsRecord]:
    """Return all messages of a stream."""
    source = NatsSource(server.url, stream, bounded=True)
    return [one for fetched in source.open(stream, None) if isinstance(fetched, tw.Fetched) for one in fetched.batch]


def values(server: StreamServer, stream: str) -> list[bytes]:
    return [one.value for one in stored(server, stream)]


def numbers(server: StreamServer, stream: str) -> list[tuple[str, str]]:
    """Return epoch and number of each message."""
    headers = [dict(one.headers) for one in stored(server, stream)]
    return [(one["Tidewheel-Epoch"], one["Tidewheel-Number"]) for one in headers]


def stopping_at(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next commit lose its server behind so many messages."""
    left = iter([count])

    def publish(connection: Any, stream: str, last: int, messages: list[Any]) -> None:
        limit = next(left, None)
        nats_publisher.publish(connection, stream, last, messages[:limit])
        if limit is not None:
            raise ConnectionError("the server is lost")

    monkeypatch.setattr(nats_sink, "publish", publish)


def test_each_epoch_is_stored_once(nats_server: StreamServer) -> None:
    """Whichever call a crash precedes or follows."""
    streams: dict[Path, str] = {}

    def make(folder: Path) -> tw.Sink:
        streams[folder] = new_nats_stream(nats_server)
        return NatsSink(nats_server.url, f"{streams[folder]}.a")

    def read(folder: Path) -> dict[int, list[NatsRecord]]:
        found: dict[int, list[NatsRecord]] = defaultdict(list)
        for one in stored(nats_server, streams[folder]):
            found[int(dict(one.headers)["Tidewheel-Epoch"])].append(NatsRecord(one.value))
        return found

    check_sink(make, read, [[NatsRecord(b"1"), NatsRecord(b"2")], [NatsRecord(b"3")]])


def test_a_partly_written_epoch_is_completed(nats_server: StreamServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same sink when it tries again, and by one that computes the records in another order and other parts."""
    stream = new_nats_stream(nats_server)
    sink = NatsSink(nats_server.url, f"{stream}.a")
    stopping_at(2, monkeypatch)
    store(sink, 0, records(1, 2, 2, 3))
    assert values(nats_server, stream) == [b'{"hour":1}', b'{"hour":2}', b'{"hour":2}', b'{"hour":3}']
    sink.retry = tw.Retry(attempts=1, on=ConnectionError)
    stopping_at(3, monkeypatch)
    with pytest.raises(NatsError):
        store(sink, 1, records(4, 5), records(4, 6))
    again = NatsSink(nats_server.url, f"{stream}.a")
    assert again.last_committed() == 0
    store(again, 1, records(6, 4), records(5), records(4))
    assert sorted(values(nats_server, stream)[4:]) == [b'{"hour":4}', b'{"hour":4}', b'{"hour":5}', b'{"hour":6}']
    assert numbers(nats_server, stream)[4:] == [("1", f"{n}/4") for n in (1, 2, 3, 4)]
    assert again.last_committed() == 1


@pytest.mark.parametrize("other", [records(1, 9), records(1, 2, 3)], ids=["record", "number"])
def test_an_epoch_that_is_computed_otherwise_is_an_error(
    nats_server: StreamServer, monkeypatch: pytest.MonkeyPatch, other: list[NatsRecord]
) -> None:
    """If a crash has left a part of it: the stream cannot take that back."""
    stream = new_nats_stream(nats_server)
    sink = NatsSink(nats_server.url, f"{stream}.a")
    sink.retry = tw.Retry(attempts=1, on=ConnectionError)
    stopping_at(1, monkeypatch)
    with pytest.raises(NatsError):
        store(sink, 0, records(2, 1))
    assert sink.last_committed() is None
    with raises(NatsError):
        store(sink, 0, other)


def test_an_epoch_that_is_stored_changes_nothing(nats_server: StreamServer) -> None:
    """Nor does an earlier one."""
    stream = new_nats_stream(nats_server)
    sink = NatsSink(nats_server.url, f"{stream}.a")
    assert sink.last_committed() is None
    for epoch in (0, 3, 0, 3):
        store(sink, epoch, records(epoch))
    assert values(nats_server, stream) == [b'{"hour":0}', b'{"hour":3}']
    assert sink.last_committed() == 3


def test_a_stale_worker_does_not_store_an_epoch_again(
    nats_server: StreamServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that seemed dead has looked, the new one stores the epoch, and the first one goes on to write."""
    stream = new_nats_stream(nats_server)
    seemed_dead, alive = (NatsSink(nats_server.url, f"{stream}.a") for _ in range(2))
    raced = iter([True])

    def publish(*given: Any) -> None:
        if next(raced, False):
            store(alive, 0, records(1, 2))
        nats_publisher.publish(*given)

    monkeypatch.setattr(nats_sink, "publish", publish)
    store(seemed_dead, 0, records(1, 2))
    assert values(nats_server, stream) == [b'{"hour":1}', b'{"hour":2}']
    assert "wrong last sequence" in caplog.text


def test_messages_of_two_workers_do_not_mix(nats_server: StreamServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a worker that seemed dead are under way, in another order, and fit behind the first one of the new."""
    stream = new_nats_stream(nats_server)
    sink = NatsSink(nats_server.url, f"{stream}.a")
    raced = iter([True])

    def publish(connection: Any, stream: str, last: int, messages: list[Any]) -> None:
        if next(raced, False):
            nats_publisher.publish(connection, stream, last, messages[:1])
            swapped = [(subject, data, messages[n][2]) for n, (subject, data, _) in enumerate(reversed(messages))]
            with suppress(ConnectionError), closing(NatsConnection(NatsServers("dead", nats_server.url))) as other:
                nats_publisher.publish(other, stream, last, swapped)
            raise ConnectionError("the server is lost")
        nats_publisher.publish(connection, stream, last, messages)

    monkeypatch.setattr(nats_sink, "publish", publish)
    store(sink, 0, records(1, 2))
    assert values(nats_server, stream) == [b'{"hour":1}', b'{"hour":2}']


def test_many_messages_keep_their_order(nats_server: StreamServer) -> None:
    """More than are under way at a time."""
    stream = new_nats_stream(nats_server)
    store(NatsSink(nats_server.url, f"{stream}.a"), 0, [NatsRecord(b"%d" % number) for number in range(1000)])
    assert values(nats_server, stream) == [b"%d" % number for number in range(1000)]


def test_records_have_subjects_and_headers_of_their_own(nats_server: StreamServer) -> None:
    stream = new_nats_stream(nats_server)
    store(NatsSink(nats_server.url, f"{stream}.a"), 0, [NatsRecord(b"1", f"{stream}.b", (("town", "Île: 1"),))])
    [one] = stored(nats_server, stream)
    assert (one.subject, dict(one.headers)["town"]) == (f"{stream}.b", "Île: 1")


def test_a_stream_of_another_writer_is_refused(nats_server: StreamServer) -> None:
    """Whose messages do not say which epoch is the last."""
    stream = new_nats_stream(nats_server, b"1")
    with raises(NatsError):
        NatsSink(nats_server.url, f"{stream}.a").last_committed()


def test_an_emptied_stream_is_written_on(nats_server: StreamServer) -> None:
    """It has forgotten the last epoch."""
    stream = new_nats_stream(nats_server)
    sink = NatsSink(nats_server.url, f"{stream}.a")
    store(sink, 0, records(1))
    on_nats(nats_server, lambda jetstream: jetstream.purge_stream(stream))
    assert sink.last_committed() is None
    store(sink, 1, records(2))
    assert values(nats_server, stream) == [b'{"hour":2}']


@pytest.mark.parametrize(
    "record",
    [
        b"1",
        NatsRecord({1j}),
        NatsRecord(b"1", headers=(("Nats-Msg-Id", "1"),)),
        NatsRecord(b"1", headers=(("town", "Brest\n"),)),
        NatsRecord(b"1", headers=(("a town", "Brest"),)),
        NatsRecord(b"1", headers={"town": "Brest"}),  # type: ignore[arg-type]
        NatsRecord(b"1", headers=(("town", "Brest"), ("town", "Dover"))),
        NatsRecord("\ud800"),
        NatsRecord(b"1", "elsewhere"),
        NatsRecord(b"1", "tides a"),
        NatsRecord(b"1", "$JS.API.STREAM.NAMES"),
        NatsRecord(bytes((1 << 20) - 50)),
    ],
    ids=["bytes", "value", "header", "line", "name", "dict", "twice", "text", "subject", "space", "api", "large"],
)
def test_a_record_that_does_not_fit_is_refused(nats_server: StreamServer, record: Any) -> None:
    """Nothing of its epoch is stored, and no other attempt is made."""
    stream = new_nats_stream(nats_server)
    sink = NatsSink(nats_server.url, f"{stream}.a")
    sink.retry = tw.Retry(attempts=1, on=ConnectionError)
    with raises(NatsError):
        store(sink, 0, [*records(1)[: record != NatsRecord(b"1", "elsewhere")], record])
    assert values(nats_server, stream) == []


def test_records_that_are_no_messages_can_be_letters() -> None:
    """They are found before anything is written."""
    found = NatsSink("sea:4222", "tides.a").refused([NatsRecord(b"1"), b"1", NatsRecord({1j}), NatsRecord([1])])
    assert {place: type(error) for place, error in found.items()} == {1: NatsError, 2: NatsError}


def test_only_the_stream_says_what_it_has_stored(nats_server: StreamServer) -> None:
    """Another program may answer to the subject of a record, and the record would be lost."""
    stream = new_nats_stream(nats_server)
    sink = NatsSink(nats_server.url, f"{stream}.a")

    async def store_beside(jetstream: Any) -> None:
        async def answer(message: Any) -> None:
            await message.respond(b'{"hour":1}')

        await jetstream._nc.subscribe("service", cb=answer)
        await jetstream._nc.flush()
        await asyncio.to_thread(store, sink, 0, [NatsRecord(b"1", "service")])

    with raises(NatsError):
        on_nats(nats_server, store_beside)


def test_a_subject_without_a_stream_is_refused(nats_server: StreamServer) -> None:
    """Before the first epoch."""
    with raises(NatsError):
        NatsSink(nats_server.url, "nowhere.a").last_committed()


@pytest.mark.parametrize("epoch", [-1, True, (0, 1), "noon"], ids=repr)
def test_an_epoch_is_an_integer(epoch: Any) -> None:
    with raises(NatsError):
        NatsSink("sea:4222", "tides.a").commit(epoch, [])


def test_a_server_that_comes_back_has_each_message_once(
    own_nats_server: StreamServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The sink waits for it, and says so."""
    stream = new_nats_stream(own_nats_server)
    sink = NatsSink(own_nats_server.url, f"{stream}.a")
    sink.retry = tw.Retry(within_s=30, first_pause_s=0.02, factor=1, on=ConnectionError)
    store(sink, 0, records(1))
    own_nats_server.stop()

    def start(_: Any) -> bool:
        if own_nats_server.process is not None and own_nats_server.process.poll() is not None:
            own_nats_server.start()
        return True

    caplog.handler.addFilter(start)
    store(sink, 1, records(2))
    caplog.handler.removeFilter(start)
    assert values(own_nats_server, stream) == [b'{"hour":1}', b'{"hour":2}']
    assert f"tries again, after attempt 1: no connection to {own_nats_server.url}" in caplog.text


def test_wrong_credentials_are_refused(nats_server: StreamServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once; the password is in no error and no pickle."""
    stream = new_nats_stream(nats_server)
    sink = NatsSink(nats_server.url, f"{stream}.a", config={"user": "guarded", "password": tw.Secret("TIDES_PASSWORD")})
    monkeypatch.setenv("TIDES_PASSWORD", PASSWORD)
    assert sink.last_committed() is None
    monkeypatch.setenv("TIDES_PASSWORD", "sea-urchin")
    with raises(NatsError) as refused:
        sink.last_committed()
    assert b"sea-" not in cloudpickle.dumps(sink) + str(refused.value).encode() + repr(sink).encode()


@pytest.mark.parametrize(
    "given", [{"subject": "tides.>"}, {"servers": "nats://me:sea-horse@sea"}], ids=["subject", "url"]
)
def test_wrong_arguments_are_refused(given: dict[str, Any]) -> None:
    with raises(GraphError) as refused:
        NatsSink(**{"servers": "sea:4222", "subject": "tides.a", **given})
    assert "sea-horse" not in str(refused.value)


def test_a_server_that_is_away_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """With a log line for each attempt, and an end."""
    sink = NatsSink("nats://127.0.0.1:1", "tides.a")
    sink.retry = tw.Retry(attempts=2, first_pause_s=0.001, on=ConnectionError)
    with raises(NatsError):
        sink.last_committed()
    assert "tries again" in caplog.text
