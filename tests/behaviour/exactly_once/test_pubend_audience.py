"""The actor around a pubend and those who read: coming, being waited for, being given up, and the end. No Ray."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.exactly_once.hosts import (
    Host,
    Reader,
    acknowledged,
    contents,
    everything,
    hosted,
    looks_of,
    published,
    read_all,
    told,
)
from tests.kit.exactly_once.partitions import DOMAIN, IDENTITY, Full, cursors, opened
from tests.kit.messages import raises
from tests.waiting import eventually
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.living_readers import LivingReaders
from tidewheel.pubsub.log import opening
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.messages.delivery_messages import Ack, Stranger
from tidewheel.pubsub.messages.frames import CODEC, Join
from tidewheel.pubsub.publishers import audience
from tidewheel.pubsub.publishers.durable_pubend import DurablePubend
from tidewheel.transport.change_signal import ChangeSignal
from tidewheel.transport.stream_link import ParentLink

RELAY = "relay/1"


class Relay:
    """A child that says of some readers that they are there."""

    def __init__(self, host: Host) -> None:
        self._link = ParentLink(CODEC, host.connection(RELAY))
        self._link.say([Join(RELAY, None)])

    def say(self, *readers: str) -> None:
        """Say it once."""
        self._link.say([Ack(0, dict.fromkeys(readers, ()))])

    def strangers(self) -> list[str]:
        """Return which readers it is told are strangers."""
        return [one.reader for one in told(self._link, Stranger)]

    def close(self) -> None:
        self._link.close()


# ---------------------------------------------------------------------- who has a subscription


def test_who_was_taken_over_from_is_told_at_once(tmp_path: Path) -> None:
    """It does not get it back, also after a restart; the other one goes on."""
    with hosted(tmp_path) as host:
        first = Reader(host, "billing", start=0)
        first.turn()
        assert eventually(lambda: host.call(host.actor.statistics())["children"] == 1)
        second = Reader(host, "billing")
        assert first.hear() == [Stranger(0, first.id)]
        for _ in range(2):
            with raises(DeliveryError):
                host.call(host.actor.subscribe("billing", first.id, 0, durable=True, again=True))
            host.restart()
        published(host, 3)
        read_all(second, host, 3)
        assert contents(second.events) == everything(range(3))
        first.close()
        second.close()


def test_a_last_word_is_durable_when_the_call_returns(tmp_path: Path) -> None:
    """What was acknowledged then does not come again, whatever happens next."""
    with hosted(tmp_path) as host:
        reader = Reader(host, "billing", start=0)
        published(host, 1)
        host.call(host.actor.unsubscribe(reader.id, ((0, 1 << 61),)))
        host.call(host.actor.unsubscribe("nobody", ((0, 5),)))
        assert cursors(host.actor._durable.core) == {"billing": ((0, 1 << 61),)}
        assert host.run(lambda: host.actor._durable.core.subscriptions.is_logged("billing"))
        reader.close()


def test_one_that_is_ended_tells_its_reader(tmp_path: Path) -> None:
    """At once, also behind a relay; and it is gone for good."""
    with hosted(tmp_path) as host:
        reader, relay = Reader(host, "billing", start=0), Relay(host)
        reader.turn()
        assert eventually(lambda: host.call(host.actor.statistics())["children"] == 2)
        assert host.call(host.actor.end_subscription("billing")) == ["billing"]
        assert reader.hear()[0] == Stranger(0, reader.id)
        host.call(host.actor.subscribe("away", "elsewhere", 0, durable=True))
        host.call(host.actor.end_subscription("away"))
        assert relay.strangers() == ["elsewhere"]
        relay.close()
        with raises(DeliveryError):
            host.call(host.actor.subscribe("billing", reader.id, 0, durable=True, again=True))
        reader.close()


def test_an_end_that_is_not_durable_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as there is no room for it, each time that is an error; then the subscription was there, and is not."""
    monkeypatch.setattr(audience, "NOTED_WITHIN_S", 0.05)
    monkeypatch.setattr("tidewheel.pubsub.log.reserve.RESERVE_BYTES", 0)  # as if other writers had taken it
    files = Full()

    async def end_again_and_again() -> None:
        loop, changed = asyncio.get_running_loop(), ChangeSignal()

        def later(call: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(call)
            loop.call_soon_threadsafe(changed.notify)

        core = DurablePubend(tmp_path, IDENTITY, DOMAIN, tell=lambda _: None, later=later, files=files)
        seats = audience.Audience("topic 'bills'", core, changed, LivingReaders(core.subscriptions.known, 10.0, 1000.0))
        await seats.subscribe("billing", "reader", 0, durable=True, again=False)
        room, files.room = files.room, 0
        for _ in range(2):
            with raises(LogError):
                await seats.end_durable("billing")
        files.room = room
        core.resume()
        assert await seats.end_durable("billing") == ["billing"]
        assert await seats.end_durable("billing") == []
        core.close()

    asyncio.run(end_again_and_again())
    with opened(tmp_path) as partition:
        assert not partition.core.subscriptions.durable_names


# ---------------------------------------------------------------------- who lives


def test_readers_are_waited_for(tmp_path: Path) -> None:
    """Each subscription counts once, from the call on, until its connection ends, or it leaves."""
    with hosted(tmp_path) as host:
        assert host.call(host.actor.wait_for_subscribers(1, 0.0)) == 0
        readers = [Reader(host, name, durable=False) for name in "abc"]
        assert host.call(host.actor.wait_for_subscribers(3, 0.0)) == 3
        for reader in readers:
            reader.turn()
        assert eventually(lambda: host.call(host.actor.statistics())["children"] == 3)
        assert eventually(lambda: host.call(host.actor.wait_for_subscribers(3, 0.0)) == 3)
        readers[0].close()
        assert eventually(lambda: host.call(host.actor.statistics())["subscribers"] == 2)
        host.call(host.actor.unsubscribe(readers[1].id))
        assert host.call(host.actor.wait_for_subscribers(2, 0.0)) == 1
        statistics = host.call(host.actor.statistics())
        assert (statistics["subscriptions"], statistics["durable_subscriptions"]) == (2, 0)
        for reader in readers:
            reader.close()


def test_a_reader_that_comes_and_goes_at_once_does_not_count(tmp_path: Path) -> None:
    """Also if its connection begins and ends between two looks of the publisher."""
    with hosted(tmp_path) as host:
        for _ in range(4):
            reader = Reader(host, "a", durable=False)
            reader.connect()
            assert eventually(lambda: host.run(lambda: bool(host.actor._durable.connections.children.names)))
            reader.close()
            assert eventually(lambda: host.call(host.actor.statistics())["subscribers"] == 0)


def test_readers_behind_a_relay_live_while_it_says_so(tmp_path: Path) -> None:
    """Of which nothing is heard for too long ends, and the relay is told; a durable one stays."""
    with hosted(tmp_path, lease_s=0.5) as host:
        relay = Relay(host)
        assert eventually(lambda: host.call(host.actor.statistics())["children"] == 1)
        for name in ("said", "silent"):
            host.call(host.actor.subscribe(name, f"p/{name}/1"))
        host.call(host.actor.subscribe("billing", "p/billing/1", durable=True))

        def has_ended() -> bool:
            relay.say("p/said/1")
            return "silent" not in host.run(lambda: list(host.actor._durable.core.subscriptions.known))

        assert eventually(has_ended)
        assert host.run(lambda: list(host.actor._durable.core.subscriptions.known)) == ["said", "billing"]
        assert relay.strangers() == ["p/silent/1"]
        assert host.call(host.actor.statistics())["subscribers"] == 1
        relay.say("p/silent/1", "p/said/1", "p/billing/1")
        assert relay.strangers() == ["p/silent/1"]
        assert host.call(host.actor.wait_for_subscribers(2, 5.0)) == 2
        relay.close()


@pytest.mark.parametrize("is_in_memory", [False, True])
def test_nothing_is_forgotten_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_in_memory: bool
) -> None:
    """Who was connected before a restart may come back: one that is not durable says where it was, and goes on."""
    monkeypatch.setattr(opening, "is_in_memory", lambda _: is_in_memory)
    with hosted(tmp_path, segment_bytes=200) as host:
        live = Reader(host, "live", start=0, durable=False)
        durable = Reader(host, "billing", start=0)
        published(host, 3)
        host.restart()
        durable.read(lambda events: len(contents(events)) == 6)
        assert len(host.actor._durable.core.log.segments()) > 1
        durable.read(lambda _: bool(host.call(acknowledged(host, "billing"))))
        looks = looks_of(host)
        assert eventually(lambda: looks() > 3)
        assert host.actor._durable.core._pubend.first_tick == 0
        begun = host.call(host.actor.subscribe("live", live.id, 0, again=True))
        assert begun.lost_end == 0
        live.read(lambda events: len(contents(events)) == 6)
        host.actor._durable.audience.grace_s = 0.0
        core = host.actor._durable.core
        live.read(lambda _: core._pubend.first_tick > core.written_tick)
        durable.read(lambda _: len(core.log.segments()) == 1)  # it goes on to acknowledge what the log then notes
        live.close()
        durable.close()


