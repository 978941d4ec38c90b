"""Secrets are in no text that tidewheel makes: a `Secret`, a password in a field of an operator, and one in a URL."""

import base64
import io
import json
import logging
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.gateway.served import ask, read_event, requested
from tests.waiting import eventually
from tidewheel.__main__ import main
from tidewheel.console import LivePage
from tidewheel.console.terminal.command import job_lines
from tidewheel.gateway import Gateway, GatewayConfig
from tidewheel.gateway.errors import GatewayError
from tidewheel.host.log_lines import JsonLines
from tidewheel.pubsub.subscribers.telemetry_reader import TelemetryReader

VALUE = "o'rly=7/zx\\9"
"""The value of the secret, which escapes change."""

FIELD = "hunter2-of-a-field"
IN_URL = "hunter3-of-a-url"
DATABASE = f"postgres://me:{IN_URL}@db.example:5432/shop"
NAME = "SHOP_PASSWORD"
SECRET = tw.Secret(NAME)


def leaks(text: str | bytes) -> list[str]:
    """Return the secrets that a text has, as they are or in a form that is easy to read back."""
    found = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    return [
        secret
        for secret in (VALUE, FIELD, IN_URL)
        for plain in (secret.encode(), repr(secret)[1:-1].encode(), json.dumps(secret)[1:-1].encode())
        if plain in found or plain.hex().encode() in found or base64.b64encode(plain).rstrip(b"=")[:-2] in found
    ]


class Numbers(tw.Source[int]):
    """Has a password in each way that a field can have one."""

    def __init__(self) -> None:
        self.password, self.secret, self.url = FIELD, SECRET, DATABASE

    def partitions(self) -> list[int]:
        assert self.secret.value() == VALUE
        return [0]

    def open(self, partition: Any, position: Any) -> Iterator[tuple[list[int], int]]:
        assert self.secret.value() == VALUE
        if position is None:
            yield [1, 2, 3], 1


class Totals(tw.Sink):
    """A sink with the same fields, which forgets all."""

    def __init__(self, problem: Callable[[], Exception] | None = None) -> None:
        self.dsn, self.secret, self.url, self.problem = f"user=me password={FIELD}", SECRET, DATABASE, problem

    def __repr__(self) -> str:
        return f"Totals({self.dsn!r}, {self.url!r})"

    def commit(self, epoch: Any, parts: list[Any]) -> None:
        assert self.secret.value() == VALUE
        if self.problem is not None:
            raise self.problem()

    def last_committed(self) -> None:
        return None


def with_password(password: str, record: int) -> int:
    assert password == FIELD
    return record


