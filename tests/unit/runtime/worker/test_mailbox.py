"""The mailbox of an input: what comes before its handle waits, and each feeder's own order is kept."""

from random import Random
from typing import Any

import pytest

from tidewheel.runtime.worker.envelope import InputCommand
from tidewheel.runtime.worker.flow_control import Intake
from tidewheel.runtime.worker.mailbox import Mailbox


def send(handle: int, batch: Any, size: int = 0) -> InputCommand:
    return InputCommand("numbers", "send", 0, batch, size, handle)


def clone(handle: int, origin: int) -> InputCommand:
    return InputCommand("numbers", "clone", 0, handle=handle, origin=origin)


def close(handle: int) -> InputCommand:
    return InputCommand("numbers", "close", handle=handle)


def taken(mailbox: Mailbox) -> list[InputCommand]:
    found = []
    while mailbox:
        found.append(mailbox.take())
    return found


def test_commands_of_a_handle_wait_until_it_is_made() -> None:
    """Also those of handles that are made from one that is not there yet."""
    mailbox = Mailbox(Intake())
    early = [send(5, "a"), clone(6, 5), send(6, "b"), close(6), close(5)]
    for one in early:
        mailbox.put(-2, one)
    assert not mailbox
    mailbox.put(-1, clone(5, 0))
    mailbox.put(-1, close(0))
    assert taken(mailbox) == [clone(5, 0), *early, close(0)]


def test_what_a_feeder_sends_keeps_its_order() -> None:
    """Also by several handles: the end of a substream by one of them stays behind its records by another."""
    mailbox = Mailbox(Intake())
    end = InputCommand("numbers", "end", 0, ["k"], handle=2)
    for one in (clone(2, 1), send(1, "k"), end):
        mailbox.put(-2, one)
    mailbox.put(-3, send(2, "other"))
    mailbox.put(-1, clone(1, 0))
    assert taken(mailbox) == [clone(1, 0), clone(2, 1), send(1, "k"), end, send(2, "other")]


def test_what_is_taken_counts_for_its_feeder() -> None:
    """When it is taken, and not before."""
    intake = Intake()
    mailbox = Mailbox(intake)
    mailbox.put(-7, send(3, "a", 10))
    mailbox.put(-1, send(0, "b", 5))
    mailbox.put(-1, clone(3, 0))
    assert mailbox.next_sends
    mailbox.take()
    assert (intake.taken.get(-1), intake.taken.get(-7), intake.total, mailbox.next_sends) == (5, None, 5, False)
    taken(mailbox)
    assert (intake.taken.get(-1), intake.taken.get(-7), intake.total) == (5, 10, 15)


def conversation(random: Random) -> tuple[list[list[InputCommand]], dict[int, list[Any]]]:
    """Return what each feeder says in turn, and what is sent by each handle."""
    feeders: list[list[InputCommand]] = [[] for _ in range(4)]
    owner = {0: 0}
    expected: dict[int, list[Any]] = {0: []}
    made = 0
    for step in range(60):
        if not owner:
            break
        handle = random.choice(sorted(owner))
        feeder = owner[handle]
        kind = random.choice(["send", "send", "clone", "hand over", "close"])
        if kind == "send":
            feeders[feeder].append(send(handle, step))
            expected[handle].append(step)
            continue
        if kind in {"clone", "hand over"}:
            made += 1
            feeders[feeder].append(clone(made, handle))
            owner[made] = feeder if kind == "clone" else random.randrange(len(feeders))
            expected[made] = []
        if kind in {"close", "hand over"}:
            feeders[feeder].append(close(handle))
            del owner[handle]
    return feeders, expected


@pytest.mark.parametrize("seed", range(200))
def test_any_order_between_feeders_makes_sense(seed: int) -> None:
    """Handles are made, handed from feeder to feeder, used and closed; each feeder's own order is kept, no more.

    Whatever the order in which the feeders' commands come, each handle is made before it is used, from one that is
    there, what is done with it keeps its order, and it is closed last.
    """
    random = Random(seed)
    feeders, expected = conversation(random)
    mailbox = Mailbox(Intake())
    left = [list(commands) for commands in feeders]
    got: dict[int, list[Any]] = {0: []}
    closed: set[int] = set()
    while any(left) or mailbox:
        number = random.randrange(len(left))
        if left[number]:
            mailbox.put(-1 - number, left[number].pop(0))
        elif mailbox:
            command = mailbox.take()
            user = command.origin if command.action == "clone" else command.handle
            assert user in got, "it is used before it is made"
            assert user not in closed, "it is used after it was closed"
            if command.action == "clone":
                got[command.handle] = []
            elif command.action == "close":
                closed.add(command.handle)
            else:
                got[command.handle].append(command.batch)
    assert got == expected
