"""A sink of Redis Streams stores each epoch once and whole, and says clearly what it cannot store."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import tidewheel as tw
from tests.kit.connectors.stream_fixtures import own_redis_server, redis_client, redis_server
from tests.kit.connectors.stream_servers import PASSWORD, StreamServer, new_name
from tests.kit.messages import raises
from tidewheel.connectors.redis import RedisError, RedisRecord, RedisSink, RedisSource, redis_sink
from tidewheel.connectors.redis import redis_server as redis_server_module
from tidewheel.progress import GraphError
from tidewheel.testing import check_sink

__all__ = ["own_redis_server", "redis_client", "redis_server"]


def records(*hours: int) -> list[RedisRecord]:
    return [RedisRecord({"hour": hour}) for hour in hours]


def store(sink: tw.Sink, epoch: int, *batches: Any) -> None:
    sink.commit(epoch, [sink.prepare(epoch, batch) for batch in batches])


def ids(client: Any, stream: str) -> list[bytes]:
    return [name for name, _ in client.xrange(stream)]


def test_each_epoch_is_stored_once(redis_server: StreamServer, redis_client: Any) -> None:
    """Whichever call a crash precedes or follows."""
    streams: dict[Path, str] = {}

    def make(folder: Path) -> tw.Sink:
        streams[folder] = new_name()
        return RedisSink(redis_server.url, streams[folder])

    def read(folder: Path) -> dict[int, list[RedisRecord]]:
        found: dict[int, list[RedisRecord]] = defaultdict(list)
        for name, fields in redis_client.xrange(streams[folder]):
            found[int(name.partition(b"-")[0])].append(RedisRecord(fields))
        return found

    check_sink(
        make, read, [[RedisRecord({b"hour": b"1"}), RedisRecord({b"hour": b"2"})], [], [RedisRecord({b"a": b"3"})]]
    )


def test_an_epoch_that_is_stored_changes_nothing(redis_server: StreamServer, redis_client: Any) -> None:
    """Nor does an earlier one, also after all entries were trimmed."""
    stream = new_name()
    sink = RedisSink(redis_server.url, stream)
    assert sink.last_committed() is None
    for epoch in (0, 3, 0, 3):
        store(sink, epoch, records(1, 2), records(3))
    assert ids(redis_client, stream) == [b"0-1", b"0-2", b"0-3", b"3-1", b"3-2", b"3-3"]
    redis_client.xtrim(stream, maxlen=0, approximate=False)
    store(sink, 3, records(1))
    assert ids(redis_client, stream) == []
    assert sink.last_committed() == 3


def test_a_stale_worker_does_not_store_an_epoch_again(
    redis_server: StreamServer, redis_client: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that seemed dead has looked, the new one stores the epoch, and the first one goes on to write."""
    stream = new_name()
    seemed_dead, alive = (RedisSink(redis_server.url, stream) for _ in range(2))
    raced = iter([True])

    def stream_info(client: Any, name: str) -> Any:
        found = redis_server_module.stream_info(client, name)
        if next(raced, False):
            store(alive, 0, records(1, 2))
        return found

    monkeypatch.setattr(redis_sink, "stream_info", stream_info)
    store(seemed_dead, 0, records(1, 2, 3))
    assert ids(redis_client, stream) == [b"0-1", b"0-2"]
    assert "tries again" in caplog.text


@dataclass
class Tide:
    hour: int
    height: float | None
    town: str
    is_high: bool


def test_what_a_sink_writes_a_source_reads(redis_server: StreamServer, redis_client: Any) -> None:
    """Dataclasses, dicts and bytes."""
    stream = new_name()
    tides = [Tide(4, 6.25, "Île", True), Tide(5, None, "", False), Tide(2**70, float("-inf"), "Brest", True)]
    store(
        RedisSink(redis_server.url, stream), 0, [RedisRecord(tides[0]), *(RedisRecord(vars(one)) for one in tides[1:])]
    )
    source = RedisSource(redis_server.url, stream, fields_type=Tide, bounded=True)
    [fetched] = (one for one in source.open(stream, None) if isinstance(one, tw.Fetched))
    assert [one.fields for one in fetched.batch] == tides
    store(RedisSink(redis_server.url, stream), 1, [RedisRecord({b"\xff": b"\x00"})])
    assert redis_client.xrevrange(stream, count=1) == [(b"1-1", {b"\xff": b"\x00"})]


@pytest.mark.parametrize("ending", [b"7-0", b"7-1"], ids=["first", "second"])
def test_a_stream_of_another_writer_is_refused(redis_server: StreamServer, redis_client: Any, ending: bytes) -> None:
    """Its ids are times, which no epoch reaches."""
    stream = new_name()
    for name in (b"7-0", b"7-1"):
        if name <= ending:
            redis_client.xadd(stream, {"hour": 1}, name)
    with raises(RedisError):
        RedisSink(redis_server.url, stream).last_committed()


