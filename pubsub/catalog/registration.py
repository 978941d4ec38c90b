"""The registration of one topic in the catalog, which a job keeps across restarts of the catalog. No I/O, no clock.

A publishing job has one call waiting at the catalog: ``hold``, which returns when the topic no longer belongs to the
job, and fails when the catalog dies. Then the job registers the topic again.

===========  ===================  ===========  ======================================================
state        event                next         meaning
===========  ===================  ===========  ======================================================
REGISTERED   held                 REGISTERED   the call returned; the job makes another
REGISTERED   forgotten            ABSENT       the catalog has no such registration; the job registers at once
REGISTERED   lost                 ABSENT       the catalog is dead or out of reach; the job registers at once
ABSENT       registered           REGISTERED   the topic is registered again
ABSENT       lost                 ABSENT       that catalog has died, too
ABSENT       refused              TAKEN        another job has taken the name
TAKEN        registered           REGISTERED   the other job has retracted the name
TAKEN        refused              TAKEN        the other job still has the name
TAKEN        lost                 TAKEN        the catalog did not answer
===========  ===================  ===========  ======================================================
"""

from enum import Enum
from typing import Literal, TypeAlias

Call: TypeAlias = Literal["hold", "register"]
"""The method of the catalog to call."""

_AGAIN_S = 0.5
_TAKEN_AGAIN_S = 5.0


class RegistrationState(Enum):
    """Whether the catalog knows a topic."""

    REGISTERED = "registered"
    ABSENT = "absent"
    TAKEN = "taken"


class RegistrationEvent(Enum):
    """The outcome of a call to the catalog."""

    HELD = "held"
    FORGOTTEN = "forgotten"
    LOST = "lost"
    REGISTERED = "registered"
    REFUSED = "refused"


_STATE, _EVENT = RegistrationState, RegistrationEvent

TRANSITIONS: dict[tuple[RegistrationState, RegistrationEvent], RegistrationState] = {
    (_STATE.REGISTERED, _EVENT.HELD): _STATE.REGISTERED,
    (_STATE.REGISTERED, _EVENT.FORGOTTEN): _STATE.ABSENT,
    (_STATE.REGISTERED, _EVENT.LOST): _STATE.ABSENT,
    (_STATE.ABSENT, _EVENT.REGISTERED): _STATE.REGISTERED,
    (_STATE.ABSENT, _EVENT.LOST): _STATE.ABSENT,
    (_STATE.ABSENT, _EVENT.REFUSED): _STATE.TAKEN,
    (_STATE.TAKEN, _EVENT.REGISTERED): _STATE.REGISTERED,
    (_STATE.TAKEN, _EVENT.REFUSED): _STATE.TAKEN,
    (_STATE.TAKEN, _EVENT.LOST): _STATE.TAKEN,
}
"""The table above."""


class Registration:
    """The registration of a topic after its first success; one call is pending at a time.

    >>> registration = Registration()
    >>> registration.due(now_s=0.0)
    'hold'
    >>> registration.take(RegistrationEvent.LOST, now_s=7.0)
    >>> registration.due(now_s=7.0)
    'register'
    >>> registration.take(RegistrationEvent.LOST, now_s=7.0)
    >>> registration.due(now_s=7.0), registration.due(now_s=8.0)
    (None, 'register')
    """

    def __init__(self) -> None:
        self._state = RegistrationState.REGISTERED
        self._next_s: float | None = None
        self._is_out = False

    @property
    def state(self) -> RegistrationState:
        """Whether the catalog knows the topic."""
        return self._state

    def due(self, now_s: float) -> Call | None:
        """Return the call to make now, which is pending until `take`; None if none is due."""
        if self._is_out or (self._next_s is not None and now_s < self._next_s):
            return None
        self._is_out = True
        return "hold" if self._state is RegistrationState.REGISTERED else "register"

    def take(self, event: RegistrationEvent, now_s: float) -> None:
        """Receive the outcome of the pending call."""
        assert self._is_out, "a call is pending"
        self._is_out = False
        was_registered = self._state is RegistrationState.REGISTERED
        self._state = TRANSITIONS[self._state, event]
        if self._state is RegistrationState.REGISTERED or was_registered:
            self._next_s = None
        else:
            self._next_s = now_s + (_TAKEN_AGAIN_S if self._state is RegistrationState.TAKEN else _AGAIN_S)
