"""Parts of a running Ray that tidewheel relies on beyond its public interface: the contract for a new release."""

from pathlib import Path
from typing import Any

import pytest

from tidewheel.host.ray_cluster import cluster, is_out_of_reach, left, lost, membership
from tidewheel.host.ray_internals import (
    actor_id,
    available_by_node,
    call_control_store,
    clusters_here,
    dataset_blocks,
    joined_at,
    node_of,
    owner_address,
)

pytestmark = pytest.mark.ray


def test_actors_nodes_and_owners_are_known(ray_cluster: str) -> None:
    """Ray says which node an actor is on, what each node has free, and who owns an object."""
    import ray

    assert ray_cluster

    @ray.remote(num_cpus=0)
    class Idle:
        def node(self) -> str:
            return str(ray.get_runtime_context().get_node_id())

        def name(self) -> str:
            return str(ray.get_runtime_context().get_actor_id())

    actor = Idle.remote()  # type: ignore[attr-defined]
    assert actor_id(actor) == ray.get(actor.name.remote())
    assert node_of(actor_id(actor)) == ray.get(actor.node.remote())
    assert len(available_by_node()) == len(ray.nodes())
    assert all(free.get("memory", 0) > 0 for free in available_by_node())
    assert owner_address(ray.put(b"x")) == owner_address(ray.put(b"y"))
    ray.kill(actor)


def test_a_cluster_that_runs_is_found_and_is_not_gone(ray_cluster: str) -> None:
    """A driver knows where its control store and its raylet listen; anybody on the machine finds the cluster."""
    joined = joined_at()
    assert joined is not None
    assert joined[0] == ray_cluster
    assert Path(joined[1]).is_socket()
    assert ray_cluster in clusters_here()[1]
    call_control_store(ray_cluster)
    assert (left(membership()), lost(), is_out_of_reach()) == ("", "", False)
    assert cluster() == f"{ray_cluster}, namespace 'tidewheel'"


def test_a_handle_has_what_a_call_of_java_needs(ray_cluster: str) -> None:
    """Handles of actors of any language keep their language, class, identifier and CPUs."""
    import ray

    assert ray_cluster

    @ray.remote(num_cpus=0)
    class Idle:
        pass

    actor: Any = Idle.remote()  # type: ignore[attr-defined]
    assert actor._ray_actor_language == ray.Language.PYTHON
    assert actor._ray_actor_id.hex() == actor_id(actor)
    assert actor._ray_actor_creation_function_descriptor.class_name.endswith("Idle")
    assert isinstance(actor._ray_actor_method_cpus, int | float)
    ray.kill(actor)


@pytest.mark.usefixtures("ray_cluster")
def test_a_dataset_is_computed_block_by_block() -> None:
    """Each block comes with its rows, in the order of the dataset; a limit leaves a part of the last one."""
    import ray
    import ray.data

    for rows, dataset in (
        (10, ray.data.range(10, override_num_blocks=3)),
        (8, ray.data.range(10, override_num_blocks=3).limit(8)),
    ):
        dataset.context.enable_progress_bars = False
        dataset.context.execution_options.preserve_order = True
        found = [ray.get(reference).slice(start, rows)["id"] for reference, start, rows in dataset_blocks(dataset)]
        assert len(found) > 1
        assert [number for block in found for number in block.to_pylist()] == list(range(rows))
