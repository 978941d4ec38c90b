"""What a job does about its registration, state by state."""

import pytest

from tidewheel.pubsub.catalog.registration import TRANSITIONS, Call, Registration, RegistrationEvent, RegistrationState

HELD, FORGOTTEN, LOST = RegistrationEvent.HELD, RegistrationEvent.FORGOTTEN, RegistrationEvent.LOST
REGISTERED, REFUSED = RegistrationEvent.REGISTERED, RegistrationEvent.REFUSED

FAR_S = 60.0


def after(*events: RegistrationEvent) -> tuple[Registration, float]:
    """Return a registration to which all this has happened, and what time it is then."""
    registration, now_s = Registration(), 0.0
    for event in events:
        now_s += FAR_S
        assert registration.due(now_s) is not None
        registration.take(event, now_s)
    return registration, now_s


@pytest.mark.parametrize(
    ("events", "state", "call"),
    [
        ([], RegistrationState.REGISTERED, "hold"),
        ([HELD], RegistrationState.REGISTERED, "hold"),
        ([FORGOTTEN], RegistrationState.ABSENT, "register"),
        ([LOST], RegistrationState.ABSENT, "register"),
        ([LOST, LOST], RegistrationState.ABSENT, "register"),
        ([LOST, REGISTERED], RegistrationState.REGISTERED, "hold"),
        ([LOST, REFUSED], RegistrationState.TAKEN, "register"),
        ([LOST, REFUSED, REFUSED], RegistrationState.TAKEN, "register"),
        ([LOST, REFUSED, LOST], RegistrationState.TAKEN, "register"),
        ([LOST, REFUSED, REGISTERED], RegistrationState.REGISTERED, "hold"),
    ],
    ids=lambda value: "-".join(event.value for event in value) or "new" if isinstance(value, list) else None,
)
def test_what_follows(events: list[RegistrationEvent], state: RegistrationState, call: Call) -> None:
    """Each event leads where the table says, and from there the call is made that fits."""
    registration, now_s = after(*events)
    assert registration.state is state
    assert registration.due(now_s + FAR_S) == call


def test_one_call_is_out_at_a_time() -> None:
    """Nothing is due before there is an answer; what is lost is made good at once, and tried again after a while."""
    registration = Registration()
    assert registration.due(0.0) == "hold"
    assert registration.due(FAR_S) is None
    registration.take(HELD, FAR_S)
    assert registration.due(FAR_S) == "hold"
    registration.take(LOST, FAR_S)
    assert registration.due(FAR_S) == "register"
    registration.take(LOST, FAR_S)
    assert registration.due(FAR_S) is None
    assert registration.due(FAR_S + 1.0) == "register"
    registration.take(REFUSED, FAR_S)
    assert registration.due(FAR_S + 1.0) is None
    assert registration.due(FAR_S + 10.0) == "register"


def test_the_table_has_every_answer() -> None:
    """Each of the calls can be lost; a hold is held or forgotten, a registration made or refused."""
    answers = {"hold": {HELD, FORGOTTEN, LOST}, "register": {REGISTERED, REFUSED, LOST}}
    calls: dict[RegistrationState, Call] = dict.fromkeys(RegistrationState, "register")
    calls[RegistrationState.REGISTERED] = "hold"
    assert set(TRANSITIONS) == {(state, event) for state, call in calls.items() for event in answers[call]}
