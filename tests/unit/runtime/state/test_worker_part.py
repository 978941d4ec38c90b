"""The part of a worker: what comes of the commands that a mailbox has, whichever feeder was faster."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.domains import INTEGERS
from tidewheel.progress import Time
from tidewheel.runtime.messages.envelope import InputCommand
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.runtime.state.keyed_state import KeyedCut
from tidewheel.runtime.state.operator_state import OperatorCut
from tidewheel.runtime.state.worker_part import (
    MailboxPart,
    OperatorPart,
    SavedMailbox,
    UndoneCommand,
    WorkerPart,
    outcome_of,
    positions_of,
)
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.tokens.token_ledger import TokenLedger
from tidewheel.runtime.worker.flow_control import Intake
from tidewheel.runtime.worker.mailbox import Mailbox
from tidewheel.runtime.worker.ports import PortOwner


def send(batch: str, handle: int = 0) -> InputCommand:
    return InputCommand("numbers", "send", batch=[batch], handle=handle)


def advance(time: Time, handle: int = 0) -> InputCommand:
    return InputCommand("numbers", "advance", time, handle=handle)


def clone(handle: int, origin: int, time: Time) -> InputCommand:
    return InputCommand("numbers", "clone", time, handle=handle, origin=origin)


def close(handle: int = 0) -> InputCommand:
    return InputCommand("numbers", "close", handle=handle)


def outcome(tokens: dict[int, Time], *commands: tuple[int, InputCommand]) -> tuple[Any, Any]:
    """Return the tokens of the handles, and what is to be done first."""
    return outcome_of(MailboxPart(tokens, [UndoneCommand(*command) for command in commands]))[:2]


def test_commands_are_done_in_their_order() -> None:
    """A batch is sent at the time that its handle had reached, and a handle that was closed is gone."""
    found = outcome({0: 1}, (-1, send("a")), (-1, advance(4)), (-1, send("b")), (-1, clone(7, 0, 5)), (-1, close()))
    assert found == ({7: 5}, [("send", 1, ["a"]), ("send", 4, ["b"])])


def test_a_substream_ends_behind_what_was_sent_before() -> None:
    """At the time that its handle had reached."""
    end = InputCommand("numbers", "end", batch=["key"])
    found = outcome({0: 1}, (-1, send("a")), (-1, end), (-1, advance(4)), (-1, send("b")))
    assert found == ({0: 4}, [("send", 1, ["a"]), ("end", 1, ["key"]), ("send", 4, ["b"])])


def test_a_handle_that_is_not_there_yet_is_waited_for() -> None:
    """With all that its feeder says behind it, as that keeps its order."""
    found = outcome({0: 1, 1: 1}, (-2, send("late", 7)), (-2, send("x", 1)), (-1, clone(7, 0, 3)), (-1, send("a")))
    assert found == ({0: 1, 1: 1, 7: 3}, [("send", 1, ["a"]), ("send", 3, ["late"]), ("send", 1, ["x"])])


def test_what_waits_for_a_handle_that_never_comes_is_not_sent() -> None:
    """Its maker has not made it before the cut, so the user of the handle has not, either."""
    assert outcome({0: 1}, (-2, send("never", 9)), (-1, send("a"))) == ({0: 1}, [("send", 1, ["a"])])


class Feeders:
    """Some processes that share the handles of an input, under a seed."""

    def __init__(self, random: Random) -> None:
        self.said: list[list[InputCommand]] = [[] for _ in range(3)]
        self._random = random
        self._users: dict[int, tuple[int, int]] = {0: (0, 0)}
        self._made = 0
        for step in range(random.randrange(40)):
            if self._users:
                self._say(step)

    def _say(self, step: int) -> None:
        random = self._random
        handle = random.choice(sorted(self._users))
        feeder, time = self._users[handle]
        match random.choice(["send", "send", "advance", "clone", "close"]):
            case "send":
                self.said[feeder].append(send(str(step), handle))
            case "advance":
                self._users[handle] = feeder, time + 1
                self.said[feeder].append(advance(time + 1, handle))
            case "clone":
                self._made += 1
                self._users[self._made] = random.randrange(3), time + 1
                self.said[feeder].append(clone(self._made, handle, time + 1))
            case "close":
                del self._users[handle]
                self.said[feeder].append(close(handle))

    def arrivals(self) -> list[tuple[int, InputCommand]]:
        """Return what they have said as it arrives: what one says keeps its order."""
        left = {feeder: list(said) for feeder, said in enumerate(self.said) if said}
        arrived = []
        while left:
            feeder = self._random.choice(sorted(left))
            arrived.append((feeder, left[feeder].pop(0)))
            if not left[feeder]:
                del left[feeder]
        return arrived


class Input:
    """The operator of an input, as far as its mailbox goes."""

    def __init__(self, saved: SavedMailbox | None = None) -> None:
        self.mailbox = Mailbox(Intake())
        self.mailbox.begins_with(saved)
        self.ledger = TokenLedger()
        self.mailbox.open("numbers", TimestampToken(self.ledger, INTEGERS, 1, 0, PortOwner("numbers")))
        self.sent: Counter[tuple[Time, str]] = Counter()

    def run(self, most: int = 1000) -> None:
        """Do so many of the commands."""
        tokens = self.mailbox.tokens
        while self.mailbox and most:
            most -= 1
            command = self.mailbox.take()
            match command.action:
                case "send":
                    self.sent[tokens[command.handle].time, *command.batch] += 1
                case "advance":
                    tokens[command.handle].downgrade(command.time)
                case "clone":
                    tokens[command.handle] = tokens[command.origin].delayed(command.time)
                case "close":
                    tokens.pop(command.handle).discard()

    def part(self) -> MailboxPart:
        times = {handle: token.time for handle, token in self.mailbox.tokens.items()}
        return MailboxPart(times, [UndoneCommand(*undone) for undone in self.mailbox.undone()])


@given(st.integers(0, 2**32))
def test_an_input_goes_on_from_its_part_as_if_nothing_had_happened(seed: int) -> None:
    """Whatever it has done when the cut is made, what arrives late, and how often that happens."""
    random = Random(seed)
    arrivals = Feeders(random).arrivals()
    undisturbed = Input()
    for feeder, command in arrivals:
        undisturbed.mailbox.put(feeder, command)
    undisturbed.run()

    # A part has all that arrives up to the end of the cut, of each feeder up to where that was in the snapshot.
    disturbed, sent = Input(), Counter[tuple[Time, str]]()
    for feeder, command in arrivals:
        disturbed.mailbox.put(feeder, command)
        disturbed.run(random.randrange(2))
    for _ in range(3):
        disturbed.run(random.randrange(5))
        sent += disturbed.sent
        disturbed = Input(outcome_of(disturbed.part()))
    disturbed.run()
    assert sent + disturbed.sent == undisturbed.sent
    assert times(disturbed) == times(undisturbed)


def times(of: Input) -> dict[int, Time]:
    return {handle: token.time for handle, token in of.mailbox.tokens.items()}


@pytest.mark.parametrize(
    ("begins", "ends", "whole"), [(True, True, True), (True, False, False), (False, True, False), (False, False, False)]
)
def test_a_part_is_whole_if_all_keys_are_in_it(begins: bool, ends: bool, whole: bool) -> None:
    """Then it needs no part before it; without keys, none ever does."""
    part = WorkerPart(1, 0, 1)
    assert part.is_whole
    part.operators["count"] = OperatorPart(OperatorCut(keyed={"counts": KeyedCut(begins, ends, [], None, [])}), [])
    assert part.is_whole is whole


def positions(part: MailboxPart, *told: dict[int, InputPosition]) -> dict[int, InputPosition]:
    return positions_of(part, told)


def test_positions_are_those_of_whoever_uses_a_handle() -> None:
    """Of several that tell one, as two processes have unpickled it, the one that has sent by it."""
    part = MailboxPart({0: 1, 7: 4}, [])
    first, used, unused = InputPosition(1, 2, 2), InputPosition(4, 5, 9), InputPosition(4, 3, 3)
    assert positions(part, {0: first, 7: unused}, {7: used}) == {0: first, 7: used}


def test_a_handle_that_nobody_uses_yet_is_where_it_was_handed_over() -> None:
    """Its command may have been done, or be late; what was closed since is not there, whoever still tells it."""
    there, late = InputPosition(4, 3, 3, is_first=True), InputPosition(6, 1, 1)
    command = InputCommand("numbers", "clone", 6, late, handle=8, origin=7)
    part = MailboxPart({7: 4, 9: 2}, [UndoneCommand(-1, command), UndoneCommand(-1, close(9))], {7: there})
    assert positions(part, {9: InputPosition(2, 1, 1)}) == {7: there, 8: late}


def test_where_the_first_handle_was_closed_is_known_whoever_has_closed_it() -> None:
    """The driver knows where it has handed it over, and the last process where it has closed it."""
    handed, closed = InputPosition(4, 3, 3, is_closed=True), InputPosition(5, 8, 8, is_closed=True, is_first=True)
    command = InputCommand("numbers", "close", batch=closed, handle=7)
    for part in (MailboxPart({7: 5}, [UndoneCommand(-2, command)]), MailboxPart({}, [], {0: closed})):
        assert positions(part, {0: handed}) == {0: closed}
