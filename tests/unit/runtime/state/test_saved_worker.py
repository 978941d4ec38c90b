"""The share of each worker in what others had; what cannot be shared out is refused."""

import pickle

import pytest

import tidewheel as tw
from tests.behaviour.runtime.test_snapshots import running_total
from tests.kit.messages import raises
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.messages.unread import Unread
from tidewheel.runtime.state.saved_worker import SavedOnWorker, SavedWorker, beginning


def saved(words: list[str]) -> SavedWorker:
    """Return what a worker had whose operator counts words, and has not received some."""
    counts = SavedOnWorker(keyed={"counts": [pickle.dumps([("a", 1)])]}, unread={0: [Unread(0, words, None)]})
    return SavedWorker(0, {"sum": counts})


@pytest.mark.parametrize("is_exchanged", [True, False])
def test_records_find_their_keys_or_are_refused(is_exchanged: bool) -> None:
    """What waits behind an exchange goes where its keys are now; elsewhere it stays, so keys may not move."""
    flow = tw.Dataflow("counting")
    words = flow.input("words")
    summed = (
        words.unary(running_total, exchange=str, name="sum") if is_exchanged else words.unary(running_total, name="sum")
    )
    summed.capture("counts")
    plan, had = description_of(flow).plan(), [saved(["a", "b", "c"])]
    assert beginning(1, plan, had, 0, 1).unread["sum"][0][0].batch == ["a", "b", "c"]
    if is_exchanged:
        shares = [beginning(1, plan, had, worker, 2).unread["sum"].get(0, []) for worker in range(2)]
        assert sorted(word for share in shares for message in share for word in message.batch) == ["a", "b", "c"]
    else:
        with raises(tw.errors.SnapshotError):
            beginning(1, plan, had, 0, 2)


def test_an_operator_may_not_lose_an_input_where_records_wait() -> None:
    """An input at which nothing waits may go."""
    flow = tw.Dataflow("joined")
    flow.input("words").unary(running_total, exchange=str, name="sum").capture("counts")
    plan, had = description_of(flow).plan(), saved([])
    had.operators["sum"].unread[1] = []
    assert beginning(1, plan, [had], 0, 1).unread["sum"] == {0: [Unread(0, [], None)]}
    had.operators["sum"].unread[1] = [Unread(0, ["a"], None)]
    with raises(tw.errors.SnapshotError):
        beginning(1, plan, [had], 0, 1)
