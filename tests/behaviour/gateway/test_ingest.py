"""Records over HTTP and WebSocket into the inbox of a local job, on real sockets."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.gateway.served import Answer, socket_to
from tests.waiting import WITHIN_S, eventually
from tidewheel.gateway import Gateway, GatewayConfig, Ingest
from tidewheel.gateway.posting_request import ARROW, MAX_BODY_BYTES

TOKEN = "correct-horse-battery-staple"
PATH = "/jobs/fraud/inputs/payments"
PAGE = "http://localhost:3000"


class Fed:
    """A job that a thread runs, and a gateway before it."""

    def __init__(self, job: tw.types.Job, gateway: Gateway) -> None:
        self.job = job
        self.gateway = gateway

    def post(self, body: bytes | str, path: str = PATH, **headers: str) -> Answer:
        """Make a POST with the token, unless a header says otherwise; underscores are hyphens."""
        given = {"Authorization": f"Bearer {TOKEN}"} | {
            name.replace("_", "-").title(): value for name, value in headers.items()
        }
        connection = http.client.HTTPConnection(urlsplit(self.gateway.url).netloc, timeout=WITHIN_S)
        try:
            connection.request("POST", path, body.encode() if isinstance(body, str) else body, given)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def received(self) -> list[Any]:
        """Return the records so far."""
        self.job.probe("done").has_completed(0)
        return sorted(record for captured in self.job.captured("payments") for record in captured.batch)


@contextmanager
def running(folder: Path | None = None, *, paused: bool = False, **settings: Any) -> Iterator[tw.types.Job]:
    """Run the job on a thread."""
    flow = tw.Dataflow("fraud")
    flow.inbox("payments", int, **settings).probe("done").capture("payments")
    snapshots = None if folder is None else tw.Snapshots(folder, every_s=0.2)
    with tw.run(flow, workers=2, engine="local", snapshots=snapshots, paused=paused) as job:
        is_over = threading.Event()

        def run() -> None:
            while not is_over.is_set():
                with suppress(TimeoutError, tw.JobError):
                    job.wait(timeout_s=0.1)

        thread = threading.Thread(target=run)
        if not paused:
            thread.start()
        try:
            yield job
        finally:
            is_over.set()
            job.stop()
            if not paused:
                thread.join(WITHIN_S)


@contextmanager
def served() -> Iterator[Gateway]:
    config = GatewayConfig(port=0, flight_port=None, token=TOKEN, origins=frozenset({PAGE}))
    with Gateway(config, [Ingest(["fraud"])]) as gateway:
        yield gateway


@contextmanager
def fed(folder: Path | None = None, **settings: Any) -> Iterator[Fed]:
    """Run both."""
    with running(folder, **settings) as job, served() as gateway:
        yield Fed(job, gateway)


def arrow_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_lines_of_json_come_once_for_a_key() -> None:
    """202 says that they were sent, each time; they count once."""
    with fed() as one:
        for _ in range(3):
            answer = one.post("1\n2\n", idempotency_key="order 17")
            assert (answer.status, answer.content) == (202, {"state": "sent"})
        assert one.post("3").status == 202
        assert one.post("").status == 202
        assert eventually(lambda: one.received() == [1, 2, 3])


def test_a_wrong_line_is_told_and_nothing_of_its_request_is_sent() -> None:
    """With its number; the others of the connection are not hindered."""
    with fed() as one:
        answer = one.post('1\n2\n"x"\n4')
        assert answer.status == 400
        assert "line 3" in answer.message
        assert one.post(b"\xff\xfe").status == 400
        assert one.post(b"nothing", content_type=ARROW).status == 400
        assert one.post("5").status == 202
        assert eventually(lambda: one.received() == [5])


def test_streams_of_arrow_come_as_tables() -> None:
    """Of one column here; the inbox looks at their type."""
    flow = tw.Dataflow("fraud")
    schema = pa.schema({"n": pa.int64()})
    flow.inbox("payments", schema).probe("done").capture("payments")
    with tw.run(flow, engine="local") as job, served() as gateway:
        one = Fed(job, gateway)
        assert one.post(arrow_of(pa.table({"n": [1, 2]})), content_type=ARROW).status == 202
        assert one.post('{"n": 3}').status == 202
        assert one.post(arrow_of(pa.table({"m": [1]})), content_type=ARROW).status == 400

        def rows() -> list[int]:
            with suppress(TimeoutError):
                job.wait(timeout_s=0.05)
            return sorted(row["n"] for captured in job.captured("payments") for row in captured.batch.to_pylist())

        assert eventually(lambda: rows() == [1, 2, 3])
        job.stop()


def test_200_says_that_a_snapshot_has_the_records(tmp_path: Path) -> None:
    """Who asks for it waits; a job that is started again has them, and their key."""
    with fed(tmp_path) as one:
        assert one.post("1\n2", idempotency_key="order 17", prefer="wait=20").status == 200
    with fed(tmp_path) as one:
        answer = one.post("1\n2", idempotency_key="order 17", prefer="wait=20")
        assert (answer.status, answer.content) == (200, {"state": "saved"})
        assert one.post("3", prefer="wait=20").status == 200
        assert one.received() == [1, 2, 3]


def test_the_gateway_finds_a_job_that_is_started_again(tmp_path: Path) -> None:
    """By the name of the dataflow; meanwhile it answers 503 and says when to try again."""
    with served() as gateway:
        with running(tmp_path) as job:
            assert Fed(job, gateway).post("1", idempotency_key="a", prefer="wait=20").status == 200
        answer = Fed(job, gateway).post("2")
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        with running(tmp_path) as job:
            assert Fed(job, gateway).post("1", idempotency_key="a").status == 202
            assert Fed(job, gateway).post("2", prefer="wait=20").status == 200
            assert Fed(job, gateway).received() == [1, 2]


def test_who_waits_for_a_snapshot_learns_that_the_job_has_ended(tmp_path: Path) -> None:
    """A request without a key is answered 503, as nobody can know whether its records count."""
    with served() as gateway:
        answers: list[Answer] = []
        with running(tmp_path, paused=True) as job:
            one = Fed(job, gateway)
            assert one.post("1").status == 202
            waiting = threading.Thread(target=lambda: answers.append(one.post("2", prefer="wait=20")))
            waiting.start()
            door = vars(job)["_cores"][1].doors["payments"]
            assert eventually(lambda: vars(door)["_accepted"] == 1)
        waiting.join(WITHIN_S)
        assert [answer.status for answer in answers] == [503]


def test_202_is_the_answer_after_the_wait_for_a_snapshot(tmp_path: Path) -> None:
    """The records are sent, and may still be saved."""
    with fed(tmp_path, paused=True) as one:
        assert one.post("1", prefer="wait=1").status == 202


def test_a_full_inbox_answers_429_until_it_was_read() -> None:
    """With the time after which to try again; what was refused was not sent."""
    body = "\n".join(map(str, range(1000)))
    with fed(capacity_bytes=10_000, paused=True) as one:
        answers = [one.post(body, idempotency_key="a") for _ in range(3000 // 100)]
        refused = [answer for answer in answers if answer.status == 429]
        assert refused
        assert {answer.headers["retry-after"] for answer in refused} == {"1"}
        assert {answer.status for answer in answers} == {202, 429}
        one.job.start()
        with suppress(TimeoutError):
            one.job.wait(timeout_s=0.5)
        assert one.post(body, idempotency_key="a").status == 202
        with suppress(TimeoutError):
            one.job.wait(timeout_s=0.5)
        assert one.received() == list(range(1000))


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (PATH, {"authorization": "Bearer wrong"}, 401),
        (PATH, {"authorization": ""}, 401),
        (PATH + "?token=" + TOKEN, {"authorization": ""}, 401),
        (PATH, {"origin": "http://evil.example"}, 403),
        (PATH, {"host": "evil.example"}, 403),
        (PATH, {"sec_fetch_site": "cross-site"}, 403),
        ("/jobs/other/inputs/payments", {}, 404),
        ("/jobs/fraud/inputs/payment", {}, 404),
        (PATH, {"idempotency_key": "x" * 201}, 400),
        (PATH, {"content_encoding": "gzip"}, 400),
    ],
)
def test_requests_that_are_refused_send_nothing(path: str, headers: dict[str, str], status: int) -> None:
    """The token, the page and the host are checked as for topics, before the names."""
    with fed() as one:
        answer = one.post("1", path, **headers)
        assert answer.status == status
        assert TOKEN not in answer.message
        assert one.post("2").status == 202
        assert eventually(lambda: one.received() == [2])


def test_large_bodies_are_refused() -> None:
    """Whether or not they say how large they are."""
    with fed() as one:
        assert one.post(b"1\n" * (MAX_BODY_BYTES // 2) + b"1").status == 413

        def parts() -> Iterator[bytes]:
            with suppress(OSError):
                for _ in range(9):
                    yield b"1\n" * (1 << 19)

        connection = http.client.HTTPConnection(urlsplit(one.gateway.url).netloc, timeout=WITHIN_S)
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request("POST", PATH, parts(), {"Authorization": f"Bearer {TOKEN}"}, encode_chunked=True)
            assert connection.getresponse().status == 413
        connection.close()


def test_clients_that_break_off_send_nothing_and_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """What a client does is no error of the gateway."""
    with fed() as one:
        address = urlsplit(one.gateway.url)
        head = f"POST {PATH} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {TOKEN}\r\n"
        for _ in range(3):
            with socket.create_connection((address.hostname, address.port), WITHIN_S) as connection:
                connection.sendall(f"{head}Content-Length: 2\r\nExpect: 100-continue\r\n\r\n".encode())
                assert connection.recv(100).startswith(b"HTTP/1.1 100")  # the gateway waits for the body
                connection.sendall(b"1")
        assert one.post("2").status == 202
        assert eventually(lambda: one.received() == [2])
    assert [record.getMessage() for record in caplog.records] == []


def test_pages_of_allowed_origins_may_send() -> None:
    """The browser asks before, and is told which headers it may send."""
    with fed() as one:
        connection = http.client.HTTPConnection(urlsplit(one.gateway.url).netloc, timeout=WITHIN_S)
        asks = "authorization,content-type,idempotency-key,prefer"
        connection.request(
            "OPTIONS",
            PATH,
            headers={
                "Origin": PAGE,
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": asks,
            },
        )
        response = connection.getresponse()
        assert (response.status, response.getheader("Access-Control-Allow-Origin")) == (200, PAGE)
        connection.close()
        answer = one.post("1", origin=PAGE)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (202, PAGE)


def test_messages_of_a_socket_are_records() -> None:
    """Each is answered in order; a wrong one is told, and the next ones count."""
    with fed() as one, socket_to(one.gateway, PATH) as client:
        told = []
        for message in ("1\n2", '"x"', "3"):
            client.send(message)
            told.append(json.loads(client.recv(timeout=WITHIN_S)))
        assert [one["type"] for one in told] == ["sent", "error", "sent"]
        assert "line 1" in told[1]["message"]
        assert eventually(lambda: one.received() == [1, 2, 3])
    with fed() as one, socket_to(one.gateway, "/jobs/fraud/inputs/nowhere") as client:
        client.send("1")
        assert json.loads(client.recv(timeout=WITHIN_S))["type"] == "error"
        with pytest.raises(Exception, match="4404"):
            client.recv(timeout=WITHIN_S)
