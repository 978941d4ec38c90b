"""Joining a cluster, losing it and leaving it; the test plays Ray."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from tests.kit.messages import raises
from tests.waiting import eventually
from tidewheel.host import ray_cluster, ray_internals
from tidewheel.host.ray_cluster import connect, connect_to_running, left, lost, membership, namespace
from tidewheel.progress.errors import TidewheelError


class PlayedRay:
    """What Ray was asked for, and how it answers."""

    def __init__(self) -> None:
        self.joined: list[tuple[str, str]] = []
        self.is_initialized = False
        self.left = threading.Event()
        self.may_leave = threading.Event()
        self.may_leave.set()

    def init(self, address: str, namespace: str, **options: object) -> None:
        """Note where a driver wants to be."""
        self.joined.append((address, namespace))

    def shutdown(self) -> None:
        """Leave, as soon as that is allowed."""
        assert self.may_leave.wait(10.0)
        self.is_initialized = False
        self.left.set()


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedRay:
    """Have Ray find no cluster, and join what it is told to."""
    ray_played = PlayedRay()
    monkeypatch.setattr(ray, "is_initialized", lambda: ray_played.is_initialized)
    monkeypatch.setattr(ray, "init", ray_played.init)
    monkeypatch.setattr(ray, "shutdown", ray_played.shutdown)
    monkeypatch.setattr(ray_internals, "joined_at", lambda: None)
    monkeypatch.setattr(ray_internals, "call_control_store", lambda address: None)
    monkeypatch.setattr(ray_internals, "use_stored_token", lambda: None)
    monkeypatch.setattr(ray_internals, "show_exceptions_without_ray", lambda condition: None)
    monkeypatch.setattr(ray_internals, "never_join_from_our_threads", lambda: None)
    clusters_are(monkeypatch, None, [])
    monkeypatch.delenv("RAY_ADDRESS")
    return ray_played


def clusters_are(monkeypatch: pytest.MonkeyPatch, started: str | None, running: list[str]) -> None:
    """Have these clusters run on this machine, the first by ``ray start``."""
    monkeypatch.setattr(ray_internals, "clusters_here", lambda: (started, running))


@pytest.fixture
def places() -> Iterator[list[str]]:
    """Return three addresses at which something listens."""
    servers = [socket.create_server(("127.0.0.2", 0)) for _ in range(3)]
    yield [f"127.0.0.2:{server.getsockname()[1]}" for server in servers]
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("chosen", "expected"), [("mine", "mine"), ("8c2f8a3e-7c3b-4d4f-9a53-0c9f2f1f6f11", "tidewheel")]
)
def test_an_anonymous_namespace_is_nobodys(monkeypatch: pytest.MonkeyPatch, chosen: str, expected: str) -> None:
    """A namespace that the driver chose is kept; Ray's own, a UUID, gives way to the common one."""
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(namespace=chosen))
    assert namespace() == expected


@pytest.mark.parametrize("join", [connect, connect_to_running])
def test_an_address_where_no_process_listens_is_an_error_at_once(
    monkeypatch: pytest.MonkeyPatch, played: PlayedRay, join: Any
) -> None:
    """The error names the address and what to do; Ray, which would try for minutes, is not asked."""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with raises(TidewheelError):
        join(TidewheelError)
    assert played.joined == []


@pytest.mark.parametrize("address", ["{}", "ray://127.0.0.1:1"])
def test_what_is_no_control_store_is_an_error_within_a_limit(
    monkeypatch: pytest.MonkeyPatch, played: PlayedRay, places: list[str], address: str
) -> None:
    """What listens there may be anything, such as a dashboard, and may say nothing."""
    wait_for_ever = threading.Event()
    monkeypatch.setattr(ray_internals, "call_control_store", lambda address: wait_for_ever.wait(60.0))
    monkeypatch.setenv("RAY_ADDRESS", address.format(places[0]))
    with pytest.raises(TidewheelError, match=rf"Ray cluster at '{address.format(places[0])}': .*(0.1 s|refused)"):
        connect(TidewheelError, within_s=0.1)
    wait_for_ever.set()
    assert played.joined == []


def test_a_cluster_that_refuses_the_token_is_an_error_at_once(
    monkeypatch: pytest.MonkeyPatch, played: PlayedRay, places: list[str]
) -> None:
    """Ray alone would ask twenty times."""

    def refuse(address: str) -> None:
        raise ray.exceptions.AuthenticationError("the token is wrong")

    monkeypatch.setattr(ray_internals, "call_control_store", refuse)
    monkeypatch.setenv("RAY_ADDRESS", places[0])
    with pytest.raises(TidewheelError, match=r"the token is wrong.*the same RAY_AUTH_MODE and token"):
        connect_to_running(TidewheelError)


@pytest.mark.parametrize("value", [None, "auto", "local"])
def test_no_cluster_is_started_to_subscribe(
    monkeypatch: pytest.MonkeyPatch, played: PlayedRay, value: str | None
) -> None:
    """Not even where ``RAY_ADDRESS`` says "local": it looks for one that runs."""
    if value is not None:
        monkeypatch.setenv("RAY_ADDRESS", value)
    with raises(TidewheelError):
        connect_to_running(TidewheelError)
    assert played.joined == []