def quotes_all() -> Exception:
    """Return the error of a careless client."""
    return ValueError(f"no login with {VALUE} or {VALUE!r} at {DATABASE}, password={FIELD}")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The value is in the environment alone, and no cluster of another program is looked for."""
    monkeypatch.setenv(NAME, VALUE)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """All that is logged, by a handler of the program and as lines of JSON."""
    written = io.StringIO()
    handlers = [logging.StreamHandler(written), logging.StreamHandler(written)]
    handlers[1].setFormatter(JsonLines())
    logger = logging.getLogger("tidewheel")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    for handler in handlers:
        logger.addHandler(handler)
    yield written
    for handler in handlers:
        logger.removeHandler(handler)
    logger.setLevel(before)


def dataflow(problem: Callable[[], Exception] | None = None) -> tw.Dataflow:
    """Return a dataflow with secrets in a source, a function, a state and a sink."""
    flow = tw.Dataflow("shop")
    orders = flow.source("orders", Numbers())
    more = flow.input("more")
    held = orders.concat(more).map(partial(with_password, FIELD)).accumulate(int, start=list, add=keep, name="last")
    held.publish("totals")
    held.capture("kept")
    held.sink(Totals(problem), visible="epoch").probe("stored")
    return flow


def keep(state: list[Any], record: int) -> list[Any]:
    return [SECRET, record]


def texts_of_a_flow(flow: tw.Dataflow) -> Iterator[str]:
    yield from (str(flow.explain()), flow.to_mermaid(), repr(flow))
    yield from (str(getattr(flow, name)()) for name in ("_repr_html_", "_repr_svg_", "to_svg") if hasattr(flow, name))


@contextmanager
def gateway() -> Iterator[Gateway]:
    with Gateway(GatewayConfig(port=0, flight_port=None), [LivePage()]) as running:
        yield running


def test_a_dataflow_shows_names(tmp_path: Path) -> None:
    """Text, drawings and representations of a dataflow have names of operators, never what their objects have."""
    flow = dataflow()
    texts = list(texts_of_a_flow(flow))
    assert len(texts) >= 3
    assert [leaks(text) for text in texts if leaks(text)] == []
    assert all("sink" in text for text in texts[:2])


def test_a_running_job_shows_names(tmp_path: Path, logged: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    """Telemetry, page, metrics, statistics, commands, logs and snapshots of a job that uses all its secrets."""
    snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=3600)
    texts: list[str | bytes] = [repr(snapshots), repr(tw.RuntimeConfig())]
    with tw.run(dataflow(), workers=2, engine="local", snapshots=snapshots) as job, gateway() as page:
        job.input("more").send([5])
        job.input("more").advance_to(1)
        job.probe("stored").wait_until(1, timeout_s=20)
        job.snapshot(timeout_s=20)
        texts += [repr(job), str(job.statistics()), repr(job.statistics()), str(job.explain("stored"))]
        texts += [repr(job.input("more")), repr(job.probe("stored"))]
        assert eventually(lambda: b"tidewheel_operator" in ask(page, "/metrics").body)
        texts += [ask(page, path).body for path in ("/metrics", "/jobs", "/topics")]
        with requested(page, f"/jobs/{job.name}/events") as events:
            texts.append(json.dumps(read_event(events)))
        with TelemetryReader(job.name) as views:
            texts.append(json.dumps(next(iter(views)).document))
        texts += list(job_lines(TelemetryReader(job.name)))  # as ``tidewheel top --once``
        assert main(["topics"]) == 0
        job.input("more").close()
        job.wait(timeout_s=20)
    for command in (["snapshots", str(tmp_path / "snapshots")], ["snapshots", str(tmp_path / "snapshots"), "1"]):
        assert main(command) == 0
    printed = capsys.readouterr()
    texts += [printed.out, printed.err, logged.getvalue()]
    files = [path for path in (tmp_path / "snapshots").rglob("*") if path.is_file()]
    stored = [path.read_bytes() for path in files]
    assert any(NAME.encode() in content for content in stored), "the state has the name of the secret"
    assert [leaks(text) for text in (*texts, *stored) if leaks(text)] == []


def test_a_failure_shows_names(logged: io.StringIO) -> None:
    """An error of a client that quotes what it was given is redacted where it is taken over."""
    texts: list[str] = []
    with gateway() as page:
        job = tw.run(dataflow(quotes_all), engine="local")
        with TelemetryReader(job.name) as views:
            seen = iter(views)
            texts.append(json.dumps(next(seen).document))
            job.input("more").close()
            with pytest.raises(tw.JobError) as caught:
                job.wait(timeout_s=20)
            texts += [json.dumps(view.document) for view in seen]
        texts.append(ask(page, "/metrics").body.decode())
    assert any("no login" in text for text in texts)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        texts += [str(error), repr(error), error.traceback_text, repr(error.args)]
    assert "no login with Secret('SHOP_PASSWORD')" in str(caught.value)
    texts.append(logged.getvalue())
    assert "no login" in logged.getvalue()
    assert [leaks(text) for text in texts if leaks(text)] == []


@dataclass
class Client:
    """A client of a service, with a password in its only field, which its dataclass shows."""

    account: str

    async def __aenter__(self) -> int:
        return 3

    async def __aexit__(self, *_: object) -> None:
        return None

    def __call__(self, record: int) -> int:
        return record


@dataclass
class SlowClient(Client):
    async def __call__(self, record: int) -> int:  # type: ignore[override]
        return record


def refused(action: Callable[[], object]) -> str:
    """Return all that the error of an action says, as Python prints it but for errors of others."""
    with pytest.raises((tw.TidewheelError, TypeError, ValueError)) as caught:
        action()
    return f"{caught.value} {caught.value!r} {getattr(caught.value, 'traceback_text', '')}"


def run(build: Callable[[tw.Dataflow], object]) -> None:
    flow = tw.Dataflow("urls")
    build(flow)
    with tw.run(flow, engine="local") as job:
        job.wait(timeout_s=20)


URL = f"s3://me:{IN_URL}@bucket/path"
URLS: dict[str, Callable[[], object]] = {
    "snapshots": lambda: tw.Snapshots(URL),
    "snapshots of http": lambda: tw.Snapshots(f"https://me:{IN_URL}@host/path"),
    "query": lambda: tw.Snapshots(f"s3://bucket/path?password={IN_URL}"),
    "log of a topic": lambda: run(lambda flow: flow.input("n").publish("t", log=tw.Log(URL))),
    "files": lambda: run(lambda flow: flow.source("n", tw.FileSource([URL])).capture("c")),
    "Parquet": lambda: run(lambda flow: flow.source("n", tw.ParquetSource([URL])).capture("c")),
    "recording": lambda: run(lambda flow: flow.source("n", tw.ReplaySource(URL)).capture("c")),
    "no source": lambda: run(lambda flow: flow.source("n", DATABASE)),  # type: ignore[arg-type]
    "no sink": lambda: run(lambda flow: flow.input("n").sink(DATABASE)),  # type: ignore[arg-type]
    "no function": lambda: run(lambda flow: flow.input("n").map(DATABASE)),  # type: ignore[arg-type]
    "no condition": lambda: tw.subscribe("t", where=DATABASE),
    "no probe": lambda: run(lambda flow: flow.source("n", tw.TickSource(0.1), paced_by=DATABASE)),
    "engine": lambda: tw.run(tw.Dataflow("d"), engine=DATABASE),  # type: ignore[arg-type]
    "host of a gateway": lambda: GatewayConfig(host=DATABASE),
    "origin": lambda: GatewayConfig(origins=frozenset([f"{DATABASE}?"])),
    "token": lambda: GatewayConfig(token=f"{IN_URL} "),
    "unknown topic": lambda: tw.subscribe(DATABASE, timeout_s=0.01),
}


WAITS: Any = SlowClient(FIELD)
LOCKED: Any = partial(print, FIELD, threading.Lock())
ENTERED: Any = Client(FIELD)
RETURNS: Any = partial(with_password, FIELD)
ONE = tw.RecordSource([1])
OBJECTS: dict[str, Callable[[], object]] = {
    "no source": lambda: run(lambda flow: flow.source("n", ENTERED)),
    "no sink": lambda: run(lambda flow: flow.input("n").sink(ENTERED)),
    "async": lambda: run(lambda flow: flow.input("n").map(WAITS)),
    "async condition": lambda: tw.subscribe("t", where=WAITS),
    "unpicklable condition": lambda: tw.subscribe("t", where=LOCKED),
    "entered": lambda: run(lambda flow: flow.source("n", ONE).map_async(ENTERED).capture("c")),
    "returned": lambda: run(lambda flow: flow.source("n", ONE).map_async(RETURNS).capture("c")),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_errors_show_no_fields_of_objects(name: str, logged: io.StringIO) -> None:
    """But the names of their classes or functions."""
    said = refused(OBJECTS[name])
    assert any(word in said for word in ("Client", "with_password", "print"))
    assert leaks(said + logged.getvalue()) == []


@pytest.mark.parametrize("name", URLS)
def test_errors_mask_passwords_in_urls(name: str, logged: io.StringIO) -> None:
    """Whichever argument has the URL, and whether or not it may be one."""
    said = refused(URLS[name])
    assert leaks(said) == []
    assert leaks(logged.getvalue()) == []


WRITERS: dict[str, Callable[[tw.Stream[Any]], object]] = {
    "write_files": lambda stream: stream.write_files(URL),
    "capture_to": lambda stream: stream.capture_to(URL),
}


@pytest.mark.parametrize("name", WRITERS)
def test_places_of_files_mask_passwords_in_urls(name: str) -> None:
    """In drawings, and in the error of a second stream for the same place."""
    flow = tw.Dataflow("files")
    numbers = flow.input("n")
    texts = []
    try:
        WRITERS[name](numbers)
    except tw.TidewheelError as error:
        texts.append(str(error))
    texts += [*texts_of_a_flow(flow), refused(lambda: WRITERS[name](numbers))]
    assert [leaks(text) for text in texts if leaks(text)] == []


@pytest.mark.parametrize(
    "command",
    [
        ["snapshots", URL],
        ["snapshots", f"ftp://me:{IN_URL}@host/path"],
        ["topics", "--address", f"ray://me:{IN_URL}@127.0.0.1:1"],
        ["tail", DATABASE, "--timeout", "0.1"],
        ["serve", "--host", DATABASE],
        ["serve", "--allow-origin", f"{DATABASE}?"],
    ],
)
def test_commands_mask_passwords_in_urls(
    command: list[str], capsys: pytest.CaptureFixture[str], logged: io.StringIO
) -> None:
    """What they print of their own arguments, too."""
    assert main(command) == 1
    printed = capsys.readouterr()
    assert printed.err
    assert leaks(printed.out + printed.err + logged.getvalue()) == []


def test_a_gateway_shows_no_token() -> None:
    """In its configuration; the address of the page has it, as a person opens that."""
    config = GatewayConfig(token="a-token-of-some-length")
    assert "a-token" not in repr(config) + str(config)
    with pytest.raises(GatewayError) as caught:
        GatewayConfig(token=f"{FIELD}!")
    assert leaks(str(caught.value)) == []
