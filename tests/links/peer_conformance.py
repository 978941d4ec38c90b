"""The promises of every kind of link about peers in other processes that stand still, or die."""

import time
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.links.batch_kinds import same
from tests.links.link_kind import Arrivals, LinkKind, Reflection, letter, within
from tests.waiting import eventually
from tidewheel.transport.link import PeerLost
from tidewheel.transport.socket_address import DRIVER

MEGABYTE = 1 << 20
TOLD_WITHIN_S = 10.0

MAIN_PROGRAM = """
class Word:
    def __init__(self, text):
        self.text = text

    def shout(self):
        return self.text.upper() + mark

mark = "!"
"""


class PeerConformance:
    """The tests with a peer in a process of its own, which sends back what it gets."""

    kind: ClassVar[LinkKind]

    def test_classes_of_the_main_program_travel_along(self) -> None:
        """The driver sends them by value to a process that does not have them, and that sends them on."""
        main: dict[str, Any] = {"__name__": "__main__"}
        exec(MAIN_PROGRAM, main)
        with self.kind.reflection() as reflection:
            reflection.driver.send(1, letter(DRIVER, 0, [main["Word"]("ahoy"), main["Word"], lambda: 5]))
            [[word, class_, function]] = Arrivals(reflection.home.receiver).take(1).batches
        assert (word.shout(), type(word), function()) == ("AHOY!", class_, 5)

    def test_every_kind_of_batch_survives_there_and_back(self) -> None:
        """What arrived in another process can be sent on as it is."""
        batches = [make(5000) for make in self.kind.batches.values()]
        with self.kind.reflection() as reflection:
            reflection.driver.send(1, letter(DRIVER, 0, *batches))
            arrived = Arrivals(reflection.home.receiver).take(1).batches
        assert [name for name, *pair in zip(self.kind.batches, batches, arrived, strict=True) if not same(*pair)] == []

    def test_a_peer_that_stands_still_keeps_nobody_waiting(self) -> None:
        """More is sent than any buffer of the system holds; when the peer goes on, all arrives in order."""
        count = 128
        with self.kind.reflection() as reflection:
            reflection.pause()
            within(TOLD_WITHIN_S, lambda: send_megabytes(reflection, 0, count))
            reflection.home.sender.check()
            reflection.go_on()
            batches = Arrivals(reflection.home.receiver).take(count).batches
            assert [int(batch[-1]) for batch in batches] == list(range(count))

    def test_what_the_driver_sent_stays_as_it_was(self) -> None:
        """A program that fills its array anew after sending it does not change what is still on its way."""
        array, table = np.zeros(MEGABYTE, np.uint8), np.zeros(MEGABYTE)
        with self.kind.reflection() as reflection:
            reflection.pause()
            for sequence in range(8):
                array[:] = sequence
                reflection.driver.send(1, letter(DRIVER, sequence, array, [table]))
            table[:] = 99
            reflection.go_on()
            batches = Arrivals(reflection.home.receiver).take(8).batches
        assert [set(batch[:: 1 << 10].tolist()) for batch in batches[::2]] == [{sequence} for sequence in range(8)]
        assert [float(batch[0].max()) for batch in batches[1::2]] == [0.0] * 8

    def test_a_dead_peer_is_named(self) -> None:
        """Its process is killed: sending to it does not wait, and within 10 s it is said who is gone."""
        with self.kind.reflection() as reflection:
            sender = reflection.home.sender
            sender.send(1, letter(0, 0, ["alive"]))
            Arrivals(reflection.home.receiver).take(1)
            sender.check()
            reflection.kill()
            failures: list[PeerLost] = []

            def says_so() -> bool:
                try:
                    sender.check()
                    within(TOLD_WITHIN_S, lambda: sender.send(1, letter(0, 1, ["dead"])))
                except PeerLost as error:
                    failures.append(error)
                return bool(failures)

            assert eventually(says_so, TOLD_WITHIN_S)
            assert failures[0].worker == 1
            assert "worker 1" in str(failures[0])
            with pytest.raises(PeerLost, match="worker 1"):
                sender.check()
            assert_closes_quickly(reflection)

    def test_leaving_a_peer_that_stands_still(self) -> None:
        """Closing does not wait for what cannot be sent."""
        with self.kind.reflection() as reflection:
            reflection.pause()
            send_megabytes(reflection, 0, 64)
            assert_closes_quickly(reflection)


def send_megabytes(reflection: Reflection, first: int, count: int) -> None:
    for sequence in range(first, first + count):
        reflection.home.sender.send(1, letter(0, sequence, np.full(MEGABYTE, sequence, np.uint8)))


def assert_closes_quickly(reflection: Reflection) -> None:
    began_s = time.monotonic()
    within(TOLD_WITHIN_S, reflection.home.sender.close)
    within(TOLD_WITHIN_S, reflection.driver.close)
    reflection.home.receiver.close()
    assert time.monotonic() - began_s < 3
