"""The gateway, in a process of its own, before the topics of a job on Ray, with clients that know nothing of Ray."""

import json
import signal
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from pyarrow import flight

import tidewheel as tw
from tests.ray.driver_process import DriverProcess
from tests.ray.serving import serving

pytestmark = pytest.mark.ray

_DEADLINE_S = 60.0
_ENDS_WITHIN_S = 15.0


def in_thread(call: Callable[[], Any]) -> Callable[[], Any]:
    """Make a call in a thread; what is returned waits for its result."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(_DEADLINE_S)
        (found,) = results
        return found

    return result


def events_of(response: Any) -> list[tuple[str, Any]]:
    """Read Server-Sent Events to the end: the kind of each, and its data."""
    with response:
        text = response.read().decode()
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def joined(cluster: str) -> str:
    """Return what a gateway says to its errors if nothing goes wrong."""
    return f"tidewheel: this process has joined the Ray cluster at {cluster}, namespace 'tidewheel'\n"


def numbers(topic: str, *, tables: bool = False) -> tw.Dataflow:
    """Describe a dataflow that publishes what comes at its input, over two workers."""
    flow = tw.Dataflow(topic)
    stream = flow.input("numbers", int).exchange(lambda n: n)
    if tables:
        stream.map_batches(lambda batch: pa.table({"n": pa.array(batch, pa.int64())})).publish(topic)
    else:
        stream.map(lambda n: {"n": n}).publish(topic)
    return flow


def sorted_epochs(found: list[tuple[Any, list[dict[str, int]]]]) -> list[tuple[Any, list[int]]]:
    """The records of each epoch, in order."""
    return [(time, sorted(record["n"] for record in records)) for time, records in found]


@pytest.mark.parametrize("tables", [False, pytest.param(True, marks=pytest.mark.long)], ids=["dicts", "tables"])
def test_every_protocol_serves_a_topic_on_ray(ray_cluster: str, tables: bool) -> None:
    """Whole epochs of both workers, filtered where they are published, and then the end; SIGTERM ends the gateway."""
    topic = "gateway/numbers on ray"
    with serving(ray_cluster) as gateway, tw.run(numbers(topic, tables=tables), workers=2) as job:
        with gateway.request("/topics") as answer:
            assert (topic, 2) in [(found["name"], found["partitions"]) for found in json.load(answer)]
        status, told = gateway.refusal("/topics/gateway%2Fnumbers/events")
        assert (status, topic in told["topics"]) == (404, True)
        assert gateway.refusal("/topics", headers={})[0] == 401
        assert gateway.refusal("/topics", headers={"Authorization": "Bearer wrong"})[0] == 401
        assert gateway.refusal(f"/topics/{quote(topic, safe='')}/events?where=n")[0] == 400

        batches = in_thread(lambda: gateway.batches(topic, "n>1"))
        response = gateway.request(f"/topics/{quote(topic, safe='')}/events?where=n%3E1")
        with gateway.socket(topic) as socket:
            job.topic(topic).wait_for_subscribers(3, timeout_s=_DEADLINE_S)
            with job.input("numbers") as sender:
                sender.send([1, 2, 3, 4])
                sender.advance_to(1)
                sender.send([5, 6])
            objects = [json.loads(socket.recv(_DEADLINE_S)) for _ in range(3)]
        job.wait(timeout_s=_DEADLINE_S)
        assert [found["type"] for found in objects] == ["epoch", "epoch", "end"]
        of_socket = [(found["time"], found["records"]) for found in objects[:2]]
        assert sorted_epochs(of_socket) == [(0, [1, 2, 3, 4]), (1, [5, 6])]
        events = events_of(response)
        assert [kind for kind, _ in events] == ["epoch", "epoch", "end"]
        of_events = [(data["time"], data["records"]) for _, data in events[:2]]
        assert sorted_epochs(of_events) == sorted_epochs(batches()) == [(0, [2, 3, 4]), (1, [5, 6])]
        gateway.process.kill(signal.SIGTERM)
        assert gateway.process.ended(_ENDS_WITHIN_S) == ("", joined(ray_cluster))
        assert gateway.process.code == 0


def test_ctrl_c_tells_the_clients_and_disturbs_nobody_else(ray_cluster: str) -> None:
    """The subscriptions are gone at once, and the job goes on."""
    topic = "gateway interrupted"
    with tw.run(numbers(topic)) as job, tw.subscribe(topic) as other:
        with serving(ray_cluster) as gateway, gateway.socket(topic) as socket:
            response = gateway.request(f"/topics/{quote(topic)}/events")
            job.topic(topic).wait_for_subscribers(3, timeout_s=_DEADLINE_S)
            job.input("numbers").send([1])
            job.input("numbers").advance_to(1)
            assert json.loads(socket.recv(_DEADLINE_S))["time"] == 0
            gateway.process.kill(signal.SIGINT)
            assert json.loads(socket.recv(_DEADLINE_S))["message"] == "the gateway is being stopped"
            assert events_of(response)[-1] == ("error", {"message": "the gateway is being stopped"})
            assert gateway.process.ended(_ENDS_WITHIN_S) == ("", joined(ray_cluster))
            assert gateway.process.code == 130
        job.input("numbers").send([2])
        job.input("numbers").close()
        assert [epoch.records for epoch in other.epochs()] == [[{"n": 1}], [{"n": 2}]]
        job.wait(timeout_s=_DEADLINE_S)


def test_a_filter_that_fails_at_the_publishers_is_one_error_for_one_client(ray_cluster: str) -> None:
    """Over each protocol; another client of the same gateway reads on."""
    topic = "gateway filters"
    with serving(ray_cluster) as gateway, tw.run(numbers(topic), workers=2) as job:

        def flight_error() -> str:
            with pytest.raises(flight.FlightServerError) as caught:
                gateway.batches(topic, "m>1")
            return str(caught.value)

        told = in_thread(flight_error)
        response = gateway.request(f"/topics/{quote(topic)}/events?where=m%3E1")
        with gateway.socket(topic) as socket:
            job.topic(topic).wait_for_subscribers(3, timeout_s=_DEADLINE_S)
            with job.input("numbers") as sender:
                sender.send([1])
            assert [json.loads(socket.recv(_DEADLINE_S))["type"] for _ in range(2)] == ["epoch", "end"]
        ((kind, data),) = events_of(response)
        assert kind == "error"
        for text in (data["message"], told()):
            assert "there is no field 'm', but ['n']" in text
        job.wait(timeout_s=_DEADLINE_S)


def test_without_a_cluster_it_says_so() -> None:
    """One line, and exit code 1."""
    with DriverProcess("127.0.0.1:1", "tidewheel", "serve") as process:
        output, errors = process.ended(_DEADLINE_S)
    assert (process.code, output) == (1, "")
    assert errors.startswith("tidewheel: no connection to the Ray cluster at '127.0.0.1:1': ")
    assert errors.count("\n") == 1
