"""The inboxes that a gateway knows: looking for a job never stops what serves other clients."""

import threading
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.waiting import WITHIN_S
from tidewheel.gateway import GatewayError, Ingest, ingest
from tidewheel.gateway.errors import UnknownJob


def test_a_search_that_hangs_holds_up_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop asks for what is known, and forgets jobs that have ended, meanwhile."""
    begun, may_end = threading.Event(), threading.Event()

    def hang(name: str, *, timeout_s: float) -> Any:
        begun.set()
        may_end.wait(WITHIN_S)
        raise tw.JobError(f"no job {name!r} runs within {timeout_s:g} s")

    monkeypatch.setattr(ingest, "find", hang)
    found = Ingest(["fraud"])
    caught: list[BaseException] = []

    def search() -> None:
        try:
            found.find("fraud", "payments")
        except tw.JobError as error:
            caught.append(error)

    searching = threading.Thread(target=search)
    searching.start()
    assert begun.wait(WITHIN_S)
    done = threading.Event()

    def use() -> None:
        assert found.lanes("fraud", "payments") is None
        assert found.watch is found.watch
        found.close()
        done.set()

    threading.Thread(target=use, daemon=True).start()
    assert done.wait(WITHIN_S), "it waits for the search"
    may_end.set()
    searching.join(WITHIN_S)
    assert len(caught) == 1


def test_wrong_names_are_refused() -> None:
    """A gateway takes records for the jobs that it was told of, and needs one."""
    with raises(UnknownJob):
        Ingest(["fraud", "orders"]).find("other", "payments")
    wrong: list[Any] = [[], "fraud"]
    for jobs in wrong:
        with raises(GatewayError):
            Ingest(jobs)
