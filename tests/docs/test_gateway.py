"""docs/gateway.md works as it stands."""

import http.client
import json
import re
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import tidewheel as tw
from tests.kit.gateway.served import ask, published, served
from tests.kit.pubsub.local_job import send_end, send_epoch
from tests.waiting import WITHIN_S
from tidewheel.gateway import Gateway, GatewayConfig, Ingest

PAGE = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")
WORDS = [{"word": "to", "n": 2}, {"word": "be", "n": 2}]


def blocks(language: str) -> list[str]:
    """The code of a language on the page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_flight_client_reads_a_topic(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Run as it is printed, but for the port."""
    (program,) = blocks("python")
    with published("words") as running, served() as gateway:
        monkeypatch.setenv("TIDEWHEEL_TOKEN", str(gateway.token))
        assert "grpc://127.0.0.1:8788" in program
        code = compile(program.replace("grpc://127.0.0.1:8788", gateway.flight_url), "docs/gateway.md", "exec")
        thread = threading.Thread(target=exec, args=[code, {}], daemon=True)
        thread.start()
        running.wait_for_subscribers(1, WITHIN_S)
        send_epoch(running, 0, WORDS)
        send_end(running, 1)
        thread.join(WITHIN_S)
        assert not thread.is_alive()
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].split() == ["0", "word", "n"]
    assert "to" in printed


def test_the_page_names_what_topics_answers() -> None:
    """Each field of an entry of the list."""
    with published("words"), served() as gateway:
        (topic,) = (topic for topic in ask(gateway, "/topics").content if topic["name"] == "words")
    assert f"`{{{', '.join(json.dumps(field) for field in topic)}}}`" in PAGE


def test_the_request_of_the_shell_is_answered_as_printed() -> None:
    """The URLs of curl, and what comes."""
    commands, _ = blocks("sh")
    (printed,) = blocks("text")
    listed, streamed = (urlsplit(url) for url in re.findall(r"http://[^\s']+", commands))
    with published("words") as running, served() as gateway:
        assert [topic["name"] for topic in ask(gateway, listed.path).content][:1] == ["words"]
        answers: list[bytes] = []
        reading = threading.Thread(
            target=lambda: answers.append(ask(gateway, f"{streamed.path}?{streamed.query}").body), daemon=True
        )
        reading.start()
        running.wait_for_subscribers(1, WITHIN_S)
        send_epoch(running, 0, [*WORDS, {"word": "or", "n": 1}])
        send_end(running, 1)
        reading.join(WITHIN_S)
    assert printed in answers[0].decode()


def test_the_shell_sends_records_as_printed() -> None:
    """What curl posts comes into an inbox, once for its key."""
    _, command = blocks("sh")
    headers = dict(re.findall(r'-H "([^:]+): ([^"]+)"', command))
    (body,), (url,) = re.findall(r"--data-binary '([^']+)'", command), re.findall(r"http://[^\s']+", command)
    flow = tw.Dataflow("fraud")
    flow.inbox("payments", dict).probe("done").capture("payments")
    gateway = Gateway(GatewayConfig(port=0, flight_port=None), [Ingest(["fraud"])])
    with tw.run(flow, engine="local") as job, gateway:
        assert headers.pop("Authorization") == "Bearer $TOKEN"
        assert headers.pop("Prefer") == "wait=30"
        connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=WITHIN_S)
        for _ in range(2):
            connection.request(
                "POST", urlsplit(url).path, body, {**headers, "Authorization": f"Bearer {gateway.token}"}
            )
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (202, b'{"state":"sent"}')
        connection.close()
        job.probe("done").wait_until(1, WITHIN_S)
        records = [record for captured in job.captured("payments") for record in captured.batch]
        assert records == [json.loads(line) for line in body.splitlines()]
        job.stop()


def test_the_ports_of_the_page_are_the_default() -> None:
    """They are on it in several places."""
    assert set(re.findall(r"127\.0\.0\.1:(\d+)", PAGE)) == {str(GatewayConfig().port), str(GatewayConfig().flight_port)}
