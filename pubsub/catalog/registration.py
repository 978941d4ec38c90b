"""What a job does so that the catalog goes on knowing a topic of it, whatever becomes of the catalog. No I/O, no clock.

A job that publishes has one call waiting at the catalog: ``hold``, which is answered when the topic is no longer its
own, and fails when the catalog dies. Then it registers the topic again.

===========  ===================  ===========  ======================================================
state        event                next         meaning
===========  ===================  ===========  ======================================================
REGISTERED   held                 REGISTERED   the call has been answered; it makes another
REGISTERED   forgotten            ABSENT       the catalog knows no such registration; it makes it at once
REGISTERED   lost                 ABSENT       the catalog is dead or out of reach; it registers at once
ABSENT       registered           REGISTERED   it is found again
ABSENT       lost                 ABSENT       that catalog has died, too
ABSENT       refused              TAKEN        another job has taken the name meanwhile
TAKEN        registered           REGISTERED   which has given it back
TAKEN        refused              TAKEN        which still has it
TAKEN        lost                 TAKEN        nobody knows
===========  ===================  ===========  ======================================================
"""

from enum import Enum
from typing import Literal, TypeAlias

Call: TypeAlias = Literal["hold", "register"]
"""What to call at the catalog."""

_AGAIN_S = 0.5
_TAKEN_AGAIN_S = 5.0


class RegistrationState(Enum):
    """Whether the catalog knows a topic."""

    REGISTERED = "registered"
    ABSENT = "absent"
    TAKEN = "taken"


class RegistrationEvent(Enum):
    """What came of a call at the catalog."""

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
    """One topic's registration, which has been made once; one call is out at a time.

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
        """Return what to call now, which is then out until `take`; None if there is nothing to do yet."""
        if self._is_out or (self._next_s is not None and now_s < self._next_s):
            return None
        self._is_out = True
        return "hold" if self._state is RegistrationState.REGISTERED else "register"

    def take(self, event: RegistrationEvent, now_s: float) -> None:
        """Take what came of the call that is out."""
        assert self._is_out, "what comes answers a call"
        self._is_out = False
        was_registered = self._state is RegistrationState.REGISTERED
        self._state = TRANSITIONS[self._state, event]
        if self._state is RegistrationState.REGISTERED or was_registered:
            self._next_s = None
        else:
            self._next_s = now_s + (_TAKEN_AGAIN_S if self._state is RegistrationState.TAKEN else _AGAIN_S)
