"""A source of Redis Streams reads each entry once, over crashes, and says clearly what a stream has lost."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import tidewheel as tw
from tests.kit.connectors.stream_fixtures import own_redis_server, redis_client, redis_server
from tests.kit.connectors.stream_servers import PASSWORD, StreamServer, new_name
from tests.kit.kafka.running import run_until
from tests.kit.messages import raises
from tidewheel.connectors.redis import RedisError, RedisRecord, RedisSource, redis_source
from tidewheel.progress import GraphError
from tidewheel.testing import check_source

__all__ = ["own_redis_server", "redis_client", "redis_server"]


@dataclass
class Tide:
    hour: int
    height: float | None
    town: str
    is_high: bool = True


def new_stream(client: Any, *hours: int) -> str:
    """Make a stream with an entry for each hour; the first has the id 0-1."""
    name = new_name()
    client.xgroup_create(name, "any", mkstream=True)
    for number, hour in enumerate(hours, 1):
        client.xadd(name, {"hour": hour}, f"0-{number}")
    return name


def read(source: RedisSource, position: Any = None) -> list[int]:
    """Return the hours of a bounded source's only partition behind a position."""
    (partition,) = source.partitions()
    entries = [one for fetched in fetched_of(source.open(partition, position)) for one in fetched.batch]
    return [int(one.fields[b"hour"]) for one in entries]


def fetched_of(iterator: Any) -> Any:
    return (one for one in iterator if isinstance(one, tw.Fetched))


def run(source: RedisSource) -> None:
    """Run a job that reads a source to its end."""
    flow = tw.Dataflow("tides")
    flow.source("tides", source).capture("tides")
    with tw.run(flow, engine="local") as job:
        job.wait(timeout_s=30)


@pytest.mark.parametrize("bounded", [True, pytest.param(False, marks=pytest.mark.long)], ids=["bounded", "running"])
def test_each_entry_is_read_once(
    redis_server: StreamServer, redis_client: Any, monkeypatch: pytest.MonkeyPatch, bounded: bool
) -> None:
    """Whichever call a crash precedes or follows; each stream is a partition."""
    monkeypatch.setattr(redis_source, "_WAIT_MS", 5)

    def make(_: Path) -> RedisSource:
        redis_client.delete("high", "low")
        for stream, hours in (("high", (4, 16)), ("low", (10,))):
            for number, hour in enumerate(hours, 1):
                redis_client.xadd(stream, {"hour": hour}, f"0-{number}")
        return RedisSource(redis_server.url, ["high", "low"], bounded=bounded)

    def entry(stream: str, number: int, hour: bytes) -> RedisRecord:
        return RedisRecord({b"hour": hour}, f"0-{number}", stream)

    parts: dict[str | int, list[RedisRecord]] = {
        "high": [entry("high", 1, b"4"), entry("high", 2, b"16")],
        "low": [entry("low", 1, b"10")],
    }
    if bounded:
        check_source(make, parts)
    else:
        parts["low"].append(entry("low", 2, b"22"))
        check_source(make, parts, grow=lambda _: redis_client.xadd("low", {"hour": 22}, "0-2"))


def test_fields_have_types(redis_server: StreamServer, redis_client: Any) -> None:
    """Numbers, null and booleans are read from their texts; a record can be pickled."""
    stream = new_stream(redis_client)
    redis_client.xadd(stream, {"hour": "4", "height": "null", "town": "Brest", "is_high": "false"}, "17-2")
    [fetched] = fetched_of(RedisSource(redis_server.url, stream, fields_type=Tide, bounded=True).open(stream, None))
    assert fetched.batch == [RedisRecord(Tide(4, None, "Brest", False), "17-2", stream)]
    assert fetched.batch[0].timestamp_ms == 17
    assert pickle.loads(pickle.dumps(fetched.batch)) == fetched.batch


def test_a_server_that_comes_back_is_read_on(own_redis_server: StreamServer, caplog: pytest.LogCaptureFixture) -> None:
    """No entry is lost or read twice; meanwhile the log says what the job waits for."""
    import redis

    source = RedisSource(own_redis_server.url, "tides")
    source.retry = tw.Retry(within_s=30, first_pause_s=0.05, longest_pause_s=0.05, on=ConnectionError)
    found: list[int] = []
    flow = tw.Dataflow("tides")
    flow.source("tides", source).inspect(lambda record: found.append(int(record.fields[b"hour"])))
    with redis.Redis.from_url(own_redis_server.url, protocol=2) as client:
        client.xadd("tides", {"hour": 1})
        job: Any = tw.run(flow, engine="local")
        with job:
            run_until(job, lambda: found == [1])
            own_redis_server.stop()
            run_until(job, lambda: f"stream 'tides' is not read at {own_redis_server.url}" in caplog.text)
            own_redis_server.start()
            client.xadd("tides", {"hour": 2})
            run_until(job, lambda: found == [1, 2])
            job.stop()


