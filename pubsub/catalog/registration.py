"""The registration of one topic in the cluster's catalog, which a job renews after each restart of the catalog.

A publishing job keeps one call to the catalog pending: ``hold``. The call ends when the topic no longer belongs to the
job, or when the catalog dies. Then the job registers again.

==============  ===================  ==============  ===================================================
the topic is    outcome of the call  then it is      meaning
==============  ===================  ==============  ===================================================
registered      held                 registered      the call returned; the job makes another
registered      forgotten or lost    not registered  the catalog is a new one, or dead; the job registers at once
not registered  registered           registered      the topic is registered again
not registered  lost                 not registered  that catalog has died, too
not registered  refused              refused         another job has taken the name
refused         registered           registered      the other job has retracted the name
refused         refused or lost      refused         the other job still has the name, or the catalog does not answer
==============  ===================  ==============  ===================================================
"""

import logging
import threading
import time
from typing import Any, Final, Literal, TypeAlias

from tidewheel.host.ray_cluster import lost
from tidewheel.pubsub.catalog.catalog import ENDED, TopicInfo
from tidewheel.pubsub.catalog.catalog_actor import CATALOG_TIMEOUT_S, ask_catalog, catalog_actor, find_catalog
from tidewheel.pubsub.errors import DeliveryError

_LOG = logging.getLogger(__name__)
_HOLD_S = 600.0
_AGAIN_S = 0.5
_TAKEN_AGAIN_S = 5.0

Call: TypeAlias = Literal["hold", "register"]
"""The method of the catalog to call."""

PUBLISHED_HERE: Final[set[str]] = set()
"""The registrations of the topics that jobs of this process publish, until they are retracted."""


class Registration:
    """Decides which call to make for a topic, one call at a time; no I/O, no clock.

    Attributes:
        refusal: the reason why the catalog refuses the topic; empty if it does not.

    >>> registration = Registration()
    >>> registration.due(now_s=0.0)
    'hold'
    >>> registration.take(False, now_s=7.0)
    >>> registration.due(now_s=7.0)
    'register'
    >>> registration.take(False, now_s=7.0)
    >>> registration.due(now_s=7.0), registration.due(now_s=8.0)
    (None, 'register')
    """

    def __init__(self) -> None:
        self.is_registered = True
        self.refusal = ""
        self._next_s: float | None = None
        self._is_out = False

    def due(self, now_s: float) -> Call | None:
        """Return the call to make now, or None; the call is pending until `take`."""
        if self._is_out or (self._next_s is not None and now_s < self._next_s):
            return None
        self._is_out = True
        return "hold" if self.is_registered else "register"

    def take(self, is_registered: bool, now_s: float, refusal: str = "") -> None:
        """Receive the outcome of the pending call; ``refusal`` is the catalog's reason.

        ``is_registered`` is False if the catalog has refused or forgotten the topic, or was lost.
        """
        assert self._is_out, "a call is pending"
        self._is_out = False
        self.refusal = "" if is_registered else refusal or self.refusal
        is_at_once = is_registered or self.is_registered
        self._next_s = None if is_at_once else now_s + (_TAKEN_AGAIN_S if self.refusal else _AGAIN_S)
        self.is_registered = is_registered


class CatalogEntry:
    """Keeps a topic registered as long as its job calls `keep` regularly; thread-safe."""

    def __init__(self, info: TopicInfo) -> None:
        self._info = info
        self._registration = Registration()
        self._lock = threading.Lock()
        self._call: tuple[Call, Any] | None = None
        self._is_retracted = False

    def register(self) -> None:
        """Register the topic.

        Raises:
            DeliveryError: a running job publishes a topic with this name, or the catalog does not answer.
        """
        PUBLISHED_HERE.add(self._info.registration)
        ask_catalog("register", self._info)

    @property
    def problem(self) -> str | None:
        """The reason why new subscribers cannot find the topic; None if they can."""
        if self._registration.is_registered:
            return None
        if not self._registration.refusal:
            return f"topic {self._info.name!r} is not in the catalog, which was lost, and is being registered again"
        return (
            f"topic {self._info.name!r} of job {self._info.job!r} is not in the catalog: the catalog was lost, "
            f"and another job took the name first: {self._registration.refusal}. Present subscribers are served, but "
            "new ones cannot find it until that job has ended"
        )

    def keep(self) -> None:
        """Hold the entry in the catalog, or register it in a new catalog, without waiting."""
        with self._lock:
            if self._is_retracted or not self._take_answer() or lost():
                return
            call = self._registration.due(time.monotonic())
            if call is not None:
                self._make(call)

    def retract(self, reason: str | None) -> None:
        import ray

        with self._lock:
            self._is_retracted = True
            PUBLISHED_HERE.discard(self._info.registration)
            call, self._call = self._call, None
        catalog = find_catalog()
        if catalog is None:
            return
        try:
            if call is not None and call[0] == "register":
                ray.wait([call[1]], timeout=CATALOG_TIMEOUT_S)  # otherwise the registration could follow the retraction
            retracted = catalog.retract.remote(self._info.name, self._info.registration, reason or ENDED)
            ray.get(retracted, timeout=CATALOG_TIMEOUT_S)
        except ray.exceptions.RayError as error:
            _LOG.warning("topic %r could not be retracted: %s", self._info.name, error)

    def _make(self, call: Call) -> None:
        try:
            catalog = catalog_actor()
            if call == "hold":
                made = catalog.hold.remote(self._info.name, self._info.registration, _HOLD_S)
            else:
                made = catalog.register.remote(self._info)
        except Exception as error:  # noqa: BLE001 - Ray has many for a catalog that dies while it is looked for
            _LOG.debug("the catalog cannot be called: %s", error)
            self._take(is_registered=False)
        else:
            self._call = (call, made)

    def _take_answer(self) -> bool:
        import ray

        if self._call is None:
            return True
        call, made = self._call
        if not ray.wait([made], timeout=0)[0]:
            return False
        self._call = None
        try:
            self._take(is_registered=bool(ray.get(made)) or call == "register")
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            is_refused = call == "register" and isinstance(cause, DeliveryError)
            if not is_refused:
                _LOG.info("topic %r: the catalog does not answer: %s", self._info.name, error)
            self._take(is_registered=False, refusal=str(cause) if is_refused else "")
        return True

    def _take(self, *, is_registered: bool, refusal: str = "") -> None:
        before = self.problem
        self._registration.take(is_registered, time.monotonic(), refusal)
        if is_registered and before:
            _LOG.info("topic %r is in the catalog again", self._info.name)
        elif self.problem != before:
            level = logging.ERROR if self._registration.refusal else logging.WARNING
            _LOG.log(level, "%s", self.problem)
