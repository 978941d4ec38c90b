"""The forbidden acts of operators: each attempt has to be refused, and to change nothing."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from tests.kit.simulation.violation import ViolationError
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.worker.ports import OutputPort, running_output


def misuse_token(random: Random, token: TimestampToken, output: OutputPort, others: Sequence[OutputPort]) -> None:
    """Use a live token of ``output`` wrongly; ``others`` are the other outputs of its operator."""
    minimum = running_output(output).domain.minimum()
    match random.choice(("back", "late", "twice", "spent", "elsewhere", "timeless")):
        case "back" if token.time != minimum:
            _refused("going back", lambda: token.downgrade(minimum))
        case "late" if token.time != minimum:
            _refused("going back", lambda: token.delayed(minimum))
        case "twice":
            _refused("discarding twice", _spent(token).discard)
        case "spent":
            _refused("sending with a discarded token", lambda: output.send(_spent(token), [1]))
        case "elsewhere":
            for other in others:
                _refused("sending on another output", partial(other.send, token, [1]))
        case "timeless":
            _refused("going to what is no time", lambda: token.downgrade("no time"))


def misuse_outside(token: TimestampToken, output: OutputPort) -> None:
    """Send while the operator is not scheduled, as a thread may do, and nobody may look at the error.

    So the worker is told, too. That is taken back, so that the job goes on.
    """
    _refused("sending between two calls", lambda: output.send(token, [1]))
    refusals = running_output(output).ledger.refusals
    if [refusal.time for refusal in refusals] != [token.time]:
        raise ViolationError("tokens", f"a batch was sent between two calls, and the worker was told {list(refusals)}")
    refusals.clear()


def misuse_lent(lent: LentToken, output: OutputPort) -> None:
    """Use the token of a message after the operator has returned."""
    _refused("retaining a token that is no longer lent", lambda: lent.retain(output))
    _refused("sending with a token that is no longer lent", lambda: output.send(lent, [1]))
    _refused("delaying a token that is no longer lent", lambda: lent.delayed(lent.time, output))


def _spent(token: TimestampToken) -> TimestampToken:
    spent = token.clone()
    spent.discard()
    return spent


def _refused(what: str, act: Callable[[], object]) -> None:
    try:
        act()
    except TokenError:
        return
    raise ViolationError("tokens", f"{what} was not refused")
