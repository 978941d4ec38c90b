"""Jobs on several Ray nodes: where their workers run, and what happens when nodes are missing, go or ask for a token.

Clusters and their drivers are processes with a temporary folder of their own, so that they neither find the Ray of
other tests nor are found by it. What they say are lines of JSON.
"""

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import psutil
import pytest

import tidewheel as tw
from tests.packaging.repository import ROOT
from tests.ray.test_job import collatz, collatz_steps, feed_walks
from tests.waiting import eventually
from tidewheel.runtime.engines.job import Job

pytestmark = pytest.mark.ray

Settings: TypeAlias = dict[str, Any]
Program: TypeAlias = Callable[..., None]
STARTED_WITHIN_S = 150.0
GONE_WITHIN_S = 10.0
STORE_BYTES = 80 * 1024 * 1024
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "5d2c" * 16}
NO_TOKEN = {"RAY_AUTH_MODE": "disabled"}
ADDRESSES = ("10.77.0.1", "10.77.0.2")
GOLD: dict[str, Settings] = {"a": {}, "b": {"gold": 1}, "c": {"gold": 2}}


def say(value: Any) -> None:
    print(json.dumps({"said": value}), flush=True)  # noqa: T201 - it is heard by the test


def hold(nodes: list[Settings]) -> None:
    """Be a cluster until the end of what comes in; add a node, or kill the one added, when told to."""
    from ray.cluster_utils import Cluster

    size: Settings = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
    added: Any = None
    head: Settings = {"initialize_head": True, "head_node_args": {**size, "include_dashboard": False, **nodes[0]}}
    try:
        cluster = Cluster(**head)
    except Exception:  # noqa: BLE001 - on a busy machine Ray's 30 s for the first node may be too few
        cluster = Cluster(**head)
    try:
        for node in nodes[1:]:
            cluster.add_node(wait=False, **size, **node)
        cluster.wait_for_nodes(STARTED_WITHIN_S)
        say(cluster.address)
        for line in sys.stdin:
            if line == "add\n":
                added = cluster.add_node(**size)
                say(added.node_id)
            else:
                cluster.remove_node(added, allow_graceful=False)
                say(None)
    finally:
        cluster.shutdown()


def join(address: str, host: str) -> None:
    """Be one more node of a cluster until the end of what comes in."""
    command = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus=1"]
    command += [f"--address={address}", f"--node-ip-address={host}", f"--object-store-memory={STORE_BYTES}"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr) as node:
        sys.stdin.read()
        node.terminate()


def deployed(flow: tw.Dataflow, workers: int, settings: Settings) -> Job:
    return tw.run(flow, workers=workers, config=tw.RuntimeConfig(**settings), paused=True)


def members(job: Job) -> list[Any]:
    """Return the node of each worker, and whether it listens to other nodes."""
    import ray

    def member(actor: Any) -> tuple[str, bool]:
        listens = any(sockets.listener.address.tcp is not None for sockets in actor._sockets.values())
        return ray.get_runtime_context().get_node_id(), listens

    actors = [ray.get_actor(f"tidewheel-{job.name}-worker-{n}", namespace="tidewheel") for n in range(job.workers)]
    return ray.get([actor.__ray_call__.remote(member) for actor in actors], timeout=30)


def left_behind(job_name: str) -> list[str]:
    """Return the actors, placement groups and socket files that are still there."""
    import ray
    from ray.util.placement_group import placement_group_table

    actors = [actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True) if job_name in actor["name"]]
    groups = [key for key, group in placement_group_table().items() if group["state"] != "REMOVED"]
    return actors + groups + [str(path) for path in Path(tempfile.gettempdir()).glob("tidewheel-*")]


