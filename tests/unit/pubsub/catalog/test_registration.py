"""The registration of a job in the catalog, outcome by outcome."""

import pytest

from tidewheel.pubsub.catalog.registration import Call, Registration

FAR_S = 60.0
HELD = REGISTERED = (True, "")
FORGOTTEN = LOST = (False, "")
REFUSED = (False, "another job has it")


def after(*outcomes: tuple[bool, str]) -> tuple[Registration, float]:
    """Return a registration to which all this has happened, and what time it is then."""
    registration, now_s = Registration(), 0.0
    for is_registered, refusal in outcomes:
        now_s += FAR_S
        assert registration.due(now_s) is not None
        registration.take(is_registered, now_s, refusal)
    return registration, now_s


@pytest.mark.parametrize(
    ("outcomes", "is_registered", "is_refused", "call"),
    [
        ([], True, False, "hold"),
        ([HELD], True, False, "hold"),
        ([FORGOTTEN], False, False, "register"),
        ([LOST, LOST], False, False, "register"),
        ([LOST, REGISTERED], True, False, "hold"),
        ([LOST, REFUSED], False, True, "register"),
        ([LOST, REFUSED, REFUSED], False, True, "register"),
        ([LOST, REFUSED, LOST], False, True, "register"),
        ([LOST, REFUSED, REGISTERED], True, False, "hold"),
        ([LOST, REFUSED, REGISTERED, LOST], False, False, "register"),
    ],
)
def test_what_follows(outcomes: list[tuple[bool, str]], is_registered: bool, is_refused: bool, call: Call) -> None:
    """Each outcome leads where the table says, and from there the call is made that fits."""
    registration, now_s = after(*outcomes)
    assert (registration.is_registered, bool(registration.refusal)) == (is_registered, is_refused)
    assert registration.due(now_s + FAR_S) == call


def test_the_last_refusal_is_kept() -> None:
    """Also if the catalog does not answer after it."""
    registration, _ = after(LOST, REFUSED, (False, "a third job has it"), LOST)
    assert registration.refusal == "a third job has it"


def test_one_call_is_out_at_a_time() -> None:
    """Nothing is due before there is an answer; what is lost is made good at once, and tried again after a while."""
    registration = Registration()
    assert registration.due(0.0) == "hold"
    assert registration.due(FAR_S) is None
    registration.take(True, FAR_S)
    assert registration.due(FAR_S) == "hold"
    registration.take(False, FAR_S)
    assert registration.due(FAR_S) == "register"
    registration.take(False, FAR_S)
    assert registration.due(FAR_S) is None
    assert registration.due(FAR_S + 1.0) == "register"
    registration.take(False, FAR_S, "another job has it")
    assert registration.due(FAR_S + 1.0) is None
    assert registration.due(FAR_S + 10.0) == "register"
