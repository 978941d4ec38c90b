"""The live page over HTTP: what a browser may load, and what it receives."""

from collections.abc import Iterator

import pytest

from tests.kit.gateway.paged import HandJobs, paged
from tests.kit.gateway.served import ask, read_event, requested
from tests.kit.telemetry.documents import BEGAN_AT, document, operator
from tests.waiting import eventually
from tidewheel.console import LivePage
from tidewheel.console.page.page_routes import FILES
from tidewheel.gateway import Gateway, GatewayConfig

NAME = "words-0badcafe"
TOKEN = "correct-horse-battery-staple"


@pytest.fixture
def jobs() -> HandJobs:
    """One job that runs."""
    made = HandJobs()
    made.put(document(name=NAME))
    return made


@pytest.fixture
def gateway(jobs: HandJobs) -> Iterator[Gateway]:
    """A gateway with a token, whose page shows the job."""
    with paged(jobs, token=TOKEN) as running:
        yield running
    for name in jobs.find():
        jobs.end(name)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/page/main.js", "text/javascript"),
        ("/page/page.css", "text/css"),
        ("/page/icon.svg", "image/svg+xml"),
        ("/page/vendor/preact.js", "text/javascript"),
    ],
)
def test_files_need_no_token_and_carry_a_policy(gateway: Gateway, path: str, kind: str) -> None:
    """A browser that opens an address can show no token. The files are the same for everyone."""
    answer = ask(gateway, path, authorization="")
    assert (answer.status, answer.headers["content-type"].split(";")[0]) == (200, kind)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert TOKEN.encode() not in answer.body
    assert ask(gateway, path, authorization="", host="evil.example").status == 403
    assert ask(gateway, path, authorization="", origin="http://evil.example").status == 403


def test_every_file_is_served_and_nothing_else(gateway: Gateway) -> None:
    """No path leads out of the folder."""
    for file in FILES.rglob("*.*"):
        if file.is_file():
            assert ask(gateway, f"/page/{file.relative_to(FILES).as_posix()}").body == file.read_bytes()
    for path in ("../page_routes.py", "..%2fpage_routes.py", "%2e%2e/page_routes.py", "vendor", "", "/etc/passwd"):
        assert ask(gateway, f"/page/{path}").status == 404


def test_a_link_of_another_site_opens_the_page_and_nothing_else(gateway: Gateway) -> None:
    """As from a notebook, or from a chat. In a frame, or by a script, it gets nothing."""
    link = {"sec_fetch_site": "cross-site", "sec_fetch_dest": "document", "authorization": ""}
    assert ask(gateway, "/", **link).status == 200
    assert ask(gateway, "/jobs", **link).status == 403
    assert ask(gateway, "/", **{**link, "sec_fetch_dest": "iframe"}).status == 403
    assert ask(gateway, "/page/main.js", **{**link, "sec_fetch_dest": "script"}).status == 403


@pytest.mark.parametrize("path", ["/jobs", f"/jobs/{NAME}/events", f"/jobs/{NAME}/operators/0"])
def test_jobs_need_the_token_in_a_header(gateway: Gateway, path: str) -> None:
    """A token in the URL would be in histories and logs, and the page needs none there."""
    assert ask(gateway, path, authorization="").status == 401
    assert ask(gateway, path, authorization="Bearer wrong").status == 401
    assert ask(gateway, f"{path}?token={TOKEN}", authorization="").status == 401
    assert ask(gateway, path, origin="http://evil.example").status == 403


def test_jobs_are_listed(gateway: Gateway) -> None:
    """With what is known of each."""
    assert eventually(lambda: ask(gateway, "/jobs").content[0].get("state") == "running")
    (job,) = ask(gateway, "/jobs").content
    assert (job["name"], job["workers"], job["operators"]) == (NAME, 1, 2)


def test_a_stream_begins_with_the_whole_document_and_ends_with_the_job(gateway: Gateway, jobs: HandJobs) -> None:
    """Between them come changes alone."""
    with requested(gateway, f"/jobs/{NAME}/events") as response:
        assert response.getheader("content-type") == "text/event-stream"
        whole = read_event(response)
        assert (whole["event"], whole["data"]["job"]["name"]) == ("whole", NAME)
        operators = {"1": operator("map", records_in=40)}
        jobs.put(document(name=NAME, at=BEGAN_AT + 2, operators=operators))
        change = read_event(response)
        assert change["event"] == "patch"
        assert change["data"]["operators"] == {"0": None, "1": {"records_in": 40}}
        assert change["data"]["live"]["operators"]["1"] == {"records_in": 20.0, "records_out": 0.0, "busy": 0.0}
        jobs.put(document(name=NAME, at=BEGAN_AT + 3, operators=operators, state="failed", job={"error": "no"}))
        assert read_event(response)["data"]["job"] == {"state": "failed", "error": "no"}
        jobs.end(NAME)
        assert [read_event(response)["event"] for _ in range(2)] == ["patch", "end"]
    with requested(gateway, f"/jobs/{NAME}/events") as response:
        assert read_event(response)["data"]["job"]["state"] == "failed"
        assert read_event(response)["event"] == "end"


def test_the_history_of_an_operator_is_there_for_a_browser_that_comes_later(gateway: Gateway, jobs: HandJobs) -> None:
    """It was kept by the gateway."""
    ask(gateway, "/jobs")
    for second in range(1, 4):
        operators = {"1": operator("map", records_in=10 * second)}
        jobs.put(document(name=NAME, at=BEGAN_AT + second, operators=operators))
    path = f"/jobs/{NAME}/operators/1"
    assert eventually(lambda: len(ask(gateway, path).content["at"]) == 4)
    assert ask(gateway, path).content["records_in"] == [None, 10.0, 10.0, 10.0]


def test_an_unknown_job_is_told(gateway: Gateway) -> None:
    """With those that there are."""
    answer = ask(gateway, "/jobs/nothing/events")
    assert answer.status == 404
    assert f"there is no job 'nothing'; jobs on this page: '{NAME}'" in answer.message


def test_stopping_ends_streams_at_once(jobs: HandJobs) -> None:
    """A browser connects again by itself, to the next gateway."""
    with paged(jobs) as gateway, requested(gateway, f"/jobs/{NAME}/events") as response:
        assert read_event(response)["event"] == "whole"
        gateway.stop()
        assert read_event(response) == {}
    jobs.end(NAME)


def test_without_flight_there_is_no_second_port() -> None:
    """As for the page of one process."""
    with Gateway(GatewayConfig(port=0, flight_port=None), [LivePage()]) as gateway:
        assert gateway.flight_url == "grpc://127.0.0.1:0"
        assert gateway.page_url.startswith(f"{gateway.url}/#token=")
