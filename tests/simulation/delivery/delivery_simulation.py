"""One run of exactly-once delivery: a random tree, messages and trouble. At the end, everything has arrived."""

from functools import partial
from random import Random

from tests.kit.simulation.violation import ViolationError
from tests.simulation.delivery.filters import FILTERS
from tests.simulation.delivery.subscriber import ROOM_BYTES, Habits, SubendNode
from tests.simulation.delivery.world import CACHE_BYTES, HOUR_S, LOOK_S, RelayNode, World
from tests.simulation.network import Network, Weather
from tidewheel.pubsub.exactly_once.subend import Delivered, Order

TROUBLE_S = 3.0
PATIENCE_S = 60.0
LARGEST = 20
HUGE = 2 * ROOM_BYTES
STORM = 1500


def run_delivery(seed: int) -> World:
    """Run what a seed says; raise ViolationError if a subscriber has not had what it has to have."""
    random = Random(seed)
    weather = Weather(random.choice([0.0, 0.1, 0.5]), random.choice([0.0, 0.2]), random.choice([0.0, 0.2]))
    network = Network(random, weather)
    world = World(random, network, random.randint(1, 3))
    build(world, random)
    for subend in world.subends.values():
        latest_s = TROUBLE_S / 2 if subend.habits.is_durable else 2 * TROUBLE_S
        subend.begins_s = random.choice([0.0, random.random() * latest_s])
    world.look()
    world.largest = random.choice([LARGEST, LARGEST, HUGE])
    for number in range(random.randint(1, 60)):
        node = random.choice(world.pubends)
        records = [number, *(random.randrange(60) for _ in range(random.choice([0, 0, 2])))]
        message = b",".join(b"%02d" % record for record in records)
        message = message.zfill(random.randint(len(message), world.largest))
        network.at(random.random() * TROUBLE_S, partial(node.publish, message))
    trouble(world, random)
    network.run(TROUBLE_S)
    network.clear_up()
    while not (is_over := all_arrived(world) and all_trimmed(world)) and network.now_s < TROUBLE_S + PATIENCE_S:
        network.run(network.now_s + LOOK_S)
    check(world, is_over)
    return world


def build(world: World, random: Random) -> None:
    """Make up a tree of up to three levels."""
    parents: list[str | None] = [None]
    for _ in range(random.randint(0, 2)):
        parents += [world.add_relay(random.choice(parents)) for _ in range(random.randint(1, 2))]
    for _ in range(random.randint(1, 4)):
        where = random.choice(FILTERS)
        is_durable = random.random() < 0.7
        keeps_cursor = is_durable and random.random() < 0.5
        habits = Habits(keeps_cursor, random.random() < 0.3, random.random() < 0.3, is_durable)
        world.add_subend(random.choice(parents), where, random.choice(["publisher", "total"]), habits)


def trouble(world: World, random: Random) -> None:
    """Plan crashes, links that are cut, pubends that pause, clocks that step, and nodes that go to other parents."""
    network = world.network
    for _ in range(random.choice([0, 0, 1, 3])):
        node = random.choice(world.nodes)
        network.at(random.random() * TROUBLE_S, partial(world.crash, node, random.random()))
    for _ in range(random.choice([0, 0, 1])):  # which relays outlive
        network.at(random.random() * TROUBLE_S, partial(world.crash, random.choice(world.pubends), random.random()))
    for _ in range(random.choice([0, 0, 1, 3])):
        one, other = random.sample([node.name for node in world.nodes], 2)
        network.at(random.random() * TROUBLE_S, partial(network.cut, one, other, random.random()))
    for _ in range(random.choice([0, 0, 1])):
        network.at(random.random() * TROUBLE_S, partial(world.pause, random.choice(world.pubends), 2 * random.random()))
    for _ in range(random.choice([0, 0, 1, 3])):
        step = partial(random.choice(world.pubends).step_clock, random.choice([-HOUR_S, -1.0, 1.0, HOUR_S]))
        network.at(random.random() * TROUBLE_S, step)
    relays = list(world.relays)
    for _ in range(random.choice([0, 0, 1, 3])):
        movable: list[RelayNode | SubendNode] = [*world.relays.values(), *world.subends.values()]
        moving = random.choice(movable)
        above = relays[: relays.index(moving.name)] if moving.name in world.relays else relays
        network.at(random.random() * TROUBLE_S, partial(world.move, moving, random.choice([None, *above])))


def all_arrived(world: World) -> bool:
    """Tell whether every subscriber has had as much as it has to have."""
    return all(node.core is not None and not node.missing() for node in world.subends.values())


def all_trimmed(world: World) -> bool:
    """Tell whether the logs are empty, and memory as well."""
    return all(node.core is not None and not node.disk.messages for node in world.pubends)


def check(world: World, is_over: bool) -> None:
    """Raise ViolationError if something is wrong."""
    used = [tick for node in world.pubends for tick in node.disk.published]
    if len(used) > len(set(used)):
        raise ViolationError("ticks", f"pubends share ticks: {sorted(used)}")
    for node in world.subends.values():
        if not is_right(node):
            raise ViolationError(
                "delivered",
                f"{node.name} ({node.order} order, {node.habits}) has had {node.lives}, of which {node.had} "
                f"counts, and {node.missing()} is missing of {node.expected()}",
            )
        if node.most_waiting > world.pubends_count * max(ROOM_BYTES, world.largest):
            raise ViolationError("memory", f"{node.name} had {node.most_waiting} bytes waiting")
    asked = {node.name: node.nacks for node in world.pubends} | {r.name: r.nacks for r in world.relays.values()}
    if max(asked.values()) > STORM:
        raise ViolationError("storm", f"somebody was asked again and again: {asked}")
    for relay in world.relays.values():
        if relay.most_cached > world.pubends_count * CACHE_BYTES:
            raise ViolationError("memory", f"{relay.name} kept {relay.most_cached} bytes")
    if not is_over:
        raise ViolationError("trimmed", f"logs were not trimmed: {[node.disk.messages for node in world.pubends]}")


def is_right(node: SubendNode) -> bool:
    """Tell whether a subscriber has had what it has to have, in the order that it asked for, and once.

    In each of its lives; and over all of them, unless it has had again what it did not acknowledge.
    """
    expected = node.expected()
    orders = [*node.lives, node.had] if node.habits.keeps_cursor else node.lives
    if len(node.had) > len(set(node.had)) or node.missing():
        return False
    return all(in_order(had, [one for one in expected if one in set(had)], node.order) for had in orders)


def in_order(had: list[Delivered], expected: list[Delivered], order: Order) -> bool:
    """Tell whether something was had as it should be."""
    if order == "total":
        return had == expected
    by_pubend = [sorted(messages, key=lambda message: message.pubend) for messages in (had, expected)]
    return by_pubend[0] == by_pubend[1]
