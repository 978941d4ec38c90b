"""What tidewheel relies on in Ray beyond its public interface: the contract that a new release of Ray has to keep.

``tests/ray/test_ray_internals.py`` has the part of it that needs a cluster.
"""

import inspect
from importlib.metadata import version
from typing import Any

import pytest

from tidewheel.transport.ray_internals import call_java


def test_calls_of_actors_are_submitted_with_these_arguments() -> None:
    """`call_java` passes each argument of ``CoreWorker.submit_actor_task`` by name: none may be new or gone."""
    import ray._raylet

    raylet: Any = ray._raylet  # whose types leave out this class
    assert list(inspect.signature(raylet.CoreWorker.submit_actor_task).parameters) == [
        "self",
        "language",
        "actor_id",
        "function_descriptor",
        "args",
        "name",
        "num_returns",
        "max_retries",
        "retry_exceptions",
        "retry_exception_allowlist",
        "num_method_cpus",
        "concurrency_group_name",
        "generator_backpressure_num_objects",
        "num_objects_per_yield",
        "enable_task_events",
        "tensor_transport",
        "labels",
    ]


def test_a_java_method_is_named_by_its_class_its_name_and_its_number_of_arguments() -> None:
    """``ray.cross_language`` makes the same descriptor for the same method."""
    import ray
    import ray._raylet as raylet
    from ray.cross_language import _get_function_descriptor_for_actor_method as descriptor_of

    created = raylet.JavaFunctionDescriptor("org.example.Actor", "<init>", "")  # type: ignore[attr-defined]
    ours = raylet.JavaFunctionDescriptor(created.class_name, "read", "2")  # type: ignore[attr-defined]
    assert ours == descriptor_of(ray.Language.JAVA, created, "read", "2")


def test_a_call_of_java_changes_nothing_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It hands one task to the core worker, and leaves Ray's way to load code alone."""
    import ray
    import ray._private.worker as private
    import ray._raylet as raylet

    class Handle:
        _ray_actor_creation_function_descriptor = raylet.JavaFunctionDescriptor(  # type: ignore[attr-defined]
            "org.example.Actor", "<init>", ""
        )
        _ray_actor_language = ray.Language.JAVA
        _ray_actor_id = "the actor"
        _ray_actor_method_cpus = 0

    class CoreWorker:
        calls: list[dict[str, Any]] = []  # noqa: RUF012 - of this test only

        def submit_actor_task(self, **arguments: Any) -> list[str]:
            self.calls.append(arguments)
            return ["the object"]

    worker: Any = private.global_worker
    before = vars(worker)["_load_code_from_local"]
    monkeypatch.setattr(worker, "core_worker", CoreWorker(), raising=False)
    found: Any = call_java(Handle(), "read", 7, "x")
    (call,) = CoreWorker.calls
    assert found == "the object"
    assert (call["actor_id"], call["args"]) == ("the actor", [7, "x"])
    assert (call["function_descriptor"].function_name, call["function_descriptor"].signature) == ("read", "2")
    assert vars(worker)["_load_code_from_local"] == before


def test_this_is_a_release_that_is_allowed() -> None:
    """A new minor release of Ray needs this contract to be run with it, and the bound in pyproject.toml raised."""
    assert version("ray").split(".")[:2] == ["2", "60"]
