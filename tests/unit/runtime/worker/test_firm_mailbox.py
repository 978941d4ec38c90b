"""Ends that an operator has not looked at yet."""

from typing import Any

import tidewheel as tw
from tests.kit.runtime.worker_group import WorkerGroup
from tidewheel.runtime.messages.envelope import Envelope, InputCommand
from tidewheel.runtime.worker.firm_mailbox import WaitingEnds
from tidewheel.transport.socket_address import DRIVER


def test_ends_are_taken_in_the_order_in_which_they_came() -> None:
    """Also those of one key."""
    ends = WaitingEnds()
    ends.add(["a", "b"])
    ends.add(["a", "c"])
    taken = [ends.take() for _ in range(2)]
    assert "a" in ends
    assert "b" not in ends
    taken += [ends.take() for _ in range(len(ends))]
    assert taken == list("abac")
    assert not ends
    assert "a" not in ends


def test_an_operator_is_told_that_no_end_will_come_any_more() -> None:
    """Once nothing of its own substreams is left, whatever becomes of others; it is scheduled for that."""
    told: list[str] = []
    over: set[str] = set()

    def build(context: Any) -> Any:
        def schedule(input: Any) -> None:
            list(input)
            told.extend(input.ended)
            if input._running.ends.are_all:
                over.add(context.name)

        return schedule

    flow = tw.Dataflow("two")
    flow.operator([flow.input("words").substreams("words", key=str)], 0, build, bound="soft", name="watch")
    flow.operator([flow.input("others").substreams("others", key=str)], 0, build, bound="soft", name="other")
    group = WorkerGroup(flow, workers=1)
    group.send("words", ["a"])
    group.run()
    assert over == set()
    group.close("words")
    group.run()
    assert told == ["a"]
    assert over == {"watch"}
    group.close("others")
    group.run()
    assert over == {"watch", "other"}


def test_each_end_is_told_though_the_operator_looks_late() -> None:
    """A key ends, is used again and ends again before its operator looks: it is told twice, in order."""
    told: list[str] = []
    looks: list[bool] = []

    def build(context: Any) -> Any:
        def schedule(input: Any) -> None:
            if looks:
                told.extend(input.ended)

        return schedule

    flow = tw.Dataflow("late")
    flow.operator([flow.input("words").substreams("words", key=str)], 0, build, bound="soft", name="watch")
    group = WorkerGroup(flow, workers=1)
    for time, key in enumerate("aba"):
        group.advance("words", time)
        command = InputCommand("words", "end", None, [key])
        group._post(0, Envelope(DRIVER, 0, next(group._from_driver[0]), commands=[command]))
        group.run()
    assert told == []
    looks.append(True)
    group.close("words")
    group.run()
    assert told == ["a", "b", "a"]
