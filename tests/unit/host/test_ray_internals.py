"""The private parts of Ray on which tidewheel relies: the contract that a new release of Ray has to keep.

``tests/ray/test_ray_internals.py`` has the part of it that needs a cluster.
"""

import inspect
import logging
import os
import re
import sys
import threading
from functools import cache
from importlib.metadata import version
from typing import Any

import pytest

from tests.packaging.repository import pyproject
from tidewheel.host import ray_internals
from tidewheel.host.log_lines import JSON_BEGIN, JsonLines
from tidewheel.host.ray_internals import (
    call_java,
    clusters_here,
    dashboard_url,
    hide_lines,
    joined_at,
    never_join_from_our_threads,
    show_each_line,
    show_exceptions_without_ray,
    use_stored_token,
)

PASSED = [(2, 57), (2, 58), (2, 59), (2, 60)]
"""The releases of Ray that these tests have passed with, and those of tests/ray/test_ray_internals.py."""

RELEASE = tuple(map(int, version("ray").split(".")[:2]))
"""The one that is installed here."""


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
    """A new minor release of Ray needs this contract to be run with it; so does a bound in pyproject.toml."""
    assert RELEASE in PASSED
    (first, oldest), (last, newest) = PASSED[0], PASSED[-1]
    (allowed,) = [line for line in pyproject()["project"]["dependencies"] if line.startswith("ray")]
    assert allowed == f"ray>={first}.{oldest},<{last}.{newest + 1}"


@pytest.mark.parametrize("is_out_of_reach", [False, True])
def test_an_exception_is_shown_without_ray_where_ray_is_out_of_reach(
    monkeypatch: pytest.MonkeyPatch, is_out_of_reach: bool
) -> None:
    """Ray's own hook calls the control store, and then the hook that Python had before; ours chooses one of the two."""
    import ray._private.worker as private

    worker: Any = private
    called: list[str] = []
    monkeypatch.setattr(worker, "custom_excepthook", lambda *shown: called.append("Ray's"))
    monkeypatch.setattr(worker, "normal_excepthook", lambda *shown: called.append("Python's"))
    monkeypatch.setattr(sys, "excepthook", worker.custom_excepthook)
    for _ in range(2):  # once is enough, and twice is no harm
        show_exceptions_without_ray(lambda: is_out_of_reach)
    sys.excepthook(ValueError, ValueError("it broke"), None)
    assert called == ["Python's" if is_out_of_reach else "Ray's"]


def test_a_hook_of_the_program_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows exceptions as it likes."""

    def hook(*shown: object) -> None:
        pass

    monkeypatch.setattr(sys, "excepthook", hook)
    show_exceptions_without_ray(lambda: True)
    assert sys.excepthook is hook


@pytest.mark.parametrize(("started", "expected"), [("one:1", "one:1"), ("gone:3", None), (None, None)])
def test_the_clusters_of_this_machine_are_those_whose_raylets_run(
    monkeypatch: pytest.MonkeyPatch, started: str | None, expected: str | None
) -> None:
    """An address that ``ray start`` has left, and of which no raylet runs any more, counts as none."""
    from ray._private import services, utils

    find = cache(lambda: frozenset({"one:1", "two:2"}))
    assert services.find_gcs_addresses.cache_clear  # type: ignore[attr-defined]
    monkeypatch.setattr(services, "find_gcs_addresses", find)
    monkeypatch.setattr(utils, "read_ray_address", lambda: started)
    assert clusters_here() == (expected, ["one:1", "two:2"])


def test_a_token_of_the_user_is_used_as_ray_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray has this function for it, which leaves a choice of the environment alone."""
    from ray._private.authentication import authentication_token_setup as setup

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    use_stored_token()
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
    if RELEASE >= (2, 59):  # which is the first that has it
        used = setup.maybe_enable_token_auth_if_token_available
        assert list(inspect.signature(used).parameters) == ["warn_if_disabled"]


