"""The workers of the tests' cluster are forks, and differ from Ray's own in nothing that a test could rely on."""

import os
import signal
from typing import Any

import psutil
import pytest
import ray

from tests.kit.cluster.worker_nursery import worker_nursery
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


def hosts(count: int) -> list[Any]:
    """Return actors that run any function by `__ray_call__`; their class is pickled as it is, not by its module."""

    class Host:
        pass

    return [ray.remote(Host).options(num_cpus=0).remote() for _ in range(count)]


def call(actor: Any, function: Any) -> Any:
    """Return what a function returns in the process of an actor."""
    return ray.get(actor.__ray_call__.remote(function), timeout=60)


def test_a_worker_is_a_fork_that_knows_nothing_of_the_tests() -> None:
    """It imports their modules itself, and its arguments are its own."""

    def about(host: object) -> tuple[int, int, list[str], str]:
        import os
        import sys

        ours = [name for name in sys.modules if name.partition(".")[0] in {"tests", "examples"}]
        return os.getpid(), os.getppid(), ours, next(word for word in sys.argv if word.startswith("--worker-id="))

    told = [call(host, about) for host in hosts(5)]
    parents = {parent for _, parent, _, _ in told}
    assert 1 <= len(parents) <= 2
    assert all(worker_nursery.__module__ in psutil.Process(parent).cmdline() for parent in parents)
    assert [ours for _, _, ours, _ in told if ours] == []
    assert len({pid for pid, _, _, _ in told}) == len({worker_id for _, _, _, worker_id in told}) == 5


def test_a_worker_that_is_killed_is_gone() -> None:
    """Ray learns of its death as of any other's, and nothing is left that has waited for it."""
    [host] = hosts(1)
    process = psutil.Process(call(host, lambda _: os.getpid()))
    assert process in psutil.Process().children(recursive=True)
    process.send_signal(signal.SIGKILL)
    with pytest.raises(ray.exceptions.RayActorError):
        call(host, lambda _: os.getpid())
    assert eventually(lambda: not process.is_running())


def test_a_worker_with_a_runtime_environment_is_rays_own() -> None:
    """It starts with the variables of that."""

    def about() -> tuple[int, str]:
        import os

        return os.getppid(), os.environ["COLOUR"]

    asked = ray.remote(about).options(num_cpus=0, runtime_env={"env_vars": {"COLOUR": "red"}})
    parent, colour = ray.get(asked.remote(), timeout=60)
    assert colour == "red"
    assert "raylet" in psutil.Process(parent).name()
