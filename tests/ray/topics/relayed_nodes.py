"""A cluster of three nodes with a relay on the second: ``python -m tests.ray.topics.relayed_nodes LOG``.

Only the first node has CPUs, so a job is there. Subscribers are on all three; the relay's process is killed, and then
its node. What happened is said in the end, as JSON.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import tidewheel as tw
from tests.waiting import eventually

TOPIC = "relayed"
DEADLINE_S = 60.0
NODE: dict[str, Any] = {"object_store_memory": 80 * 1024 * 1024}


class Reader:
    """A subscriber on a node; an actor."""

    def __init__(self) -> None:
        self._subscription = tw.subscribe(TOPIC, timeout_s=DEADLINE_S)

    def read(self, count: int) -> list[tuple[int, list[int]]]:
        """Return the next epochs."""
        epochs = self._subscription.epochs(timeout_s=DEADLINE_S)
        return [(epoch.time, sorted(epoch.records)) for _, epoch in zip(range(count), epochs, strict=False)]


def start_reader(node: str) -> Any:
    """Start a subscriber on a node, and wait until it is connected."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    actor: Any = ray.remote(num_cpus=0)(Reader)
    reader = actor.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote()
    ray.get(reader.__ray_ready__.remote(), timeout=DEADLINE_S)
    return reader


def send(numbers: Any, epochs: range) -> None:
    """Send epochs of two records each."""
    for epoch in epochs:
        numbers.send([epoch * 10, epoch * 10 + 1])
        numbers.advance_to(epoch + 1)


def read(readers: Sequence[Any], count: int) -> list[list[tuple[int, list[int]]]]:
    """Have all readers read so many epochs."""
    import ray

    found: list[list[tuple[int, list[int]]]] = ray.get([reader.read.remote(count) for reader in readers])
    return found


def has_relay(node: str) -> bool:
    """Tell whether a subscriber on a node would get a relay."""
    from tidewheel.pubsub.catalog.catalog_actor import ask_catalog

    registration = ask_catalog("lookup", TOPIC, DEADLINE_S).registration
    return bool(ask_catalog("parent", TOPIC, registration, node))


def relay_nodes(relay: tw.types.RelayHandle) -> list[str]:
    return [one.node for one in relay.statistics()]


def tour(cluster: Any, nodes: list[Any], log: str) -> dict[str, Any]:
    """Publish, and have things die; return what the subscribers on the first and the last node had, and where."""
    import ray

    first, second, third = [node.node_id for node in nodes]
    flow = tw.Dataflow("producer")
    flow.input("numbers").publish(TOPIC, log=tw.Log(log))
    with tw.run(flow, workers=1) as job, tw.relay(TOPIC, [second]) as relay, job.input("numbers") as numbers:
        places = relay_nodes(relay)
        readers = [start_reader(node) for node in (first, third)]
        mortal = start_reader(second)
        children = [one.children for one in relay.statistics()]
        send(numbers, range(10))
        had = [*read([mortal], 10), *read(readers, 10)]
        pid = ray.get(relay.actors[0].__ray_call__.remote(lambda _: os.getpid()), timeout=DEADLINE_S)
        send(numbers, range(10, 15))
        os.kill(pid, signal.SIGKILL)
        send(numbers, range(15, 20))
        had += [*read([mortal], 10), *read(readers, 10)]
        assert eventually(lambda: len(relay_nodes(relay)) == 1, DEADLINE_S)
        places += relay_nodes(relay)
        cluster.remove_node(nodes[1], allow_graceful=False)
        send(numbers, range(20, 30))
        had += read(readers, 10)
        assert eventually(lambda: relay_nodes(relay) not in ([], [second]), DEADLINE_S)
        assert eventually(lambda: has_relay(third), DEADLINE_S)
        readers.append(start_reader(third))
        send(numbers, range(30, 40))
        had += read(readers, 10)
        children += [one.children for one in relay.statistics()]
        for reader in readers:  # the end would wait for them to read it
            ray.kill(reader)
    return {"had": had, "placed": [place == second for place in places], "children": children}


def main() -> None:
    """Start the cluster, and end it."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 2, "include_dashboard": False})
    try:
        nodes = [cluster.head_node, *(cluster.add_node(num_cpus=0, **NODE) for _ in range(2))]
        cluster.wait_for_nodes(DEADLINE_S)
        ray.init(address=cluster.address, namespace="tidewheel", log_to_driver=False)
        found = tour(cluster, nodes, sys.argv[1])
        sys.stdout.write(f"{json.dumps(found)}\n")
        ray.shutdown()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