def test_a_job_never_runs_on_the_cluster_of_another_program(
    monkeypatch: pytest.MonkeyPatch, played: PlayedRay, places: list[str]
) -> None:
    """It has one of its own instead; but what ``ray start`` has started is there for all."""
    clusters_are(monkeypatch, None, places[:1])
    connect(TidewheelError)
    clusters_are(monkeypatch, places[1], places)
    monkeypatch.setenv("RAY_NAMESPACE", "")  # chooses none
    connect(TidewheelError)
    assert played.joined == [("local", "tidewheel"), (places[1], "tidewheel")]


def test_a_job_runs_on_the_cluster_that_its_process_has_joined_to_subscribe(
    monkeypatch: pytest.MonkeyPatch, played: PlayedRay, places: list[str]
) -> None:
    """A process is part of one cluster only, and its topics are there."""
    clusters_are(monkeypatch, None, places[:1])
    connect_to_running(TidewheelError)
    played.is_initialized = True
    connect(TidewheelError)
    assert played.joined == [(places[0], "tidewheel")]


@pytest.mark.parametrize("join", [connect, connect_to_running])
def test_of_several_clusters_none_is_picked(
    monkeypatch: pytest.MonkeyPatch, played: PlayedRay, places: list[str], join: Any
) -> None:
    """The error lists them; the only one is taken, and that of ``ray start`` goes before others."""
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    monkeypatch.setenv("RAY_NAMESPACE", "mine")
    clusters_are(monkeypatch, None, places)
    with pytest.raises(TidewheelError, match=rf"3 Ray clusters run on this machine \({', '.join(places)}\): name"):
        join(TidewheelError)
    clusters_are(monkeypatch, None, places[:1])
    join(TidewheelError)
    clusters_are(monkeypatch, places[1], places)
    join(TidewheelError)
    assert played.joined == [(places[0], "mine"), (places[1], "mine")]


def test_a_cluster_is_gone_when_neither_of_its_sockets_listens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ray lives through the loss of either: of its control store, that is started again, and of one node's raylet."""
    path = os.path.relpath(tmp_path / "raylet")  # the path of a socket is short
    with socket.create_server(("127.0.0.1", 0)) as store, socket.socket(socket.AF_UNIX) as raylet:
        address = f"127.0.0.1:{store.getsockname()[1]}"
        monkeypatch.setattr(ray_internals, "joined_at", lambda: (address, path))
        assert lost() == ""
        raylet.bind(path)
        raylet.listen()
        assert lost() == ""
        store.close()
        assert lost() == ""
        assert ray_cluster.is_out_of_reach()
        raylet.close()
        assert lost().startswith(f"the Ray cluster at {address} is gone: ")


def test_a_process_leaves_a_cluster_that_is_gone_and_joins_another(
    monkeypatch: pytest.MonkeyPatch, played: PlayedRay, places: list[str], tmp_path: Path
) -> None:
    """To subscribe, at once with an error, until Ray has let go; a job waits for that."""
    gone = ("127.0.0.1:1", str(tmp_path / "raylet"))
    monkeypatch.setattr(ray_internals, "joined_at", lambda: gone if played.is_initialized else None)
    monkeypatch.setenv("RAY_ADDRESS", places[0])
    played.is_initialized = True
    played.may_leave.clear()
    for _ in range(2):
        with raises(TidewheelError):
            connect_to_running(TidewheelError)
    played.may_leave.set()
    assert played.left.wait(10.0)
    assert eventually(lambda: not any(thread.is_alive() for thread in ray_cluster._LEAVING.values()))
    connect_to_running(TidewheelError)
    played.is_initialized = True
    connect(TidewheelError)
    assert played.joined == [(places[0], "tidewheel")] * 2


def test_a_process_that_has_left_a_cluster_is_no_part_of_it_in_the_next(
    monkeypatch: pytest.MonkeyPatch, played: PlayedRay
) -> None:
    """The next one may have the same address, and the process there the same id: then it has another raylet."""
    assert left(membership()) == "this process has joined no cluster"
    played.is_initialized = True
    monkeypatch.setattr(ray_cluster, "process_id", lambda: "process")
    monkeypatch.setattr(ray_cluster, "lost", lambda: "")
    monkeypatch.setattr(ray_internals, "joined_at", lambda: ("one:1", "first/raylet"))
    first = membership()
    assert left(first) == ""
    monkeypatch.setattr(ray_internals, "joined_at", lambda: ("one:1", "second/raylet"))
    assert left(first) == "this process has left the Ray cluster at one:1"
    assert left(membership()) == ""
    monkeypatch.setattr(ray_internals, "joined_at", lambda: None)
    played.is_initialized = False
    assert ray_cluster.is_out_of_reach()  # Ray's hook for exceptions that nobody catches would wait
    assert left(first) == "this process has left the Ray cluster at one:1"


def test_the_stored_token_is_used_for_a_cluster_of_this_machine_only(
    played: PlayedRay, monkeypatch: pytest.MonkeyPatch, places: list[str]
) -> None:
    """A cluster that a program here has started asks for that token, also if RAY_ADDRESS names the cluster."""
    used: list[str] = []
    monkeypatch.setattr(ray_internals, "use_stored_token", lambda: used.append(os.environ["RAY_ADDRESS"]))
    clusters_are(monkeypatch, None, places[:1])
    for place in places[:2]:
        monkeypatch.setenv("RAY_ADDRESS", place)
        connect(TidewheelError)
    assert used == places[:1]
    assert [address for address, _ in played.joined] == places[:2]
