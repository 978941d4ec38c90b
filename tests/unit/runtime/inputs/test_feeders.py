"""The other processes that feed a dataflow, as one worker knows them."""

import weakref
from collections.abc import Callable

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.runtime.inputs.feeders import Claim, Feeders
from tidewheel.runtime.messages.feeder_status import FeederName, FeederStatus
from tidewheel.runtime.messages.statistics import InputStatistics

SILENCE_S = 10.0


class World:
    """A clock, and actors that die when told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.deaths: dict[str, str] = {}
        self.feeders = Feeders(SILENCE_S, lambda: self.now, self._watch)

    def _watch(self, actor: str) -> Callable[[], str | None]:
        return lambda: self.deaths.get(actor)


@pytest.fixture
def world() -> World:
    return World()


def test_a_handle_belongs_to_whoever_claims_it_first(world: World) -> None:
    """Who has it may claim it again; others learn who has it."""
    first, second = FeederName(-2, "process 12"), FeederName(-3, "process 13")
    assert world.feeders.claim(7, first) == Claim()
    assert world.feeders.claim(7, second) == Claim("process 12")
    assert world.feeders.claim(7, first) == Claim()
    assert world.feeders.claim(8, second) == Claim()


class Actor:
    """Stands for the handle of an actor, a part of each name."""


def test_a_handle_stays_claimed_though_nothing_else_is_kept(world: World) -> None:
    """A feeder has one name, however many handles it had, and none once it has left; a late ticket is refused still."""
    kept = []
    for handle in range(3):
        actor = Actor()  # each claim unpickles a copy of its own
        kept.append(weakref.ref(actor))
        assert world.feeders.claim(handle, FeederName(-2, "process 12", actor)) == Claim()
        del actor
    assert [one() is not None for one in kept] == [True, False, False]
    world.feeders.hear(-2, FeederStatus(None, is_leaving=True))
    assert kept[0]() is None
    late = FeederName(-3, "process 13")
    assert world.feeders.claim(1, late) == Claim("a process that has left since")


def test_a_silent_feeder_fails_the_dataflow(world: World) -> None:
    """Signs of life keep it; the error says who it was, what it fed and for how long it was silent."""
    world.feeders.claim(7, FeederName(-2, "process 12"))
    for now in (9.0, 18.0, 27.0):
        world.now = now
        world.feeders.check()
        world.feeders.hear(-2, FeederStatus(None, {"numbers": InputStatistics(1, 10, 100, 0.5)}))
    for now in (32.0, 37.0):
        world.now = now
        world.feeders.check()
    world.now = 37.5
    with raises(tw.JobError):
        world.feeders.check()


def test_a_machine_that_slept_has_no_silent_feeders(world: World) -> None:
    """Nobody gave signs of life while everybody stood still."""
    world.feeders.claim(7, FeederName(-2, "process 12"))
    world.feeders.check()
    world.now = 8 * 3600.0
    world.feeders.check()
    world.now += 4.0
    world.feeders.check()
    world.now += 2.0
    with raises(tw.JobError):
        world.feeders.check()


def test_a_dead_actor_fails_the_dataflow_at_once(world: World) -> None:
    """With what Ray says of its death."""
    world.feeders.claim(7, FeederName(-2, "process 12", "actor A"))
    world.feeders.claim(8, FeederName(-3, "process 13", "actor B"))
    world.feeders.check()
    world.deaths["actor B"] = "out of memory"
    with raises(tw.JobError):
        world.feeders.check()


def test_a_broken_connection_fails_the_dataflow(world: World) -> None:
    """With the reason; of a process that feeds nothing, nothing is said."""
    world.feeders.claim(7, FeederName(-2, "process 12"))
    world.feeders.lose(-3, "its node is gone")
    with raises(tw.JobError):
        world.feeders.lose(-2, "its node is gone")


def test_a_handle_that_was_given_up_fails_the_dataflow(world: World) -> None:
    """The error has the reason that the feeder told."""
    world.feeders.claim(7, FeederName(-2, "process 12"))
    world.feeders.hear(-2, FeederStatus(None, given_up="input 'numbers': it was dropped"))
    with raises(tw.JobError):
        world.feeders.check()


def test_one_that_has_left_may_die(world: World) -> None:
    """It has closed its handles; what it sent still counts."""
    world.feeders.claim(7, FeederName(-2, "process 12", "actor A"))
    world.feeders.claim(8, FeederName(-3, "process 13"))
    world.feeders.hear(-3, FeederStatus(None, {"numbers": InputStatistics(1, 10, 100, 0.5)}))
    sent = {"numbers": InputStatistics(2, 20, 200, 0.25), "words": InputStatistics(1, 1, 1, 0.0)}
    world.feeders.hear(-2, FeederStatus(None, sent, is_leaving=True))
    world.feeders.hear(-2, FeederStatus(None, sent, is_leaving=True))
    world.feeders.hear(-2, FeederStatus(None, {"numbers": InputStatistics(9, 9, 9, 9.0)}))
    world.deaths["actor A"] = "killed"
    world.feeders.lose(-2, "the connection has broken")
    world.feeders.check()
    assert world.feeders.processes() == ("process 13",)
    assert world.feeders.statistics() == {
        "numbers": InputStatistics(3, 30, 300, 0.75),
        "words": InputStatistics(1, 1, 1, 0.0),
    }


def test_a_snapshot_has_the_feeders_that_are_there_when_it_begins(world: World) -> None:
    """Those that come later begin in it; those that have left are not waited for."""
    first, second = FeederName(-2, "process 12"), FeederName(-3, "process 13")
    assert world.feeders.claim(7, first).snapshot == 0
    assert world.feeders.begin_snapshot(1) == (-2,)
    assert world.feeders.claim(8, second).snapshot == 1
    assert world.feeders.begin_snapshot(2) == (-2, -3)
    world.feeders.hear(-2, FeederStatus(None, is_leaving=True))
    assert world.feeders.begin_snapshot(3) == (-3,)
