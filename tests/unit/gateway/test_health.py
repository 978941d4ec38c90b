"""The questions of a gateway to its cluster, by which it says whether it is ready."""

import asyncio
import threading

import pytest

from tests.waiting import WITHIN_S, eventually
from tidewheel.gateway.health import OneQuestion
from tidewheel.pubsub.errors import NoCluster


class Catalog:
    """A catalog that counts questions, and answers when it is told to."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.questions = 0
        self.answers = threading.Event()

    def __call__(self) -> list[str]:
        self.questions += 1
        assert self.answers.wait(WITHIN_S)
        if self.failure is not None:
            raise self.failure
        return []


def test_many_clients_are_one_question() -> None:
    """Clients without a token may come as often as they like."""
    catalog = Catalog()

    async def ask() -> list[str | None]:
        question = OneQuestion(catalog)
        asking = [asyncio.create_task(question.problem()) for _ in range(20)]
        await asyncio.sleep(0)
        catalog.answers.set()
        return [*await asyncio.gather(*asking), await question.problem()]

    assert asyncio.run(ask()) == [None] * 21
    assert catalog.questions == 1


def test_a_catalog_that_hangs_is_told() -> None:
    """A client does not wait longer than its time, and no further question is asked meanwhile."""
    catalog = Catalog(NoCluster("too late"))

    async def ask() -> list[str | None]:
        question = OneQuestion(catalog, within_s=0.0)
        return [await question.problem(), await question.problem()]

    said = asyncio.run(ask())
    assert eventually(lambda: catalog.questions > 0)
    catalog.answers.set()
    assert all(one is not None and "has not answered for 0 s" in one for one in said)
    assert catalog.questions == 1


@pytest.mark.parametrize("failure", [NoCluster("no Ray cluster runs"), ValueError("a bug")])
def test_the_reason_is_told(failure: Exception) -> None:
    """Of the product's own errors; others are bugs, which the gateway logs."""
    catalog = Catalog(failure)
    catalog.answers.set()
    if isinstance(failure, NoCluster):
        assert asyncio.run(OneQuestion(catalog).problem()) == "no Ray cluster runs"
    else:
        with pytest.raises(ValueError, match="a bug"):
            asyncio.run(OneQuestion(catalog).problem())
