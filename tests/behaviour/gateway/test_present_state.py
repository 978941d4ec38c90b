"""The present state over HTTP: of keys that are looked up, and of topics with history."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

import pytest

import tidewheel as tw
from tests.kit.gateway.served import ask, served
from tests.waiting import WITHIN_S
from tidewheel.gateway import Gateway

TOPIC = "state/prices"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """A gateway before a job of this process, whose prices have changed twice."""
    flow = tw.Dataflow("state of prices")
    prices = flow.input("prices").as_collection(upserts=True).lookup("prices of state")
    prices.changes().publish(TOPIC, history=True)
    flow.input("plain").publish("state/plain")
    is_over = threading.Event()
    with tw.run(flow, engine="local") as job, served() as running:
        handle = job.input("prices")
        handle.send([("tea", 3), (("a", 1), 7), (5, 9)])
        handle.advance_to(1)
        handle.send([("tea", 4)])
        handle.advance_to(2)

        def run() -> None:
            while not is_over.is_set():
                with suppress(TimeoutError, tw.JobError):
                    job.lookup("prices of state", "tea", time=2, timeout_s=0.1)

        thread = threading.Thread(target=run)
        thread.start()
        yield running
        is_over.set()
        job.stop()
        thread.join(WITHIN_S)


def path_to(key: str, query: str = "", name: str = "prices of state") -> str:
    return f"/lookups/{quote(name)}/{quote(key)}{query}"


@pytest.mark.parametrize(("key", "values"), [("tea", [4]), ('["a", 1]', [7]), ("5", [9]), ('"tea"', [4]), ("oil", [])])
def test_keys_are_looked_up(gateway: Gateway, key: str, values: list[int]) -> None:
    """A key is JSON, or a text as it stands; the answer says as of which epoch."""
    answer = ask(gateway, path_to(key))
    assert (answer.status, answer.content) == (200, {"time": 1, "values": values})
    assert ask(gateway, path_to(key, "?job=state%20of%20prices")).content["values"] == values


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (path_to("tea", name="costs"), 404),
        (path_to("tea", "?job=other"), 404),
        (path_to("tea", "?time=x"), 400),
        (path_to("tea", "?when=1"), 400),
        (path_to("tea", "?time=" + "9" * 5000), 400),
        (path_to('{"a": 1}'), 400),
        (path_to('["a", {"a": 1}]'), 400),
        (path_to("[" * 5000), 400),
        (path_to("[" * 30 + "]" * 30), 400),
        (path_to("tea", "?time=0"), 400),
    ],
)
def test_other_look_ups_are_refused(gateway: Gateway, path: str, status: int) -> None:
    """With what is wrong; an epoch that is not kept is no request that could never succeed."""
    assert ask(gateway, path).status == status


@pytest.mark.parametrize("path", [path_to("tea"), f"/topics/{quote(TOPIC, safe='')}/state"])
def test_without_the_token_there_is_no_state(gateway: Gateway, path: str) -> None:
    """As everywhere."""
    assert ask(gateway, path, authorization="Bearer wrong").status == 401


def test_a_topic_with_history_has_a_present_state(gateway: Gateway) -> None:
    """Its records with their counts, the changes of all epochs summed up."""
    answer = ask(gateway, f"/topics/{quote(TOPIC, safe='')}/state")
    assert answer.status == 200
    found = sorted((tuple(map(str, record)), count) for record, count in answer.content["records"])
    assert found == [(("5", "9"), 1), (("['a', 1]", "7"), 1), (("tea", "4"), 1)]


def test_other_topics_have_none(gateway: Gateway) -> None:
    """A topic without history is refused, and an unknown one is not found."""
    assert ask(gateway, f"/topics/{quote('state/plain', safe='')}/state").status == 400
    assert ask(gateway, "/topics/state%2Fnowhere/state").status == 404
