"""Exactly-once delivery between nodes without relays: by calls of Ray, and over a publisher's death."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.ray.test_nodes import NO_TOKEN, cluster, say

pytestmark = [pytest.mark.ray, pytest.mark.long]

DEADLINE_S = 60.0
EPOCHS = 20
RECORDS = 50


def read(name: str) -> list[tuple[int, int]]:
    """Return the time of each epoch of the topic, and how many different records it has."""
    with tw.subscribe("bills", timeout_s=DEADLINE_S, durable=tw.Durable(name), start="earliest") as bills:
        return [(epoch.time, len(set(epoch.records))) for epoch in bills.epochs(timeout_s=DEADLINE_S)]


def bill(folder: str) -> None:
    """Publish on two nodes, read on both, and kill a publisher; say what was read."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    flow = tw.Dataflow("bills")
    flow.input("numbers").rebalance().publish("bills", log=tw.Log(folder)).probe("published")
    config = tw.RuntimeConfig(resources={"CPU": 1})
    with tw.run(flow, workers=2, config=config) as job, ThreadPoolExecutor() as threads:
        here = ray.get_runtime_context().get_node_id()
        [there] = [node["NodeID"] for node in ray.nodes() if node["NodeID"] != here]
        on = NodeAffinitySchedulingStrategy(there, soft=False)
        seen = [
            ray.remote(read).options(num_cpus=0, scheduling_strategy=on).remote("there").future(),
            threads.submit(read, "here"),
        ]
        job.topic("bills").wait_for_subscribers(2, timeout_s=DEADLINE_S)
        numbers = job.input("numbers")
        for epoch in range(EPOCHS):
            numbers.send(list(range(epoch * RECORDS, (epoch + 1) * RECORDS)))
            numbers.advance_to(epoch + 1)
            if epoch == EPOCHS // 2:
                job.probe("published").wait_until(epoch, timeout_s=DEADLINE_S)
                kill_publisher(there)
        numbers.close()
        topics = [future.result(DEADLINE_S) for future in seen]
        job.wait(timeout_s=DEADLINE_S)
    say(topics)


def kill_publisher(node: str) -> None:
    """Kill the process of the publisher on a node."""
    import ray

    from tidewheel.pubsub.catalog.catalog_actor import ask_catalog

    def where(_: Any) -> tuple[str, int]:
        return ray.get_runtime_context().get_node_id(), os.getpid()

    publishers = ask_catalog("lookup", "bills", DEADLINE_S).partitions
    placed = dict(ray.get([one.__ray_call__.remote(where) for one in publishers], timeout=DEADLINE_S))
    assert len(placed) == 2, "the publishers are on the nodes of their workers"
    os.kill(placed[node], signal.SIGKILL)


def test_who_reads_on_another_node_has_everything_once(tmp_path: Path) -> None:
    """On both of the publishers' nodes, over a publisher's death. The cluster asks for no token, and gets none."""
    with cluster([{}, {}], NO_TOKEN) as nodes, nodes.child(bill, str(tmp_path)) as driver:
        topics = driver.hear()
    expected = [[epoch, RECORDS] for epoch in range(EPOCHS)]
    assert topics == [expected, expected]
