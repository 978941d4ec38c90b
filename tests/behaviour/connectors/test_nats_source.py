"""A source of NATS JetStream reads each message once, over crashes, and says clearly what a stream has lost."""

import pickle
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from nats.js.errors import NotFoundError

import tidewheel as tw
from tests.kit.connectors.stream_fixtures import nats_server, own_nats_server
from tests.kit.connectors.stream_servers import PASSWORD, StreamServer, new_nats_stream, on_nats, send_nats
from tests.kit.kafka.running import run_until
from tests.kit.messages import raises
from tidewheel.connectors.nats import NatsError, NatsRecord, NatsSource, nats_source
from tidewheel.connectors.nats.nats_consumer import NatsConsumer
from tidewheel.progress import GraphError
from tidewheel.testing import check_source

__all__ = ["nats_server", "own_nats_server"]


class Brief(NatsSource):
    """A source whose records have no time, which differs from run to run."""

    def open(self, partition: Any, position: Any) -> Any:
        for yielded in super().open(partition, position):
            if isinstance(yielded, tw.Fetched):
                yield tw.Fetched([(one.sequence, one.value) for one in yielded.batch], yielded.position)
            else:
                yield yielded


def read(source: NatsSource, position: Any = None) -> list[Any]:
    """Return the values of a bounded source's only partition behind a position."""
    (partition,) = source.partitions()
    return [one.value for fetched in fetched_of(source.open(partition, position)) for one in fetched.batch]


def fetched_of(iterator: Any) -> Any:
    return (one for one in iterator if isinstance(one, tw.Fetched))


def position_at(server: StreamServer, stream: str, sequence: int) -> tuple[int, None, str]:
    """Return the position behind a message."""
    source = NatsSource(server.url, stream, bounded=True)
    *_, last = fetched_of(source.open(stream, None))
    return sequence, None, last.position[2]


@pytest.mark.parametrize("bounded", [True, pytest.param(False, marks=pytest.mark.long)], ids=["bounded", "running"])
def test_each_message_is_read_once(nats_server: StreamServer, monkeypatch: pytest.MonkeyPatch, bounded: bool) -> None:
    """Whichever call a crash precedes or follows. The stream is a partition, or each of its subjects is."""
    monkeypatch.setattr(nats_source, "_WAIT_S", 0.005)

    def make(_: Path) -> NatsSource:
        async def fill(jetstream: Any) -> None:
            with suppress(NotFoundError):
                await jetstream.delete_stream("check")
            await jetstream.add_stream(name="check", subjects=["check.*"])
            for value, subject in ((b"1", "a"), (b"2", "b"), (b"3", "a")):
                await jetstream.publish(f"check.{subject}", value)

        on_nats(nats_server, fill)
        return Brief(nats_server.url, "check", subjects=["check.a", "check.b"] if bounded else None, bounded=bounded)

    if bounded:
        check_source(make, {"check.a": [(1, b"1"), (3, b"3")], "check.b": [(2, b"2")]})
    else:
        messages = [(1, b"1"), (2, b"2"), (3, b"3"), (4, b"4")]
        check_source(make, {"check": messages}, grow=lambda _: send_nats(nats_server, "check.a", b"4"))


def test_a_record_has_all_of_its_message(nats_server: StreamServer) -> None:
    """It can be pickled."""
    stream = new_nats_stream(nats_server)
    on_nats(nats_server, lambda jetstream: jetstream.publish(f"{stream}.a", b'{"hour":4}', headers={"town": "Brest"}))
    source = NatsSource(nats_server.url, stream, value_type=dict[str, int], bounded=True)
    [fetched] = fetched_of(source.open(stream, None))
    [record] = fetched.batch
    assert record == NatsRecord({"hour": 4}, f"{stream}.a", (("town", "Brest"),), record.timestamp_ms, 1)
    assert record.timestamp_ms > 1_700_000_000_000
    assert pickle.loads(pickle.dumps(record)) == record


