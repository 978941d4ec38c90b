"""A job on the local engine that runs until something has come from elsewhere."""

from collections.abc import Callable
from typing import Any

from tests.waiting import eventually


def run_until(job: Any, condition: Callable[[], object]) -> None:
    """Run rounds of a job until a condition is true; fail if it does not become so."""

    def has_come() -> bool:
        while job.run_round() and not condition():
            pass
        return bool(condition())

    assert eventually(has_come), "it comes soon"