def walk(workers: int, settings: Settings) -> None:
    """Run the loop, fed and read here and on another node; say where it ran, and what came out."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def read() -> list[tuple[int, list[tuple[int, int]]]]:
        with tw.subscribe("collatz", timeout_s=30) as subscription:
            return [(epoch.time, sorted(epoch.records)) for epoch in subscription.epochs()]

    with deployed(collatz(), workers, settings) as job, ThreadPoolExecutor() as threads:
        placed = members(job)
        elsewhere = {node for node, _ in placed} - {ray.get_runtime_context().get_node_id()}
        there = NodeAffinitySchedulingStrategy(elsewhere.pop(), soft=False)
        seen_there = ray.remote(read).options(num_cpus=0, scheduling_strategy=there).remote()
        seen_here = threads.submit(read)
        job.topic("collatz").wait_for_subscribers(2, timeout_s=30)
        job.start()
        other = job.input("numbers").clone()
        fed_there = ray.remote(feed_walks).options(num_cpus=0, scheduling_strategy=there).remote(other, range(3, 14, 2))
        feed_walks(job.input("numbers"), range(2, 14, 2))
        ray.get(fed_there, timeout=60)
        job.wait(timeout_s=60)
        steps = sorted((entry.time, *record) for entry in job.captured("steps") for record in entry.batch)
        topics = [seen_here.result(30), ray.get(seen_there, timeout=30)]
    gone, address = eventually(lambda: not left_behind(job.name)), ray.get_runtime_context().gcs_address
    say({"address": address, "members": placed, "steps": steps, "topics": topics, "gone": gone})


def place(workers: int, settings: Settings) -> None:
    """Deploy and stop; say on which zones workers were, and what was free in the meantime and is again."""
    import ray

    flow = tw.Dataflow("placed")
    flow.input("numbers").probe("done")
    with deployed(flow, workers, settings) as job:
        zones = {node["NodeID"]: node["Labels"].get("zone") for node in ray.nodes()}
        placed = [zones[node] for node, _ in members(job)]
        free = ray.available_resources()
        job.stop()
    gone = eventually(lambda: ray.available_resources().get("gold") == 3 and not left_behind(job.name))
    say({"zones": placed, "gold": free.get("gold", 0), "gone": gone})


def find_no_room(workers: int, settings: Settings) -> None:
    """Say why a job could not be deployed."""
    begin = time.monotonic()
    with pytest.raises(tw.JobError) as failure:
        deployed(collatz(), workers, settings)
    result = {"error": str(failure.value), "seconds": time.monotonic() - begin}
    say({**result, "gone": eventually(lambda: not left_behind("collatz"))})


def lose(workers: int, settings: Settings) -> None:
    """Run until the job fails; say where it runs, and then when and why."""
    job = deployed(collatz(), workers, settings)
    job.start()
    job.input("numbers").send([27])
    say([node for node, _ in members(job)])
    errors = []
    for _ in range(2):
        with pytest.raises(tw.JobError) as failure:
            job.wait(timeout_s=60)
        errors.append((time.monotonic(), failure.value.worker, str(failure.value)))
    say({"errors": errors, "gone": eventually(lambda: not left_behind(job.name))})
    job.stop()


def serve() -> None:
    """Be a driver that runs one program after another."""
    for line in sys.stdin:
        program, arguments = json.loads(line)
        {run.__name__: run for run in (walk, place, find_no_room)}[program](*arguments)


@dataclass
class Child:
    """A process that runs a function of this module, and what it writes."""

    process: subprocess.Popen[str]
    log: Path
    heard: int = 0

    def hear(self) -> Any:
        """Return the next that it says."""

        def said() -> list[str]:
            return re.findall(r'^{"said": .*}\n', self.log.read_text(), re.MULTILINE)[self.heard :]

        eventually(lambda: bool(said()) or self.process.poll() is not None, STARTED_WITHIN_S)
        found = said()
        assert found, f"nothing heard: {self.log.read_text()[-3000:]}"
        self.heard += 1
        return json.loads(found[0])["said"]

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


@dataclass
class Nodes:
    """A cluster on this machine: what all its processes know, who holds it, and a driver on its first node."""

    folder: Path
    environment: dict[str, str]
    holder: Child = field(init=False)
    driver: Child = field(init=False)

    @contextmanager
    def child(self, program: Program, *arguments: Any, before: tuple[str, ...] = (), **more: str) -> Iterator[Child]:
        """Run a function of a module; its process finds the cluster by RAY_ADDRESS, and ends with its input."""
        name, code = program.__name__, "import json, sys; from {} import {} as run; run(*json.loads(sys.argv[1]))"
        log = self.folder / f"{name}-{secrets.token_hex(4)}.log"
        with log.open("a") as output:
            process = subprocess.Popen(
                [*before, sys.executable, "-c", code.format(program.__module__, name), json.dumps(arguments)],
                cwd=ROOT,
                env={**self.environment, **more},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                text=True,
                start_new_session=True,
            )
        try:
            yield Child(process, log)
        finally:
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()

    def result(self, program: Program, *arguments: Any) -> Any:
        """Have the driver run a program; return what it says."""
        self.driver.tell(json.dumps([program.__name__, arguments]))
        return self.driver.hear()


@contextmanager
def cluster(nodes: list[Settings], tokens: Mapping[str, str], before: tuple[str, ...] = ()) -> Iterator[Nodes]:
    """Start nodes on this machine, in a folder with a short path for sockets; none of their processes may be left."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "TIDEWHEEL_"))}
    with tempfile.TemporaryDirectory(prefix="tw-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        alone = {"RAY_TMPDIR": folder, "TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"}
        made = Nodes(Path(folder), {**inherited, **tokens, **alone})
        with made.child(hold, nodes, before=before) as made.holder:
            made.environment["RAY_ADDRESS"] = made.holder.hear()
            with made.child(serve, before=before) as made.driver:
                yield made
        assert eventually(lambda: not processes_of(folder)), processes_of(folder)


def processes_of(folder: str) -> list[list[str]]:
    """Return the processes that have the folder for their temporary files."""
    found = (each.info for each in psutil.process_iter(["environ", "cmdline"]))
    return [info["cmdline"] for info in found if (info["environ"] or {}).get("TMPDIR") == folder]


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[Nodes]:
    """Three nodes, with zones, one piece of gold on the second and two on the third, that ask for a token."""
    with cluster([{"labels": {"zone": zone}, "resources": gold} for zone, gold in GOLD.items()], TOKEN) as nodes:
        yield nodes


@pytest.fixture
def two_networks() -> Iterator[tuple[str, str]]:
    """The names of two network namespaces that see each other at `ADDRESSES`, and nothing else."""

    def ip(command: str) -> None:
        try:
            subprocess.run(["ip", *command.split()], check=True, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespaces here: {error}, {getattr(error, 'stderr', '')}")

    here, there = names = (f"tw-{os.getpid()}-a", f"tw-{os.getpid()}-b")
    try:
        ip(f"netns add {here}")
        ip(f"netns add {there}")
        ip(f"-n {here} link add veth type veth peer name veth netns {there}")
        for name, own, other in ((here, *ADDRESSES), (there, *reversed(ADDRESSES))):
            ip(f"-n {name} addr add {own}/24 dev veth")
            ip(f"-n {name} link set lo up")
            ip(f"-n {name} link set veth up")
            ip(f"-n {name} route add default via {other}")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True, timeout=10)


EXPECTED = [[(n - 2) // 4, n, collatz_steps(n)] for n in range(2, 14)]


def assert_right(result: Any) -> None:
    """The loop gave what plain Python gives, every subscriber saw it, and nothing was left behind."""
    assert result["steps"] == EXPECTED
    epochs = [[time, [step[1:] for step in EXPECTED if step[0] == time]] for time in range(3)]
    assert all(topic == epochs for topic in result["topics"])
    assert result["gone"]


@pytest.mark.long
def test_nodes_with_addresses_of_their_own(two_networks: tuple[str, str]) -> None:
    """Workers on nodes that only a network joins, each with its own address, find each other."""
    enter, enter_other = (("ip", "netns", "exec", name) for name in two_networks)
    with (
        cluster([{"node_ip_address": ADDRESSES[0]}], NO_TOKEN, enter) as nodes,
        nodes.child(join, nodes.environment["RAY_ADDRESS"], ADDRESSES[1], before=enter_other),
    ):
        result = nodes.result(walk, 2, {"resources": {"CPU": 1}})  # waits for the other node, as it has one CPU
    assert len({node for node, _ in result["members"]}) == 2
    assert [between_nodes for _, between_nodes in result["members"]] == [True, True]
    assert_right(result)


@pytest.mark.parametrize("link", ["socket", pytest.param("ray", marks=pytest.mark.long)])
def test_workers_on_three_nodes(three_nodes: Nodes, link: str) -> None:
    """They are on different nodes of the cluster of RAY_ADDRESS, which wants a token, and give the right results."""
    result = three_nodes.result(walk, 3, {"link": link})
    assert result["address"] == three_nodes.environment["RAY_ADDRESS"]
    assert len({node for node, _ in result["members"]}) == 3
    assert [between_nodes for _, between_nodes in result["members"]] == [link == "socket"] * 3
    assert_right(result)


@pytest.mark.long
def test_packed_workers_share_a_node(three_nodes: Nodes) -> None:
    """With nothing reserved, all are on one node, whichever."""
    result = three_nodes.result(place, 3, {"placement": "pack"})
    assert result["zones"] in [[zone] * 3 for zone in GOLD]


@pytest.mark.parametrize(
    ("settings", "zones"),
    [
        pytest.param({"resources": {"gold": 1}}, ["b", "c", "c"], marks=pytest.mark.long),
        ({"resources": {"gold": 1}, "placement": "pack"}, ["c", "c"]),
        ({"resources": {"CPU": 0.5, "gold": 0.5}, "node_labels": {"zone": "b"}}, ["b", "b"]),
    ],
)
def test_workers_get_what_they_ask_for(three_nodes: Nodes, settings: Settings, zones: list[str]) -> None:
    """They reserve it while the job runs; afterwards it is free, and no placement group is left."""
    result = three_nodes.result(place, len(zones), settings)
    assert sorted(result["zones"]) == zones
    assert result["gold"] == 3 - len(zones) * settings["resources"]["gold"]
    assert result["gone"]


@pytest.mark.parametrize(
    ("workers", "settings", "asked", "found", "advice"),
    [
        (1, {"node_labels": {"zone": "z"}}, "1 worker asked for a node with labels zone=z.", "lacks label", "Start a"),
        (2, {"resources": {"gold": 2}}, "2 workers asked for gold=2 each.", "has too little gold", "run fewer workers"),
    ],
)
def test_no_room(three_nodes: Nodes, workers: int, settings: Settings, asked: str, found: str, advice: str) -> None:
    """The job fails at its deadline, saying what was asked for and what each node has; nothing is left behind."""
    result = three_nodes.result(find_no_room, workers, {"deploy_timeout_s": 1, **settings})
    opening, *nodes, end = result["error"].split("\n")
    assert "no room on the cluster within 1 s" in opening
    assert asked in opening
    assert sorted(node.split("zone=")[1][0] for node in nodes) == ["a", "b", "c"]
    assert all(found in node for node in nodes if "zone=c" not in node)
    assert advice in end
    assert 1 <= result["seconds"] < GONE_WITHIN_S
    assert result["gone"]


@pytest.mark.long
def test_a_node_comes_and_goes(three_nodes: Nodes) -> None:
    """A job waits for room until a node brings it; when the node is killed, one error names it and the worker on it."""
    holder = three_nodes.holder
    with three_nodes.child(lose, 4, {}, TIDEWHEEL_RESOURCES='{"CPU": 1}') as driver:
        warning = "waits for room on the cluster: 4 workers asked for CPU=1 each"
        assert eventually(lambda: warning in driver.log.read_text(), 30)
        holder.tell("add")
        doomed = holder.hear()
        nodes = driver.hear()
        assert len(set(nodes)) == 4
        assert doomed in nodes
        holder.tell("remove")
        holder.hear()
        killed_at = time.monotonic()
        result = driver.hear()
    (failed_at, worker, message), (_, *again) = result["errors"]
    assert failed_at - killed_at < GONE_WITHIN_S
    assert (worker, again) == (nodes.index(doomed), [worker, message])
    assert re.match(rf"worker {worker} of job .* on node \S+ \({doomed[:8]}\)", message)
    assert result["gone"]