@pytest.mark.parametrize(
    "loss",
    [
        lambda client, stream: client.xtrim(stream, maxlen=1, approximate=False),
        lambda client, stream: client.xtrim(stream, maxlen=0, approximate=False),
        lambda client, stream: client.xdel(stream, "0-1", "0-2"),
    ],
    ids=["trimmed", "emptied", "deleted"],
)
def test_entries_that_are_gone_are_an_error(
    redis_server: StreamServer, redis_client: Any, loss: Callable[[Any, str], Any]
) -> None:
    """Those behind the position; from the beginning, the stream is read from its first entry on."""
    stream = new_stream(redis_client, 1, 2, 3)
    loss(redis_client, stream)
    source = RedisSource(redis_server.url, stream, bounded=True)
    with raises(RedisError):
        read(source, (b"0-1", 1, None))
    assert read(source, (b"0-3", 3, None)) == []
    assert len(read(source)) <= 1


def test_unread_entries_that_are_deleted_with_the_last_one_are_an_error(
    redis_server: StreamServer, redis_client: Any
) -> None:
    """Also if as many were deleted as were read, as earlier ones are still there."""
    stream = new_stream(redis_client, 1, 2, 3, 4, 5)
    redis_client.xdel(stream, "0-2", "0-3")
    with raises(RedisError):
        read(RedisSource(redis_server.url, stream, bounded=True), (b"0-2", 2, None))


def test_entries_that_are_trimmed_while_they_are_read_are_an_error(
    redis_server: StreamServer, redis_client: Any
) -> None:
    stream = new_stream(redis_client, 1)
    reading: Any = fetched_of(RedisSource(redis_server.url, stream).open(stream, None))
    assert len(next(reading).batch) == 1
    for hour in (2, 3, 4):
        redis_client.xadd(stream, {"hour": hour})
    redis_client.xtrim(stream, maxlen=2, approximate=False)
    with raises(RedisError):
        next(reading)


def test_entries_that_were_read_may_be_trimmed(redis_server: StreamServer, redis_client: Any) -> None:
    """All of them, also in an earlier job; the number of all entries shows that no other one is missing."""
    stream = new_stream(redis_client, 1, 2, 3)
    redis_client.xtrim(stream, maxlen=2, approximate=False)
    reading: Any = fetched_of(RedisSource(redis_server.url, stream).open(stream, None))
    position = None
    for hours in ([2, 3], [4], [5]):
        fetched = next(reading)
        position = fetched.position
        assert [int(one.fields[b"hour"]) for one in fetched.batch] == hours
        redis_client.xtrim(stream, maxlen=0, approximate=False)
        redis_client.xadd(stream, {"hour": hours[-1] + 1})
    again = RedisSource(redis_server.url, stream, bounded=True)
    assert read(again, position) == [6]


@pytest.mark.parametrize("anew", [False, True])
def test_a_stream_that_was_deleted_or_made_anew_is_an_error(
    redis_server: StreamServer, redis_client: Any, anew: bool
) -> None:
    stream = new_stream(redis_client, 1, 2)
    redis_client.delete(stream)
    if anew:
        redis_client.xadd(stream, {"hour": 1}, "0-1")
    with raises(RedisError):
        read(RedisSource(redis_server.url, stream, bounded=True), (b"0-2", 2, None))


def test_it_says_how_far_it_is_behind(redis_server: StreamServer, redis_client: Any) -> None:
    """Also when entries were trimmed; of a bounded read it does not know."""
    stream = new_stream(redis_client, 1, 2, 3)
    redis_client.xtrim(stream, maxlen=2, approximate=False)
    source = RedisSource(redis_server.url, stream)
    positions: list[Any] = [None, (b"0-2", 2, None), (b"0-2", 2, b"0-3")]
    assert [source.behind(stream, position) for position in positions] == [{"records": 2}, {"records": 1}, None]


def test_large_entries_are_read(redis_server: StreamServer, redis_client: Any) -> None:
    """After the first of them, a batch is limited by its bytes."""
    stream = new_stream(redis_client)
    for hour in range(130):
        redis_client.xadd(stream, {"hour": hour, "picture": bytes(200_000)})
    source = RedisSource(redis_server.url, stream, bounded=True)
    batches = [fetched.batch for fetched in fetched_of(source.open(stream, None))]
    assert [int(one.fields[b"hour"]) for batch in batches for one in batch] == list(range(130))
    assert len(batches) > 2