def test_a_process_without_a_cluster_is_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's node is None then."""
    import ray._private.worker as private

    monkeypatch.setattr(private.global_worker, "node", None)
    assert joined_at() is None


@pytest.mark.parametrize("chosen", [None, "mine"])
def test_lines_that_match_are_hidden_and_all_others_shown(monkeypatch: pytest.MonkeyPatch, chosen: str | None) -> None:
    """Ray's log dispatcher leaves out what its deduplicator does; what the user leaves out stays so."""
    from ray._private import ray_logging, worker

    lines = ray_logging.stderr_deduplicator
    assert vars(worker)["stderr_deduplicator"] is lines
    monkeypatch.setattr(ray_logging, "RAY_DEDUP_LOGS", True)
    monkeypatch.setattr(lines, "skip_re", None if chosen is None else re.compile(chosen))
    monkeypatch.setattr(lines, "recent", {})
    for _ in range(2):  # once is enough, and twice is no harm
        hide_lines("^noise$")
    batch = {"pid": "raylet", "ip": "one", "lines": ["noise", "noise!", "mine", "a print"]}
    shown = ["noise!", "mine", "a print"] if chosen is None else ["noise!", "a print"]
    assert [each["lines"] for each in lines.deduplicate(batch)] == [shown]
    assert lines.skip_re is not None
    assert lines.skip_re.pattern == ("^noise$" if chosen is None else "mine|^noise$")


def test_lines_that_are_shown_are_all_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray shows what two processes write alike once, and says how often it came."""
    from ray._private.ray_logging import stderr_deduplicator as lines

    monkeypatch.setattr(lines, "allow_re", None)
    monkeypatch.setattr(lines, "recent", {})
    for _ in range(2):  # once is enough, and twice is no harm
        show_each_line(JSON_BEGIN)
    line = JsonLines().format(logging.makeLogRecord({"msg": "careful"}))
    shown = [lines.deduplicate({"pid": pid, "ip": "one", "lines": [line, "number 1"]})[0]["lines"] for pid in (1, 2)]
    assert shown == [[line, "number 1"], [line]]


@pytest.mark.parametrize("override", [None, "https://proxy.example/ray", "https://user:s3cret@proxy.example/ray"])
def test_a_process_without_a_cluster_has_no_dashboard(monkeypatch: pytest.MonkeyPatch, override: str | None) -> None:
    """Ray itself raises. In a cluster, an address that the user has set goes first; a password in it is kept."""
    from ray._private import worker as private

    if override is not None:
        monkeypatch.setenv("RAY_OVERRIDE_DASHBOARD_URL", override)
    monkeypatch.setattr(ray_internals, "joined_at", lambda: None)
    assert not dashboard_url()
    monkeypatch.setattr(ray_internals, "joined_at", lambda: ("127.0.0.1:6379", "/tmp/raylet"))
    for address in ("127.0.0.1:8265", "", None):
        monkeypatch.setattr(private, "get_dashboard_url", lambda found=address: found)
        shown = (override or "").replace("user:s3cret@", "")
        assert dashboard_url() == (shown or (f"http://{address}" if address else ""))


@pytest.mark.parametrize("may_join", [True, False])
def test_tidewheels_threads_join_no_cluster_by_a_call_of_ray(monkeypatch: pytest.MonkeyPatch, may_join: bool) -> None:
    """Ray's hook joins a cluster before any call of Ray; the threads of the program keep that if they have it."""
    import ray
    from ray._private import auto_init_hook as private

    hook: Any = private
    joined: list[str] = []
    monkeypatch.setattr(hook, "enable_auto_connect", may_join)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda: joined.append(threading.current_thread().name))
    for _ in range(2):  # once is enough, and twice is no harm
        never_join_from_our_threads()
    for name in ("tidewheel-job", "of the program"):
        thread = threading.Thread(target=hook.auto_init_ray, name=name)
        thread.start()
        thread.join(10.0)
    assert joined == (["of the program"] if may_join else [])
