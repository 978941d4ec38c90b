"""Catalogs, the jobs that publish and those who watch, while catalogs die and jobs come and go."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.catalog_world import CatalogWorld
from tidewheel.pubsub.catalog.catalog import TopicEvent

SEEDS = st.integers(0, 2**32 - 1)


def check_lives(told: list[TopicEvent]) -> None:
    """Assert that under each name a topic comes, and goes before the next one comes."""
    for name in {event.topic for event in told}:
        events = [event for event in told if event.topic == name]
        assert events[0].event == "published"
        for before, after in pairwise(events):
            assert before.event != after.event
            assert after.event == "published" or before.registration == after.registration


@given(seed=SEEDS)
def test_a_catalog_knows_again_what_lives(seed: int) -> None:
    """In the end every job that lives is found under its name, or knows, rightly, that another one has taken that."""
    world = CatalogWorld(seed).run()
    found = world.found
    for job in world.living:
        name, registration = job.info.name, job.info.registration
        if found.get(name) == registration:
            assert job.registration.is_registered
        else:
            assert not job.registration.is_registered
            assert job.registration.refusal
            assert found[name] in {other.info.registration for other in world.living}


@given(seed=SEEDS)
def test_a_catalog_has_nothing_of_the_dead(seed: int) -> None:
    """What is found in the end belongs to a job that lives."""
    world = CatalogWorld(seed).run()
    assert set(world.found.values()) <= {job.info.registration for job in world.living}


@given(seed=SEEDS)
def test_who_watches_is_told_each_change_once(seed: int) -> None:
    """Of each name a topic comes, and goes before the next comes; what was told adds up to what there is in the end."""
    world = CatalogWorld(seed).run()
    for watcher in world.watchers:
        assert watcher.has_all_of(world.host)
        assert watcher.topics == world.found
        check_lives(watcher.told)
    for host in world.hosts:
        check_lives(host.told)
        assert [event.version for event in host.told] == list(range(1, len(host.told) + 1))


@given(seed=SEEDS)
def test_nobody_loses_a_name_to_a_catalog_that_lives(seed: int) -> None:
    """As long as the first catalog lives no name is taken, and nothing registered twice, though answers get lost."""
    world = CatalogWorld(seed, catalog_dies=0.0).run()
    assert all(job.registration.is_registered for job in world.living)
    published = [event.registration for event in world.host.told if event.event == "published"]
    assert sorted(published, key=int) == [job.info.registration for job in world.jobs]


def test_the_runs_are_about_something() -> None:
    """Over some seeds catalogs die, names are taken by others, jobs find their way back, and topics are not retold."""
    worlds = [CatalogWorld(seed).run() for seed in range(200)]
    assert sum(len(world.hosts) - 1 for world in worlds) > 400
    assert sum(bool(job.registration.refusal) for world in worlds for job in world.living) > 20
    relearned = [
        job for world in worlds if len(world.hosts) > 1 for job in world.living if job.registration.is_registered
    ]
    assert len(relearned) > 100