def test_a_poisoned_entry_is_a_letter(redis_server: StreamServer, redis_client: Any) -> None:
    """With its bytes and place; the entries around it are read."""
    stream = new_stream(redis_client)
    for number, hour in enumerate((b"1", b"poison", b"\xff", b"4"), 1):
        redis_client.xadd(stream, {"hour": hour}, f"0-{number}")
    source = RedisSource(redis_server.url, stream, fields_type=dict[str, int], bounded=True)
    flow = tw.Dataflow("tides")
    letters = flow.dead_letters()
    flow.source("tides", source, dead_letters=letters).map(lambda record: record.fields["hour"]).capture("hours")
    letters.capture("letters")
    with tw.run(flow, engine="local") as job:
        job.wait(timeout_s=30)
        hours = [hour for captured in job.captured("hours") for hour in captured.batch]
        found = [letter for captured in job.captured("letters") for letter in captured.batch]
    assert hours == [1, 4]
    assert [letter.record.fields for letter in found] == [{b"hour": b"poison"}, {b"hour": b"\xff"}]
    assert [letter.where for letter in found] == [f"tides, partition '{stream}', entry 0-{n}" for n in (2, 3)]
    [fetched] = fetched_of(source.open(stream, None))
    with raises(RedisError):
        raise fetched.refused[0].error
    with pytest.raises(tw.JobError):
        run(source)


@pytest.mark.parametrize("is_text", [False, True], ids=["unknown", "no stream"])
def test_an_unknown_stream_fails_the_job(redis_server: StreamServer, redis_client: Any, is_text: bool) -> None:
    if is_text:
        redis_client.set("text", "1")
    source = RedisSource(redis_server.url, "text" if is_text else "nowhere")
    with raises(RedisError):
        read(source)
    with pytest.raises(tw.JobError) as failed:
        run(source)
    assert isinstance(failed.value.__cause__, RedisError)


@pytest.mark.parametrize("user", ["guarded", "blind"])
def test_wrong_credentials_and_missing_rights_fail_the_job(
    redis_server: StreamServer, redis_client: Any, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    """At once; the password is in no error and no pickle, and the right one is accepted."""
    stream = new_stream(redis_client, 1)
    config = {"username": user, "password": tw.Secret("TIDES_PASSWORD")}
    source = RedisSource(redis_server.url, stream, bounded=True, config=config)
    monkeypatch.setenv("TIDES_PASSWORD", PASSWORD)
    if user == "guarded":
        assert read(source) == [1]
        monkeypatch.setenv("TIDES_PASSWORD", "sea-urchin")
    with raises(RedisError) as refused:
        read(source)
    assert b"sea-" not in cloudpickle.dumps(source) + str(refused.value).encode() + repr(vars(source)).encode()


def test_the_rights_that_the_page_names_are_enough(
    redis_server: StreamServer, redis_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a read that waits for entries, too."""
    monkeypatch.setattr(redis_source, "_WAIT_MS", 5)
    monkeypatch.setenv("TIDES_PASSWORD", PASSWORD)
    stream = new_stream(redis_client, 1)
    config = {"username": "reader", "password": tw.Secret("TIDES_PASSWORD")}
    reading: Any = RedisSource(redis_server.url, stream, config=config).open(stream, None)
    assert [type(next(reading)) for _ in range(2)] == [tw.Fetched, tw.Pause]


def test_a_server_that_is_away_is_an_error_that_may_pass() -> None:
    """So the job waits for it, with log lines that say so; the name of a stream is no reason."""
    with raises(ConnectionError):
        list(RedisSource("redis://127.0.0.1:1", "SSL").open("SSL", None))


def test_a_replica_without_its_primary_is_waited_for(own_redis_server: StreamServer) -> None:
    import redis

    with redis.Redis.from_url(own_redis_server.url, protocol=2) as client:
        client.xadd("tides", {"hour": 1})
        client.config_set("replica-serve-stale-data", "no")
        client.replicaof("127.0.0.1", 1)
    with pytest.raises(ConnectionError, match="Link with MASTER is down"):
        list(RedisSource(own_redis_server.url, "tides").open("tides", None))


@pytest.mark.parametrize(
    "given",
    [
        {"url": "sea:6379"},
        {"url": "redis://:sea-horse@sea"},
        {"url": "redis://sea?password=sea-horse"},
        {"streams": []},
        {"config": {"ssl_password": "sea-horse"}},
        {"config": {"decode_responses": True}},
        {"url": "redis://sea?decode_responses=true"},
        {"url": "redis://sea:port"},
    ],
    ids=["url", "password", "query", "streams", "config", "ours", "ours in the url", "port"],
)
def test_wrong_arguments_are_refused(given: dict[str, Any]) -> None:
    """When the dataflow is described; a password would be pickled, and the error does not have it."""
    with raises(GraphError) as refused:
        RedisSource(**{"url": "redis://sea", "streams": "tides", **given})
    assert "sea-horse" not in str(refused.value)


def test_an_unknown_setting_is_an_error(redis_server: StreamServer) -> None:
    with raises(RedisError):
        read(RedisSource(redis_server.url, "tides", config={"colour": "blue"}))


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it, when the dataflow is described."""
    monkeypatch.setattr("tidewheel.host.extras.find_spec", lambda _: None)
    with raises(RedisError):
        RedisSource("redis://sea", "tides")
