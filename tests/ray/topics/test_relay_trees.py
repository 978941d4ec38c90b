"""Relays below relays on a real Ray cluster: everybody has everything once, whichever of them is killed or hangs."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

import tidewheel as tw
from tests.ray.topics.test_relays import DEADLINE_S, children, expected, kill, publishing, read, send, stopped
from tests.waiting import eventually
from tidewheel.host.ray_cluster import node_id
from tidewheel.pubsub.errors import DeliveryError

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

LEFT_WITHIN_S = 30.0


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


@contextmanager
def chain(topic: str, depth: int) -> Iterator[list[tw.types.RelayHandle]]:
    """Relays below each other, the first of them below the publishers."""
    with ExitStack() as stack:
        relays: list[tw.types.RelayHandle] = []
        for _ in range(depth):
            parents = relays[-1] if relays else None
            relays.append(stack.enter_context(tw.relay(topic, [node_id()], parents=parents)))
        yield relays


@pytest.mark.long
@pytest.mark.parametrize("depth", [2, 3])
def test_a_chain_holds_though_each_relay_is_killed(topic: str, tmp_path: Path, depth: int) -> None:
    """One after the other; subscribers with and without a condition have everything once, in order."""
    with ExitStack() as stack:
        job = stack.enter_context(publishing(topic, tmp_path))
        relays = stack.enter_context(chain(topic, depth))
        numbers = stack.enter_context(job.input("numbers"))
        everything = stack.enter_context(tw.subscribe(topic))
        even = stack.enter_context(tw.subscribe(topic, where=lambda n: n % 2 == 0))
        assert eventually(lambda: [children(one) for one in relays] == [[1]] * (depth - 1) + [[2]], DEADLINE_S)
        for turn, relay in enumerate(relays):
            epochs = range(20 * turn, 20 * turn + 20)
            send(numbers, epochs[:10])
            kill(relay.actors[0])
            send(numbers, epochs[10:])
            assert read(everything, 20) == expected(epochs)
            assert read(even, 20) == [(at, [n for n in batch if n % 2 == 0]) for at, batch in expected(epochs)]


def has(relays: tw.types.RelayHandle, count: int) -> bool:
    """Tell whether at least so many relays answer."""
    return len(relays.statistics()) >= count


@pytest.mark.long
def test_relays_form_a_tree_by_themselves(topic: str, tmp_path: Path) -> None:
    """Where all relays have two children, the next subscribers get another one. Each may die like any relay."""
    with ExitStack() as stack:
        job = stack.enter_context(publishing(topic, tmp_path))
        relays = stack.enter_context(tw.relay(topic, [node_id()], max_children=2))
        numbers = stack.enter_context(job.input("numbers"))
        subscriptions: list[tw.types.Subscription] = []
        trees = []
        for count in (1, 2, 3, 4):
            assert eventually(partial(has, relays, count), DEADLINE_S), children(relays)
            subscriptions += [stack.enter_context(tw.subscribe(topic)) for _ in range(2)]
            trees.append(children(relays))
        assert trees == [[2], [3, 2], [4, 2, 2], [4, 3, 2, 2]]  # the fourth is below the second
        for turn in range(3):
            epochs = range(20 * turn, 20 * turn + 20)
            send(numbers, epochs[:10])
            kill(relays.actors[turn])
            send(numbers, epochs[10:])
            assert [read(one, 20) for one in subscriptions] == [expected(epochs)] * 8
            assert eventually(partial(has, relays, 4), DEADLINE_S)


@pytest.mark.long
def test_a_relay_above_that_hangs_is_left(topic: str, tmp_path: Path) -> None:
    """Within seconds, for the publishers; subscribers stay behind the lower relay."""
    with ExitStack() as stack:
        job = stack.enter_context(publishing(topic, tmp_path))
        upper, lower = stack.enter_context(chain(topic, 2))
        numbers = stack.enter_context(job.input("numbers"))
        subscription = stack.enter_context(tw.subscribe(topic))
        send(numbers, range(3))
        assert read(subscription, 3) == expected(range(3))
        with stopped(upper.actors[0]):
            send(numbers, range(3, 6))
            began_s = time.monotonic()
            assert read(subscription, 3) == expected(range(3, 6))
            assert time.monotonic() - began_s < LEFT_WITHIN_S
        assert children(lower) == [1]


@pytest.mark.long
def test_relays_above_that_are_closed_are_missed_by_nobody(
    topic: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Those below go on with the publishers. Closed relays, and those of another topic, are no parents.

    Ray has no objection to the arguments of relays: it could start them again.
    """
    with ExitStack() as stack:
        job = stack.enter_context(publishing(topic, tmp_path))
        upper, lower = stack.enter_context(chain(topic, 2))
        assert "constructor arguments" not in capfd.readouterr().err
        assert (upper.depth, lower.depth) == (0, 1)
        numbers = stack.enter_context(job.input("numbers"))
        subscription = stack.enter_context(tw.subscribe(topic, where=lambda n: n % 10 == 0))
        send(numbers, range(3))
        assert read(subscription, 3) == [(at, batch[:1]) for at, batch in expected(range(3))]
        upper.close()
        send(numbers, range(3, 6))
        assert read(subscription, 3) == [(at, batch[:1]) for at, batch in expected(range(3, 6))]
        assert children(lower) == [1]
        for most in (0, True, 1.5):
            with pytest.raises(DeliveryError, match="max_children is a number, at least 1, not"):
                tw.relay(topic, max_children=most)  # type: ignore[arg-type]
        for wrong in (upper, [lower]):
            with pytest.raises(DeliveryError, match=r"parents is what tw.relay\(.*\) has returned, with open relays"):
                tw.relay(topic, parents=wrong)  # type: ignore[arg-type]
