"""One topic's entry in the catalog of the cluster, which is made again in every new catalog until it is retracted."""

import logging
import threading
import time
from typing import Any

from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.catalog.catalog_actor import CATALOG_TIMEOUT_S, ask_catalog, catalog_actor, find_catalog
from tidewheel.pubsub.catalog.registration import Call, Registration, RegistrationEvent, RegistrationState
from tidewheel.pubsub.catalog.topic_event import ENDED
from tidewheel.pubsub.errors import DeliveryError

_LOG = logging.getLogger(__name__)
_HOLD_S = 600.0


class CatalogEntry:
    """Keeps a topic registered while its job calls `keep` regularly; several threads may call.

    Args:
        info: the topic.
    """

    def __init__(self, info: TopicInfo) -> None:
        self._info = info
        self._registration = Registration()
        self._lock = threading.Lock()
        self._call: tuple[Call, Any] | None = None
        self._is_retracted = False
        self._refusal = ""

    def register(self) -> None:
        """Make the entry.

        Raises:
            DeliveryError: a living job publishes a topic of that name, or the catalog does not answer.
        """
        ask_catalog("register", self._info)

    @property
    def problem(self) -> str | None:
        """The reason why new subscribers cannot find the topic; None if they can."""
        match self._registration.state:
            case RegistrationState.REGISTERED:
                return None
            case RegistrationState.ABSENT:
                return f"topic {self._info.name!r} is not in the catalog, which was lost, and is being registered again"
            case RegistrationState.TAKEN:
                return (
                    f"topic {self._info.name!r} of job {self._info.job!r} is not in the catalog: the catalog was lost, "
                    f"and another job took the name first: {self._refusal}. Present subscribers are served, but new "
                    "ones cannot find it until that job has ended"
                )

    def keep(self) -> None:
        """Hold the entry in the catalog, or register it in a new one; do not wait for an answer."""
        with self._lock:
            if self._is_retracted or not self._take_answer():
                return
            call = self._registration.due(time.monotonic())
            if call is not None:
                self._make(call)

    def retract(self, reason: str | None) -> None:
        """Remove the entry for a reason, and wait for the answer of the catalog, if there is one."""
        import ray

        with self._lock:
            self._is_retracted = True
            call, self._call = self._call, None
        catalog = find_catalog()
        if catalog is None:
            return
        try:
            if call is not None and call[0] == "register":
                ray.wait([call[1]], timeout=CATALOG_TIMEOUT_S)  # or the registration could follow the retraction
            ray.get(
                catalog.retract.remote(self._info.name, self._info.registration, reason or ENDED),
                timeout=CATALOG_TIMEOUT_S,
            )
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
            self._take(RegistrationEvent.LOST)
        else:
            self._call = (call, made)

    def _take_answer(self) -> bool:
        """Receive the answer of the pending call, if there is one; return whether no call is pending."""
        import ray

        if self._call is None:
            return True
        call, made = self._call
        if not ray.wait([made], timeout=0)[0]:
            return False
        self._call = None
        try:
            answer = ray.get(made)
        except ray.exceptions.RayTaskError as error:
            if call == "register" and isinstance(error.cause, DeliveryError):
                self._refusal = str(error.cause)
                self._take(RegistrationEvent.REFUSED)
            else:
                _LOG.warning("topic %r: the catalog did not answer as it should: %s", self._info.name, error)
                self._take(RegistrationEvent.LOST)
        except ray.exceptions.RayError as error:
            _LOG.debug("the catalog is lost: %s", error)
            self._take(RegistrationEvent.LOST)
        else:
            if call == "register":
                self._take(RegistrationEvent.REGISTERED)
            else:
                self._take(RegistrationEvent.HELD if answer else RegistrationEvent.FORGOTTEN)
        return True

    def _take(self, event: RegistrationEvent) -> None:
        before = self._registration.state
        self._registration.take(event, time.monotonic())
        after = self._registration.state
        if before is after:
            return
        if after is RegistrationState.REGISTERED:
            _LOG.info("topic %r is in the catalog again", self._info.name)
        else:
            level = logging.ERROR if after is RegistrationState.TAKEN else logging.WARNING
            _LOG.log(level, "%s", self.problem)
