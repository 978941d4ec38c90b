"""A program that opens two sessions one after the other, run by a test in a process of its own.

Its standard output is one JSON object of what it saw. With the argument ``ray-first`` it starts Ray itself before.
"""

import json
import os
import sys
import threading
import time
from typing import Any

from tests.spark.conftest import FAST_START
from tests.spark.sources import KeepsSource, messages, read
from tidewheel.spark_bridge import BridgeError, from_spark, jvm, session, to_spark

VARIABLES = ("JAVA_HOME", "PATH", "PYSPARK_PYTHON")


def refusal(app_name: str, **arguments: Any) -> str:
    """Return why no session opens with these arguments."""
    try:
        with session(app_name, **arguments):
            return "it opened"
    except BridgeError as error:
        return str(error)


def environment() -> dict[str, str | None]:
    """Return the variables that a session sets."""
    return {name: os.environ.get(name) for name in VARIABLES}


def asks_for_a_token() -> bool:
    """Tell whether Ray lets nobody in without a token."""
    from ray._private.authentication.authentication_utils import is_token_auth_enabled

    return bool(is_token_auth_enabled())


def free_cpus(expected: float) -> float:
    """Return how many CPUs are free, once they are as many as expected or a deadline has passed: Ray counts late."""
    import ray

    deadline = time.monotonic() + 10
    pause = threading.Event()
    while (free := ray.available_resources().get("CPU", 0)) != expected and time.monotonic() < deadline:
        pause.wait(0.05)
    return float(free)


def two_sessions() -> dict[str, Any]:
    """Open a session, leave it, read what is left of it, and open another."""
    import ray

    seen: dict[str, Any] = {"too big": refusal("too big", executors=99), "before": environment()}
    with session("first", configs=FAST_START) as spark:
        seen["inside"] = environment()
        seen["java"] = jvm.driver_jvm(spark).java.lang.System.getProperty("java.home")
        seen["asks for a token"] = asks_for_a_token()
        seen["nested"] = refusal("nested")
        seen["cpus inside"] = free_cpus(ray.cluster_resources()["CPU"] - 1)
        df = spark.range(1_000).selectExpr("id", "id % 4 as epoch")
        source = from_spark(KeepsSource(), "numbers", df, time="epoch")
        gone = from_spark(KeepsSource(), "gone", spark.range(100, numPartitions=4))
        seen["rows inside"] = sum(batch.num_rows for part in read(gone) for _, batch in part)
    seen["after"] = environment()
    seen["ray after"] = ray.is_initialized()
    seen["cpus"] = ray.cluster_resources()["CPU"]
    seen["cpus after"] = free_cpus(seen["cpus"])
    seen["rows after"] = sum(batch.num_rows for part in read(source) for _, batch in part)
    with session("second", configs=FAST_START) as spark:
        other = from_spark(KeepsSource(), "other", spark.range(900, 950, numPartitions=4))
        seen["rows of another"] = sum(batch.num_rows for part in read(other) for _, batch in part)
        try:
            seen["gone"] = f"{read(gone)}"
        except BridgeError as error:
            seen["gone"] = str(error)
        seen["rows back"] = to_spark(spark, messages(source)).where("epoch = id % 4").count()
        ray.shutdown()
    seen["ray after its shutdown"] = ray.is_initialized()
    return seen


def main() -> None:
    """Print what was seen."""
    if "ray-first" in sys.argv:
        import ray

        ray.init(include_dashboard=False, log_to_driver=False)
        seen = {"refused": refusal("late"), "again": refusal("late"), "after": environment()}
    else:
        seen = two_sessions()
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main()