@pytest.mark.parametrize(
    "record",
    [{"hour": 1}, RedisRecord({}), RedisRecord({"hour": [1]}), RedisRecord(7), RedisRecord({"town": "\ud800"})],
    ids=["dict", "empty", "list", "number", "text"],
)
def test_a_record_that_does_not_fit_is_refused(redis_server: StreamServer, redis_client: Any, record: Any) -> None:
    stream = new_name()
    with raises(RedisError):
        store(RedisSink(redis_server.url, stream), 0, [record])
    assert ids(redis_client, stream) == []


def test_records_that_are_no_entries_can_be_letters() -> None:
    """They are found before anything is written."""
    found = RedisSink("redis://sea", "tides").refused([*records(1), {"hour": 1}, RedisRecord({}), *records(2)])
    assert {place: type(error) for place, error in found.items()} == {1: RedisError, 2: RedisError}


@pytest.mark.parametrize("epoch", [-1, True, (0, 1), "noon"], ids=repr)
def test_an_epoch_is_an_integer(epoch: Any) -> None:
    with raises(RedisError):
        RedisSink("redis://sea", "tides").commit(epoch, [])


def test_a_server_that_comes_back_has_each_entry_once(
    own_redis_server: StreamServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The sink waits for it, and says so."""
    import redis

    sink = RedisSink(own_redis_server.url, "tides")
    sink.retry = tw.Retry(within_s=30, first_pause_s=0.02, factor=1, on=ConnectionError)
    store(sink, 0, records(1))
    own_redis_server.stop()

    def start(_: Any) -> bool:
        if own_redis_server.process is not None and own_redis_server.process.poll() is not None:
            own_redis_server.start()
        return True

    caplog.handler.addFilter(start)
    store(sink, 1, records(2))
    caplog.handler.removeFilter(start)
    with redis.Redis.from_url(own_redis_server.url, protocol=2) as client:
        assert ids(client, "tides") == [b"0-1", b"1-1"]
    assert "tries again, after attempt 1: epoch 1 is not written to stream 'tides'" in caplog.text


def test_wrong_credentials_are_refused(redis_server: StreamServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once; the password is in no error and no pickle."""
    config = {"username": "guarded", "password": tw.Secret("TIDES_PASSWORD")}
    sink = RedisSink(redis_server.url, new_name(), config=config)
    monkeypatch.setenv("TIDES_PASSWORD", PASSWORD)
    assert sink.last_committed() is None
    monkeypatch.setenv("TIDES_PASSWORD", "sea-urchin")
    with raises(RedisError) as refused:
        sink.last_committed()
    assert b"sea-" not in cloudpickle.dumps(sink) + str(refused.value).encode() + repr(sink).encode()


def test_the_rights_that_the_page_names_are_enough(redis_server: StreamServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """For an epoch that the stream has, too."""
    monkeypatch.setenv("TIDES_PASSWORD", PASSWORD)
    config = {"username": "writer", "password": tw.Secret("TIDES_PASSWORD")}
    sink = RedisSink(redis_server.url, new_name(), config=config)
    for _ in range(2):
        store(sink, 0, records(1))
        assert sink.last_committed() == 0


def test_missing_replicas_are_waited_for(
    redis_server: StreamServer, redis_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A server may refuse to write for a while."""
    sink = RedisSink(redis_server.url, new_name())
    sink.retry = tw.Retry(attempts=2, first_pause_s=0.001, on=ConnectionError)
    redis_client.config_set("min-replicas-to-write", 1)
    try:
        with pytest.raises(RedisError, match="NOREPLICAS"):
            store(sink, 0, records(1))
    finally:
        redis_client.config_set("min-replicas-to-write", 0)
    assert "tries again" in caplog.text


@pytest.mark.parametrize("given", [{"stream": ""}, {"url": "redis://me:sea-horse@sea"}], ids=["stream", "url"])
def test_wrong_arguments_are_refused(given: dict[str, Any]) -> None:
    with raises(GraphError) as refused:
        RedisSink(**{"url": "redis://sea", "stream": "tides", **given})
    assert "sea-horse" not in str(refused.value)


def test_a_server_that_is_away_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """With a log line for each attempt, and an end."""
    sink = RedisSink("redis://127.0.0.1:1", "tides")
    sink.retry = tw.Retry(attempts=2, first_pause_s=0.001, on=ConnectionError)
    with raises(RedisError):
        sink.last_committed()
    assert "tries again" in caplog.text