def test_a_server_that_comes_back_is_read_on(own_nats_server: StreamServer, caplog: pytest.LogCaptureFixture) -> None:
    """No message is lost or read twice; meanwhile the log says what the job waits for."""
    stream = new_nats_stream(own_nats_server, b"1")
    source = NatsSource(own_nats_server.url, stream)
    source.retry = tw.Retry(within_s=30, first_pause_s=0.05, longest_pause_s=0.05, on=ConnectionError)
    found: list[Any] = []
    flow = tw.Dataflow("tides")
    flow.source("tides", source).inspect(lambda record: found.append(record.value))
    job: Any = tw.run(flow, engine="local")
    with job:
        run_until(job, lambda: found == [b"1"])
        own_nats_server.stop()
        run_until(job, lambda: f"no connection to {own_nats_server.url}" in caplog.text)
        own_nats_server.start()
        send_nats(own_nats_server, f"{stream}.a", b"2")
        run_until(job, lambda: found == [b"1", b"2"])
        job.stop()


@pytest.mark.parametrize(
    "loss",
    [
        lambda jetstream, stream: jetstream.purge_stream(stream),
        lambda jetstream, stream: jetstream.purge_stream(stream, keep=1),
        lambda jetstream, stream: jetstream.update_stream(name=stream, subjects=[f"{stream}.>"], max_msgs=1),
    ],
    ids=["purged", "purged in part", "limit"],
)
def test_messages_that_are_gone_are_an_error(nats_server: StreamServer, loss: Callable[[Any, str], Any]) -> None:
    """Those behind the position; from the beginning, the stream is read from its first message on."""
    stream = new_nats_stream(nats_server, b"1", b"2", b"3")
    position = position_at(nats_server, stream, 1)
    on_nats(nats_server, lambda jetstream: loss(jetstream, stream))
    source = NatsSource(nats_server.url, stream, bounded=True)
    with raises(NatsError):
        read(source, position)
    assert read(source, (3, *position[1:])) == []
    assert len(read(source)) <= 1


def test_messages_that_a_limit_deletes_while_they_are_read_are_an_error(nats_server: StreamServer) -> None:
    """The reader is behind by one batch when the stream loses its beginning."""
    stream = new_nats_stream(nats_server, b"1")
    reading: Any = fetched_of(NatsSource(nats_server.url, stream).open(stream, None))
    assert [one.value for one in next(reading).batch] == [b"1"]
    send_nats(nats_server, f"{stream}.a", b"2", b"3", b"4")
    on_nats(nats_server, lambda jetstream: jetstream.purge_stream(stream, keep=1))
    with raises(NatsError):
        next(reading)