def test_a_new_log_on_a_disk_without_room_forgets_from_the_start(tmp_path: Path) -> None:
    """Nobody was connected before. While there is room, readers may begin at the earliest message for a minute."""

    async def may_forget() -> list[bool]:
        core = DurablePubend(tmp_path, IDENTITY, DOMAIN, tell=lambda _: None, later=lambda call: call())
        seats = audience.Audience("topic 'bills'", core, ChangeSignal(), LivingReaders({}, 10.0, 1000.0))
        seats.expect_nobody()
        found = [seats.may_forget]
        seats.is_disk_short = True
        found.append(seats.may_forget)
        core.close()
        return found

    assert asyncio.run(may_forget()) == [False, True]


def test_a_name_that_nobody_reads_is_warned_of_and_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Then it holds nothing; and if it comes back, it is told what it has missed, also after a restart."""
    with hosted(tmp_path, lease_s=0.2, retention_s=1.0, segment_bytes=500) as host:
        host.call(host.actor.subscribe("billing", "p/billing/1", 0, durable=True))
        host.call(host.actor.unsubscribe("p/billing/1"))
        reader = Reader(host, "other", start=0)
        published(host, 20)
        before = host.call(host.actor.statistics())["log_bytes"]
        reader.read(lambda _: "and it keeps about" in caplog.text)
        [warning] = [one.getMessage() for one in caplog.records if "nobody has read" in one.getMessage()]
        assert "topic 'topic', partition 0: nobody has read subscription 'billing' for" in warning
        reader.read(lambda _: "its messages are kept no more" in caplog.text)
        reader.read(lambda _: host.call(host.actor.statistics())["log_bytes"] < before / 2)
        host.restart()
        begun = host.call(host.actor.subscribe("billing", "p/billing/2", durable=True))
        assert begun.lost_end > 0
        reader.close()
