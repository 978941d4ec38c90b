"""The jobs of the page: found when a browser asks, followed while one looks, kept when they end."""

import asyncio
import math

import pytest

from tests.kit.gateway.paged import HandJobs
from tests.kit.messages import raises
from tests.kit.telemetry.documents import BEGAN_AT, document
from tests.waiting import eventually
from tidewheel.console.page.page_jobs import MOST_ENDED, PageJobs
from tidewheel.gateway.errors import TooManyClients, UnknownJob
from tidewheel.pubsub.errors import DeliveryError, NoCluster


def _state(pages: PageJobs, name: str) -> object:
    return pages.page(name).summary().get("state")


def test_a_job_is_followed_from_the_first_look_on() -> None:
    """Not before: a gateway that no browser looks at costs nothing."""
    jobs = HandJobs()
    jobs.put(document(name="a"), document(name="b"))
    pages = jobs.pages()
    assert jobs.readers == 0
    assert not pages.knows("a")
    assert {summary["name"] for summary in pages.look()} == {"a", "b"}
    assert eventually(lambda: _state(pages, "a") == _state(pages, "b") == "running")
    pages.look()
    assert jobs.readers == 2
    jobs.end("a")
    jobs.end("b")


def test_a_job_that_has_ended_stays() -> None:
    """With its last document, in the list and by its name."""
    jobs = HandJobs()
    jobs.put(document(name="a"))
    pages = jobs.pages()
    pages.look()
    jobs.put(document(name="a", state="complete", at=BEGAN_AT + 1))
    jobs.end("a")
    assert eventually(lambda: pages.page("a").shown.is_last)
    assert [summary["state"] for summary in pages.look()] == ["complete"]


def test_only_the_latest_jobs_that_have_ended_stay() -> None:
    """So a service with many jobs needs no more and more memory."""
    jobs = HandJobs()
    pages = jobs.pages()
    names = [f"job-{number}" for number in range(MOST_ENDED + 3)]
    for name in names:
        jobs.put(document(name=name, state="complete"))
        pages.look()
        jobs.end(name)
        assert eventually(lambda: jobs.readers == 0)
    assert eventually(lambda: len(pages.look()) == MOST_ENDED)
    assert not pages.knows(names[0])
    assert pages.knows(names[-1])


def test_a_job_that_was_lost_is_followed_again() -> None:
    """Once it is found again, as after a break of the network."""
    jobs = HandJobs()
    jobs.put(document(name="a"))
    pages = jobs.pages()
    pages.look()
    jobs.end("a", DeliveryError("the publisher is gone"))
    assert eventually(lambda: _state(pages, "a") == "lost")
    jobs.put(document(name="a"))
    pages.look()
    assert eventually(lambda: _state(pages, "a") == "running")
    jobs.end("a")


def test_an_error_that_nobody_expects_ends_the_page_of_its_job() -> None:
    """And the page says so: it would show the job as running for ever."""
    jobs = HandJobs()
    jobs.put(document(name="a"))
    pages = jobs.pages()
    pages.look()
    jobs.end("a", ValueError("no number"))
    assert eventually(lambda: _state(pages, "a") == "lost")


def test_a_cluster_that_has_gone_takes_no_page_with_it() -> None:
    """A program may start a cluster and end it; how its jobs ended stays to be seen. Without jobs there is an error."""
    jobs = HandJobs()
    is_there = [False]

    def find() -> list[str]:
        if not is_there[0]:
            raise NoCluster("no cluster")
        return ["a"]

    pages = PageJobs(find, jobs.read)
    with pytest.raises(NoCluster):
        pages.look()
    is_there[0] = True
    jobs.put(document(name="a", state="complete"))
    pages.look()
    jobs.end("a")
    assert eventually(lambda: pages.page("a").shown.is_last)
    is_there[0] = False
    assert [summary["state"] for summary in pages.look()] == ["complete"]
    assert list(pages.documents()) == ["a"]


def test_jobs_that_no_browser_looks_at_are_left() -> None:
    """After a while, which is none here, unless a browser listens."""

    async def leave() -> None:
        jobs = HandJobs()
        pages = PageJobs(lambda: ["a"], jobs.read, linger_s=0.0)
        pages.look()
        page = pages.page("a")
        with page.listening():
            jobs.put(document(name="a"), document(name="a", at=BEGAN_AT + 1))
            assert await asyncio.to_thread(eventually, lambda: page.shown.number == 2)
            assert pages.knows("a")
        jobs.put(document(name="a", at=BEGAN_AT + 2))
        assert await asyncio.to_thread(eventually, lambda: jobs.readers == 0)
        assert not pages.knows("a")

    asyncio.run(leave())


def test_an_unknown_job_is_told_with_those_that_there_are() -> None:
    """So that a slip of the pen is seen at once."""
    pages = PageJobs(list, HandJobs().read)
    with raises(UnknownJob):
        pages.page("a")


def test_browsers_are_limited() -> None:
    """Each needs a connection and a buffer."""

    async def look() -> None:
        jobs = HandJobs()
        jobs.put(document(name="a"))
        pages = jobs.pages(most=1, linger_s=math.inf)
        pages.look()
        pages.check_room()
        with pages.page("a").listening(), raises(TooManyClients):
            pages.check_room()
        pages.close()
        with raises(TooManyClients):
            pages.check_room()
        jobs.end("a")

    asyncio.run(look())


def test_a_job_that_ends_before_it_is_followed_leaves_nothing() -> None:
    """The list has no entry without a state."""
    jobs = HandJobs()
    jobs.put(document(name="a"))
    pages = PageJobs(jobs.find, lambda name: jobs.read("gone"))
    pages.look()
    jobs.end("gone", DeliveryError("there is no such topic"))
    assert eventually(lambda: not pages.knows("a"))
