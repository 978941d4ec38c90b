"""`Job.explain` in dataflows of every shape: nested loops, fused chains, topics, partial orders, many holders."""

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import DEADLINE_S, settle
from tests.kit.runtime.stuck_flows import deploy, every_spread, hoarding, reading, straight, words
from tests.laws.domains import BITEMPORAL, Bitemporal
from tidewheel.progress import SpreadName
from tidewheel.runtime.explaining.explanation import Holder


def nested(kept: list[tw.TimestampToken]) -> tw.Dataflow:
    """Return a loop in a loop whose inner body keeps a token each time; the probes are within and behind the loops."""

    def inner(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        held = numbers.unary(hoarding(kept), name="keep").map(lambda number: number - 1).probe("inner")
        return held.filter(lambda number: number % 2 == 1), held.filter(lambda number: number % 2 == 0)

    def outer(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        halved = numbers.iterate(inner, name="inside")
        return halved.filter(lambda number: number > 0), halved.filter(lambda number: number <= 0)

    flow = tw.Dataflow("nested")
    flow.input("numbers").iterate(outer, name="outside").probe("done").capture("results")
    return flow


@every_spread
def test_the_path_out_of_nested_loops(progress: SpreadName) -> None:
    """A leak two loops deep says in which round it is and what becomes of its time; later rounds wait for it."""
    kept: list[tw.TimestampToken] = []
    with deploy(nested(kept), 2, progress) as job:
        job.input("numbers").send([4])
        job.input("numbers").close()
        settle(job)
        times = [token.time for token in kept]
        assert len(times) > 3
        assert times[0] == ((0, 0), 0)
        for outside, time in [("done", 0), ("inner", ((0, 0), 0))]:
            explanation = job.explain(outside)
            assert list(explanation.frontier) == [time]
            first = explanation.holders[0]
            assert (first.time, first.arrives, first.operator) == (((0, 0), 0), time, "outside/inside/keep")
            assert "leaked" in first.advice
        done = job.explain("done")
        assert {holder.time for holder in done.holders} == set(times)
        assert all("waits for the above" in holder.what for holder in done.holders[1:])
        assert {holder.path.describe() for holder in done.holders} == {"((t, r), r2) becomes t"}
        assert all(f"in round {holder.time[1]} of its loop" in holder.what for holder in done.holders)
        assert done.holders[0].route[0] == "outside/inside/keep"
        assert done.holders[0].route[-1] == "leave"
        assert len(job.explain("inner").holders) == 1
        while kept:
            kept.pop().discard()
        job.wait(DEADLINE_S)


@every_spread
def test_a_token_before_a_loop_reaches_into_it(progress: SpreadName) -> None:
    """Seen from within a loop, what is before it arrives in round 0."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("before")
    held = flow.input("numbers").unary(hoarding(kept), name="leaky")
    held.iterate(lambda s: (s.probe("within").filter(lambda n: False), s), name="ring").probe("done")
    with deploy(flow, 2, progress) as job:
        job.input("numbers").advance_to(3)
        job.input("numbers").send([1])
        job.input("numbers").close()
        settle(job)
        explanation = job.explain("within")
        assert list(explanation.frontier) == [(3, 0)]
        [holder] = explanation.holders
        route = ("leaky", "ring/enter", "ring/concat")
        assert words(holder) == ("leaky", 3, (0,), route, "t becomes (t, 0)", (3, 0))
        kept.pop().discard()
        job.wait(DEADLINE_S)


@every_spread
def test_a_probe_in_the_middle_of_a_fused_chain(progress: SpreadName) -> None:
    """A chain runs as one, so a probe within it tells the same as one at its end, and so does its explanation."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("chain")
    held = flow.input("numbers").unary(hoarding(kept), name="leaky")
    held.map(str).probe("middle").filter(bool).map(len).probe("end").capture("results")
    with deploy(flow, 2, progress) as job:
        job.input("numbers").send([1])
        job.input("numbers").advance_to(2)
        settle(job)
        for name in ("middle", "end"):
            assert list(job.probe(name).frontier) == [0]
            explanation = job.explain(name)
            assert (explanation.name, list(explanation.frontier)) == (name, [0])
            holder = explanation.holders[0]
            assert words(holder) == ("leaky", 0, (0,), ("leaky", "map", "filter", "map-2"), "unchanged", 0)
        kept.pop().discard()
        settle(job)
        assert [list(job.explain(name).frontier) for name in ("middle", "end")] == [[2], [2]]
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert str(job.explain("middle")) == "'middle' is complete: nothing can arrive there any more"


@every_spread
def test_a_topic_is_explained_like_a_probe(progress: SpreadName) -> None:
    """Its frontier is that of what is published, and it is complete when that is."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("publishing")
    flow.input("numbers").unary(hoarding(kept), name="leaky").publish("news")
    with deploy(flow, 2, progress) as job:
        job.input("numbers").send([1])
        job.input("numbers").close()
        settle(job)
        [holder] = job.explain("news").holders
        assert words(holder) == ("leaky", 0, (0,), ("leaky", "publish news"), "unchanged", 0)
        with raises(tw.JobError):
            job.wait(DEADLINE_S)
        kept.pop().discard()
        job.wait(DEADLINE_S)
        assert str(job.explain("news")) == "'news' is complete: nothing can arrive there any more"


def test_of_a_probe_and_a_topic_of_one_name_the_probe_is_explained() -> None:
    """As the documentation says; here they differ, for the topic comes later."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("same")
    flow.input("numbers").probe("same").unary(hoarding(kept), name="leaky").publish("same")
    with deploy(flow, 1) as job:
        job.input("numbers").send([1])
        job.input("numbers").close()
        settle(job)
        assert len(job.explain("same").frontier) == 0
        kept.pop().discard()
        job.stop()


@every_spread
def test_each_element_of_a_frontier_has_a_holder(progress: SpreadName) -> None:
    """In a partial order a frontier may have several elements, each held back by somebody else."""
    early, late = Bitemporal(0, 5), Bitemporal(7, 0)
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("bitemporal", BITEMPORAL)
    first = flow.input("first").unary(hoarding(kept, lambda _: early), name="left")
    second = flow.input("second").unary(hoarding(kept, lambda _: late), name="right")
    first.concat(second).probe("done")
    with deploy(flow, 2, progress) as job:
        for name in ("first", "second"):
            job.input(name).send([1])
            job.input(name).close()
        settle(job)
        explanation = job.explain("done")
        assert set(explanation.frontier) == {early, late}
        assert {(holder.operator, holder.arrives) for holder in explanation.holders} == {
            ("left", early),
            ("right", late),
        }
        assert all("leaked" in holder.advice for holder in explanation.holders)
        kept.pop(0).discard()
        settle(job)
        assert [holder.operator for holder in job.explain("done").holders] == ["right"]
        kept.pop().discard()
        job.wait(DEADLINE_S)


def test_only_the_first_of_many_holders_are_shown() -> None:
    """The text stays readable; the field has all of them."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("many")
    streams = [flow.input(f"numbers {index}").unary(hoarding(kept), name=f"leaky {index}") for index in range(20)]
    streams[0].concat(*streams[1:]).probe("done")
    with deploy(flow, 1) as job:
        for index in range(20):
            job.input(f"numbers {index}").send([1])
            job.input(f"numbers {index}").close()
        settle(job)
        explanation = job.explain("done")
        assert len(explanation.holders) == 20
        lines = str(explanation).splitlines()
        assert [line for line in lines if line[0].isdigit()] == [
            f"{number}. {holder.what}" for number, holder in enumerate(explanation.holders[:8], 1)
        ]
        assert lines[-1] == "and 12 more like these"
        while kept:
            kept.pop().discard()
        job.stop()


def test_a_long_route_is_shortened_in_the_text_only() -> None:
    """From a far input the first and the last operators are shown, and how many lie between."""
    flow = tw.Dataflow("long")
    stream = flow.input("numbers")
    for _ in range(30):
        stream = stream.unary(reading(lambda worker: True), name="step")
    stream.probe("done")
    with deploy(flow, 1) as job:
        settle(job)
        [holder] = job.explain("done").holders
        assert holder.route == ("input numbers", "step", *(f"step-{number}" for number in range(2, 31)))
        assert "by input numbers > step > step-2 > 25 more > step-28 > step-29 > step-30 (time" in str(holder)
        job.stop()


def test_an_operator_behind_the_probe_holds_nothing_back() -> None:
    """What comes after a probe is not its business."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("behind")
    flow.input("numbers").map(str).probe("before").unary(hoarding(kept), name="leaky").probe("behind")
    with deploy(flow, 2) as job:
        job.input("numbers").send([1])
        job.input("numbers").advance_to(4)
        settle(job)
        assert list(job.explain("behind").frontier) == [0]
        explanation = job.explain("before")
        assert list(explanation.frontier) == [4]
        assert [holder.operator for holder in explanation.holders] == ["input numbers"]
        kept.pop().discard()
        job.stop()


def test_a_summary_that_advances_shows_in_the_path() -> None:
    """A token before a feedback of the outermost scope arrives an epoch later behind it."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("epochs")
    back = flow.feedback(advance=2)
    back.connect(flow.input("numbers").unary(hoarding(kept), name="leaky"))
    back.probe("later")
    with deploy(flow, 1) as job:
        job.input("numbers").send([1])
        job.input("numbers").close()
        settle(job)
        [holder] = job.explain("later").holders
        assert words(holder) == ("leaky", 0, (0,), ("leaky", "feedback"), "t becomes t + 2", 2)
        kept.pop().discard()
        job.stop()


def test_explaining_changes_nothing() -> None:
    """Whoever asks in the middle of a run gets the same results as who does not."""
    results = []
    for asks in (False, True):
        with deploy(straight(), 3) as job:
            for number in range(9):
                job.input("numbers").send([number])
                job.input("numbers").advance_to(number)
            job.input("numbers").close()
            while job.run_round():
                if asks:
                    job.explain("done")
                    job.statistics()
            results.append([(entry.time, entry.batch) for entry in job.captured("results")])
            job.stop()
    assert results[0] == results[1]


def test_a_holder_is_a_value() -> None:
    """Two explanations of the same moment are equal, holder by holder."""
    with deploy(straight()) as job:
        settle(job)
        first, second = job.explain("done"), job.explain("done")
        assert first == second
        assert isinstance(first.holders[0], Holder)
        job.stop()
