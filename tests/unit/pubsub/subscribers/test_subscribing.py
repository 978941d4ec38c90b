"""Finding a topic; the test plays the control store of a cluster."""

import logging
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import ray

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.host import ray_internals
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog import catalog_actor
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.errors import CatalogSilent, DeliveryError, NoCluster, UnknownTopic
from tidewheel.pubsub.subscribers import subscribing
from tidewheel.pubsub.subscribers.subscribing import find_topic


def test_a_wrong_token_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscriber waits for a cluster that is not there yet. A token does not become right: it asks once."""
    asked: list[str] = []

    def refuse(address: str) -> None:
        asked.append(address)
        raise ray.exceptions.AuthenticationError("the token is wrong")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_internals, "joined_at", lambda: None)
    monkeypatch.setattr(ray_internals, "call_control_store", refuse)
    with socket.create_server(("127.0.0.2", 0)) as server:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.2:{server.getsockname()[1]}")
        with pytest.raises(NoCluster, match=r"the token is wrong.*the same RAY_AUTH_MODE and token"):
            find_topic("numbers", 60.0)
    assert len(asked) == 1


def test_a_subscriber_that_waits_elsewhere_is_told_of_other_clusters(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The publisher's cluster may start while it waits on that of another program: a line at once, and the error."""
    running = [["10.0.0.1:1"], ["10.0.0.1:1", "10.0.0.1:2"]]

    def ask(method: str, *arguments: Any, within_s: float) -> Any:
        return [] if method == "topics" else None

    monkeypatch.setattr(catalog_actor, "ask_catalog", ask)
    monkeypatch.setattr(subscribing, "connect_to_running", lambda *_: None)
    monkeypatch.setattr(subscribing, "_LOOKUP_S", 0.02)
    monkeypatch.setattr(subscribing, "cluster", lambda: "10.0.0.1:1")
    monkeypatch.setattr(ray_internals, "joined_at", lambda: ("10.0.0.1:1", "raylet"))
    monkeypatch.setattr(
        ray_internals, "clusters_here", lambda: (None, running.pop(0) if len(running) > 1 else running[0])
    )
    others = "other Ray clusters run on this machine: 10.0.0.1:2. Name the publisher's with RAY_ADDRESS"
    with caplog.at_level(logging.WARNING), pytest.raises(UnknownTopic, match=rf"10\.0\.0\.1:1: none; {others}$"):
        find_topic("numbers", 0.2)
    assert caplog.messages == [
        f"topic 'numbers' is not on the Ray cluster at 10.0.0.1:1, which this process uses; {others}"
    ]


@pytest.mark.usefixtures("no_cluster")
def test_a_typo_on_the_local_engine_names_the_topics_of_this_process() -> None:
    """A program that runs in one process has made a mistake in a name; that no cluster runs comes last."""
    flow = tw.Dataflow("local")
    flow.input("numbers").publish("readings of north")
    with tw.run(flow, engine="local") as job:
        with raises(UnknownTopic) as raised:
            tw.subscribe("readings of nort", timeout_s=0)
        job.stop()
    assert "'readings of north'" in str(raised.value)
    assert "; did you mean 'readings of north'?, and no Ray cluster runs on this machine" in str(raised.value)
    assert "readings of north" in raised.value.topics


def test_a_cluster_that_does_not_answer_takes_no_longer_than_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt to join it is limited by what is left of the timeout, and two seconds at least."""
    limits: list[float] = []

    def connect(failure: type[NoCluster], within_s: float) -> None:
        limits.append(within_s)
        raise failure("the cluster does not answer")

    monkeypatch.setattr(subscribing, "connect_to_running", connect)
    monkeypatch.setattr(ray_internals, "clusters_here", lambda: (None, []))
    with pytest.raises(NoCluster, match="does not answer"):
        find_topic("numbers", 3.0)
    assert limits[0] == pytest.approx(3.0, abs=0.1)
    assert all(2.0 <= limit <= 3.0 for limit in limits)
    assert len(limits) in range(2, 8)


@pytest.mark.parametrize(("timeout_s", "asked"), [(None, 3), (60.0, 3), (0.0, 1)])
def test_a_catalog_that_starts_for_long_is_waited_for_like_the_topic(
    monkeypatch: pytest.MonkeyPatch, timeout_s: float | None, asked: int
) -> None:
    """On a busy machine it takes more than the seconds that one call may take. Without a timeout it is asked once."""
    info = TopicInfo("numbers", "job", IntegerDomain(), (), "first")
    calls: list[float] = []

    def ask(method: str, *arguments: Any, within_s: float) -> TopicInfo:
        calls.append(within_s)
        if len(calls) < 3:
            raise CatalogSilent(f"the catalog has not answered within {within_s} s")
        return info

    monkeypatch.setattr(catalog_actor, "ask_catalog", ask)
    monkeypatch.setattr(subscribing, "connect_to_running", lambda *_: None)
    if asked > 1:
        assert find_topic("numbers", timeout_s) == info
    else:
        with pytest.raises(DeliveryError, match="has not answered"):
            find_topic("numbers", timeout_s)
    assert len(calls) == asked
    assert all(within_s <= 7.0 for within_s in calls)


def test_the_choice_among_several_clusters_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program has to name one: the error comes at once, and says which program has started which."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_internals, "joined_at", lambda: None)
    monkeypatch.setattr(ray_internals, "clusters_here", lambda: (None, ["10.0.0.1:1", "10.0.0.1:2"]))
    monkeypatch.setattr(ray_internals, "starter_of", lambda at: "of process 7, python flow.py" * (at == "10.0.0.1:1"))
    began_s = time.monotonic()
    with raises(NoCluster):
        find_topic("numbers", 60.0)
    assert time.monotonic() - began_s < 30.0


@pytest.mark.parametrize("call", [tw.relay, tw.subscribe, partial(tw.end_subscription, name="mine")])
@pytest.mark.parametrize("timeout_s", ["a", [1]])
def test_a_timeout_that_is_no_number_is_refused(call: Callable[..., object], timeout_s: Any) -> None:
    """By all that waits for a topic, before it looks for a cluster."""
    with raises(DeliveryError):
        call("nowhere", timeout_s=timeout_s)
