"""Jobs and what they answer, in a notebook."""

import json
import pickle
import sys
from collections.abc import Iterator

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.notebook.kernel import Kernel, events, feeds, kernel, wire
from tests.waiting import eventually
from tidewheel.console.notebook.live_widget import LiveWidget
from tidewheel.pubsub.catalog.catalog import TELEMETRY
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG


def counting() -> tw.Dataflow:
    """Return a dataflow whose names a browser could mistake for tags."""
    flow = tw.Dataflow("<i>words</i>")
    flow.input("<b>lines</b>").flat_map(str.split).probe("done").capture("words")
    return flow


@pytest.fixture
def cell() -> Iterator[Kernel]:
    """The cell of a notebook where anywidget is installed."""
    with kernel() as made:
        yield made


@pytest.fixture
def bare(cell: Kernel, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The outputs of a cell where it is not."""
    for name in ("job_widget", "live_widget"):
        monkeypatch.delitem(sys.modules, f"tidewheel.console.notebook.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    return cell.outputs


def listeners(job: tw.types.Job) -> int:
    """Return how many listen to the telemetry of a job."""
    return sum(
        info.partitions[0].publisher.subscribers for info in [LOCAL_CATALOG.lookup(f"{TELEMETRY}{job.name}")] if info
    )


def has_ended(view: LiveWidget) -> bool:
    """Return whether the browser was told that nothing more comes."""
    return [name for _, name, _ in events(view)][-1:] == ["end"]


def test_an_explanation_shows_its_advice_in_bold() -> None:
    """What others have named stands there as text."""
    with tw.run(counting(), engine="local") as job:
        text = job.explain("done")._repr_html_()
        job.stop()
    advice = [line for line in text.splitlines() if line.startswith("<b>   -&gt; job.input(")]
    assert len(advice) == 1
    assert "<b>lines" not in text
    assert text.count("<b>") == 1


def test_a_job_shows_what_its_operators_have_done() -> None:
    """Its state, and the last figures once it has ended."""
    with tw.run(counting(), engine="local") as job:
        with job.input("<b>lines</b>") as lines:
            lines.send(["a b"] * 1000)
        assert "is running</div>" in job._repr_html_()
        job.wait(10.0)
        text = job._repr_html_()
        assert "is complete</div>" in text
        assert "1.0k in, 2.0k out, ended" in text
        assert "<i>" not in text
        assert "<b>" not in text
    assert "1.0k in, 2.0k out, ended" in job._repr_html_()


def test_a_job_is_live_in_a_notebook(cell: Kernel) -> None:
    """Its view is a subscriber of its telemetry; when the cell's output is closed there is none."""
    with tw.run(counting(), engine="local") as job:
        job._ipython_display_()
        [view] = cell.widgets
        assert cell.outputs == []
        assert (view.kind, view.name, view.chosen) == ("job", job.name, ["none", ""])
        assert eventually(lambda: len(events(view)) >= 1)
        wire(view).hear({"here": "a", "whole": True})
        assert listeners(job) == 1
        with job.input("<b>lines</b>") as lines:
            lines.send(["a b"] * 1000)
        job.wait(10.0)
        assert eventually(lambda: '"state":"complete"' in events(view)[-1][2])
        wire(view).hear({"leave": "a"})
        assert eventually(lambda: not feeds() and not listeners(job))


def test_the_view_tells_the_end_of_a_job(cell: Kernel) -> None:
    """With its error, also while the cell still runs; nothing is left after it."""
    flow = tw.Dataflow("failing")
    flow.input("numbers", int).map(lambda number: 1 // number).capture("out")
    job = tw.run(flow, engine="local")
    job._ipython_display_()
    with job.input("numbers") as numbers:
        numbers.send([0])
    with pytest.raises(tw.JobError):
        job.wait(10.0)
    [view] = cell.widgets
    assert eventually(lambda: has_ended(view))
    assert "ZeroDivisionError" in events(view)[-2][2]
    assert eventually(lambda: not feeds())


def test_an_explanation_is_live_in_a_notebook(cell: Kernel) -> None:
    """It is a brief view of the job in which the probe is chosen; the object itself stays as it is."""
    with tw.run(counting(), engine="local") as job:
        told = job.explain("done")
        told._ipython_display_()
        [view] = cell.widgets
        assert (view.name, view.chosen) == (job.name, ["probe", "done"])
        assert "show_live" not in repr(told)
        again = pickle.loads(pickle.dumps(told))
        assert (again.name, str(again)) == ("done", str(told))
        job.stop()
    with pytest.raises(NotImplementedError):
        told._ipython_display_()


def test_without_anywidget_a_job_is_a_picture_with_a_hint(bare: list[str]) -> None:
    """It changes while the job runs, also as another thread runs it, and stays as it was at the end."""
    with tw.run(counting(), engine="local") as job:
        job._ipython_display_()
        assert len(bare) == 1
        assert "'tidewheel[notebook]'" in bare[0]
        lines = job.input("<b>lines</b>")
        lines.send(["a b"] * 1000)
        lines.advance_to(1)
        job.probe("done").wait_until(1, 10.0)
        assert eventually(lambda: "1.0k in, 2.0k out, at 1" in bare[-1])
        with pytest.raises(NotImplementedError):
            job.explain("done")._ipython_display_()
        lines.close()
        job.wait(10.0)
        assert eventually(lambda: "is complete</div>" in bare[-1])
    count = len(bare)
    job._ipython_display_()
    assert len(bare) == count + 1
    assert "is complete</div>" in bare[-1]


def test_a_job_that_has_ended_is_a_picture(cell: Kernel) -> None:
    """Nothing of it changes any more."""
    with tw.run(counting(), engine="local") as job:
        job.input("<b>lines</b>").close()
        job.wait(10.0)
    job._ipython_display_()
    assert cell.widgets == []
    assert "is complete</div>" in cell.outputs[-1]
    assert "notebook" not in cell.outputs[-1]


def test_a_chart_shows_a_topic(cell: Kernel) -> None:
    """A point for each epoch; the job of this process runs as the chart reads from it."""
    flow = tw.Dataflow("prices")
    flow.input("prices").publish("prices in a chart")
    with tw.run(flow, engine="local") as job:
        topic = tw.subscribe("prices in a chart")
        cell.widgets.append(view := topic.plot("price", max_epochs=3))
        assert (view.kind, view.name, view.label, view.most) == ("plot", "Topic prices in a chart", "mean of price", 3)
        with job.input("prices") as prices:
            for epoch in range(5):
                prices.send([{"price": epoch}, {"price": epoch + 1}])
                prices.advance_to(epoch + 1)
            assert eventually(lambda: events(view)[-1:] != [] and "[4,4.5]" in events(view)[-1][2])
        assert eventually(lambda: has_ended(view))
        assert json.loads(events(view)[-2][2]) == {"points": [[2, 2.5], [3, 3.5], [4, 4.5]]}
        job.stop()
    assert eventually(lambda: not feeds())


def test_a_chart_of_what_is_no_number_says_so(cell: Kernel) -> None:
    """The view has the error, and the subscription is closed."""
    flow = tw.Dataflow("cities")
    flow.input("cities").publish("cities in a chart")
    with tw.run(flow, engine="local") as job:
        topic = tw.subscribe("cities in a chart")
        cell.widgets.append(view := topic.plot("city"))
        with job.input("cities") as cities:
            cities.send([{"city": "Oslo"}])
        assert eventually(lambda: has_ended(view))
        assert "column 'city' has 'Oslo', which is no number" in events(view)[-2][2]
        assert list(topic) == []
        job.stop()


def test_a_chart_that_is_closed_leaves_its_topic(cell: Kernel) -> None:
    """Though the job goes on."""
    flow = tw.Dataflow("idle")
    flow.input("numbers", int).publish("numbers in a chart")
    with tw.run(flow, engine="local") as job:
        topic = tw.subscribe("numbers in a chart")
        cell.widgets.append(view := topic.plot(len))
        wire(view).hear({"here": "a", "whole": True})
        wire(view).hear({"leave": "a"})
        assert eventually(lambda: not feeds())
        with raises(tw.DeliveryError):
            list(topic)
        job.input("numbers").close()


def test_elsewhere_a_job_is_shown_as_text() -> None:
    """IPython falls back to that."""
    with tw.run(counting(), engine="local") as job:
        with pytest.raises(NotImplementedError):
            job._ipython_display_()
        job.stop()
