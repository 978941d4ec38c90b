"""Noticing that a Ray actor has died, from another process."""

from collections.abc import Callable
from typing import Any


def watch_actor(actor: Any) -> Callable[[], str | None]:
    """Return a function that says how an actor has died, None while it lives; it does not wait.

    A call is kept pending at the actor, behind what that does, and fails as soon as its process is gone. Meanwhile the
    actor is kept alive by its handle here.
    """
    import ray

    pending = [actor.__ray_ready__.remote()]

    def death() -> str | None:
        if not ray.wait(pending, timeout=0)[0]:
            return None
        try:
            ray.get(pending[0])
        except ray.exceptions.RayError as error:
            return str(error)
        pending[0] = actor.__ray_ready__.remote()
        return None

    return death
