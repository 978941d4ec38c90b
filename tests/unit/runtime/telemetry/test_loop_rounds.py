"""Tests of rounds of loops: those under way, and how many there were."""

from typing import Any

import tidewheel as tw
from tests.unit.runtime.telemetry.test_graph_numbers import looping
from tidewheel.progress import CompiledGraph
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.telemetry.graph_numbers import GraphNumbers
from tidewheel.runtime.telemetry.loop_rounds import LoopRounds


class Looks:
    """The rounds of a dataflow, by the nesting of times: location by depth."""

    def __init__(self, flow: tw.Dataflow) -> None:
        description = description_of(flow)
        plan, outline = description.plan(), description.outline()
        compiled = CompiledGraph(plan.graph())
        self.rounds = LoopRounds(compiled, outline, GraphNumbers(plan, outline))
        depths = [compiled.graph.nesting(at).depth for at in compiled.locations]
        self.at = {depth: depths.index(depth) for depth in set(depths)}

    def look(self, *stamps: tuple[int, Any]) -> dict[str, Any]:
        return self.rounds.look([(self.at[depth], time) for depth, time in stamps])


def test_the_latest_round_of_each_epoch_is_told() -> None:
    """The inner loop has an epoch and a round of the outer one before its own."""
    told = Looks(looping()).look((0, 9), (1, (4, 2)), (1, (4, 1)), (1, (5, 0)), (2, ((4, 1), 7)))
    assert told["outer"]["rounds"] == {"4": 2, "5": 0}
    assert told["outer/inner"]["rounds"] == {"(4, 1)": 7}
    assert (told["outer"]["epochs"], told["outer"]["ended"], told["outer"]["sampled"]) == (2, {}, True)


def test_an_epoch_that_is_gone_has_ended() -> None:
    """Its rounds are one more than the number of the last one, which was the greatest that was seen."""
    looks = Looks(looping())
    looks.look((1, (4, 3)), (1, (5, 1)))
    looks.look((1, (4, 2)), (1, (6, 0)))
    told = looks.look((1, (6, 1)))
    assert told["outer"]["ended"] == {"2": 1, "4": 1}
    assert looks.look()["outer"]["ended"] == {"2": 2, "4": 1}


def test_a_job_that_goes_back_ends_no_epoch() -> None:
    """What is gone then comes again."""
    looks = Looks(looping())
    looks.look((1, (4, 3)))
    looks.rounds.forget()
    assert looks.look()["outer"]["ended"] == {}


def test_without_loops_nothing_is_told() -> None:
    """And no pointstamp is looked at."""
    flow = tw.Dataflow("straight")
    flow.input("numbers").capture("numbers")
    assert Looks(flow).rounds.look(iter([(0, "no time")])) == {}


def test_a_loop_has_few_numbers_of_rounds_however_long_it_runs() -> None:
    """None of the counts ever falls, as Prometheus would take that for a new start."""
    looks, lengths = Looks(looping()), range(1, 6000, 7)
    before = (0, 0)
    for epoch, length in enumerate(lengths):
        told = looks.look((1, (epoch, length - 1)))["outer"]
        now = (sum(told["ended"].values()), told["taken"])
        assert now >= before
        assert now[1] >= before[1]
        before = now
    told = looks.look()["outer"]
    assert (sum(told["ended"].values()), told["taken"]) == (len(lengths), sum(lengths))
    assert len(told["ended"]) < 250