def test_a_stream_that_is_emptied_while_it_is_read_is_an_error(
    nats_server: StreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server then says that there are no more messages; some versions say nothing for ten seconds."""
    stream = new_nats_stream(nats_server, *(b"%d" % number for number in range(1001)))
    reading: Any = fetched_of(NatsSource(nats_server.url, stream).open(stream, None))
    assert len(next(reading).batch) == 1000
    on_nats(nats_server, lambda jetstream: jetstream.purge_stream(stream))
    monkeypatch.setattr(NatsConsumer, "take", lambda *_: ([], True))
    with raises(NatsError):
        next(reading)


def test_single_messages_that_are_deleted_are_left_out(nats_server: StreamServer) -> None:
    """Also the last one, at which a bounded read would end."""
    stream = new_nats_stream(nats_server, b"1", b"2", b"3", b"4")

    async def delete(jetstream: Any) -> None:
        for sequence in (2, 4):
            await jetstream.delete_msg(stream, sequence)

    on_nats(nats_server, delete)
    assert read(NatsSource(nats_server.url, stream, bounded=True)) == [b"1", b"3"]


def test_a_stream_that_was_made_anew_is_an_error(nats_server: StreamServer) -> None:
    """Its sequences say nothing about the job's position."""
    stream = new_nats_stream(nats_server, b"1", b"2")
    position = position_at(nats_server, stream, 1)

    async def make(jetstream: Any) -> None:
        await jetstream.delete_stream(stream)
        await jetstream.add_stream(name=stream, subjects=[f"{stream}.>"])

    on_nats(nats_server, make)
    send_nats(nats_server, f"{stream}.a", b"3", b"4")
    with raises(NatsError):
        read(NatsSource(nats_server.url, stream, bounded=True), position)


def test_messages_of_other_subjects_move_the_position(nats_server: StreamServer) -> None:
    """So a limit may delete them while the subject is idle."""
    stream = new_nats_stream(nats_server, b"1", b"2", b"3")
    source = NatsSource(nats_server.url, stream, subjects=f"{stream}.rare", bounded=True)
    [fetched] = fetched_of(source.open(f"{stream}.rare", None))
    assert (fetched.batch, fetched.position[:2]) == ([], (3, 3))


def test_it_says_how_far_it_is_behind(nats_server: StreamServer) -> None:
    stream = new_nats_stream(nats_server, b"1", b"2", b"3")
    source = NatsSource(nats_server.url, stream)
    positions: list[Any] = [None, position_at(nats_server, stream, 1), (1, 2, ""), (3, None, "")]
    assert [source.behind(stream, position) for position in positions] == [{"records": n} for n in (3, 2, 1, 0)]


def test_large_messages_are_read(nats_server: StreamServer) -> None:
    """A batch of them is limited by its bytes."""
    values = [bytes([number]) * 900_000 for number in range(12)]
    stream = new_nats_stream(nats_server, *values)
    source = NatsSource(nats_server.url, stream, bounded=True)
    batches = [fetched.batch for fetched in fetched_of(source.open(stream, None))]
    assert [one.value for batch in batches for one in batch] == values
    assert len(batches) > 1


def test_a_poisoned_message_is_a_letter(nats_server: StreamServer) -> None:
    """With its bytes and place; the messages around it are read."""
    stream = new_nats_stream(nats_server, b"1", b"poison", b"\xff", b"4")
    source = NatsSource(nats_server.url, stream, value_type=int, bounded=True)
    flow = tw.Dataflow("tides")
    letters = flow.dead_letters()
    flow.source("tides", source, dead_letters=letters).map(lambda record: record.value).capture("values")
    letters.capture("letters")
    with tw.run(flow, engine="local") as job:
        job.wait(timeout_s=30)
        values = [value for captured in job.captured("values") for value in captured.batch]
        found = [letter for captured in job.captured("letters") for letter in captured.batch]
    assert values == [1, 4]
    assert [letter.record.value for letter in found] == [b"poison", b"\xff"]
    assert [letter.where for letter in found] == [f"tides, partition '{stream}', message {n}" for n in (2, 3)]
    [fetched] = fetched_of(source.open(stream, None))
    with raises(NatsError):
        raise fetched.refused[0].error
    with pytest.raises(tw.JobError):
        run(source)


def run(source: NatsSource) -> None:
    """Run a job that reads a source to its end."""
    flow = tw.Dataflow("tides")
    flow.source("tides", source).capture("tides")
    with tw.run(flow, engine="local") as job:
        job.wait(timeout_s=30)


@pytest.mark.parametrize("headers", [b"NATS/1.0", b"NATS/1.0 \xff\xfe\r\n\r\n"], ids=["short", "bytes"])
def test_a_message_with_headers_that_are_none_is_read(nats_server: StreamServer, headers: bytes) -> None:
    """Any publisher may send it, and the server stores it; the messages around it are read."""
    stream = new_nats_stream(nats_server, b"1")
    assert isinstance(nats_server.listens, tuple)
    with socket.create_connection(nats_server.listens) as publisher, publisher.makefile("rb") as answers:
        head = b"HPUB %s.a %d %d\r\n" % (stream.encode(), len(headers), len(headers) + 1)
        publisher.sendall(b'CONNECT {"headers":true,"verbose":false}\r\n' + head + headers + b"2\r\nPING\r\n")
        assert any(line == b"PONG\r\n" for line in answers)
    send_nats(nats_server, f"{stream}.a", b"3")
    assert read(NatsSource(nats_server.url, stream, bounded=True)) == [b"1", b"2", b"3"]


def test_an_unknown_stream_fails_the_job(nats_server: StreamServer) -> None:
    source = NatsSource(nats_server.url, "nowhere")
    with raises(NatsError):
        read(source)
    with pytest.raises(tw.JobError) as failed:
        run(source)
    assert isinstance(failed.value.__cause__, NatsError)


def test_a_stream_that_is_a_queue_is_refused(nats_server: StreamServer) -> None:
    """It deletes what is acknowledged, and the source acknowledges nothing."""
    stream = new_nats_stream(nats_server, b"1", retention="workqueue")
    with pytest.raises(NatsError, match="retention by limits"):
        read(NatsSource(nats_server.url, stream))


@pytest.mark.parametrize("user", ["guarded", "blind"])
def test_wrong_credentials_and_missing_rights_fail_the_job(
    nats_server: StreamServer, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    """At once; the password is in no error and no pickle, and the right one is accepted."""
    stream = new_nats_stream(nats_server, b"1")
    config = {"user": user, "password": tw.Secret("TIDES_PASSWORD")}
    source = NatsSource(nats_server.url, stream, bounded=True, config=config)
    monkeypatch.setenv("TIDES_PASSWORD", PASSWORD)
    if user == "guarded":
        assert read(source) == [b"1"]
        monkeypatch.setenv("TIDES_PASSWORD", "sea-urchin")
    with raises(NatsError) as refused:
        read(source)
    assert b"sea-" not in cloudpickle.dumps(source) + str(refused.value).encode() + repr(vars(source)).encode()


def test_a_server_that_is_away_is_an_error_that_may_pass() -> None:
    """So the job waits for it, with log lines that say so."""
    with raises(ConnectionError):
        list(NatsSource("nats://127.0.0.1:1", "tides").open("tides", None))


def test_a_name_with_the_words_of_a_refusal_is_no_refusal() -> None:
    with raises(ConnectionError):
        list(NatsSource("nats://127.0.0.1:1/authentication", "tides").open("tides", None))


def test_no_password_goes_to_a_server_without_tls(nats_server: StreamServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the address or a setting asks for TLS: somebody between may have taken it out."""
    stream = new_nats_stream(nats_server, b"1")
    monkeypatch.setenv("TIDES_PASSWORD", PASSWORD)
    config = {"user": "guarded", "password": tw.Secret("TIDES_PASSWORD")}
    secure = nats_server.url.replace("nats:", "tls:")
    for url, more in ((secure, {}), (nats_server.url, {"tls": ssl.create_default_context})):
        with raises(NatsError):
            read(NatsSource(url, stream, bounded=True, config={**config, **more}))


@pytest.mark.parametrize(
    "given",
    [
        {"servers": ""},
        {"servers": "nats://me:sea-horse@sea"},
        {"servers": "first:4222,me:sea-horse@sea:4222"},
        {"stream": "tides.a"},
        {"subjects": []},
        {"config": {"password": "sea-horse"}},
        {"config": {"nkeys_seed_str": "sea-horse"}},
        {"config": {"allow_reconnect": True}},
    ],
    ids=["servers", "url", "no scheme", "stream", "subjects", "password", "seed", "ours"],
)
def test_wrong_arguments_are_refused(given: dict[str, Any]) -> None:
    """When the dataflow is described; a password would be pickled, and the error does not have it."""
    with raises(GraphError) as refused:
        NatsSource(**{"servers": "sea:4222", "stream": "tides", **given})
    assert "sea-horse" not in str(refused.value)


def test_an_unknown_setting_is_an_error(nats_server: StreamServer) -> None:
    with raises(NatsError):
        read(NatsSource(nats_server.url, "tides", config={"colour": "blue"}))


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it, when the dataflow is described."""
    monkeypatch.setattr("tidewheel.host.extras.find_spec", lambda _: None)
    with raises(NatsError):
        NatsSource("sea:4222", "tides")
