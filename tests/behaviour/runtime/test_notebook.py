"""Jobs and what they answer, in a notebook."""

import sys
import types
from typing import Any

import pytest

import tidewheel as tw
from tests.waiting import eventually


def counting() -> tw.Dataflow:
    """Return a dataflow whose names a browser could mistake for tags."""
    flow = tw.Dataflow("<i>words</i>")
    flow.input("<b>lines</b>").flat_map(str.split).probe("done").capture("words")
    return flow


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the cell of a notebook has shown, one after the other; this process is its kernel."""
    outputs: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], *, raw: bool) -> None:
            assert raw
            outputs.append(data["text/html"])

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        assert display_id
        handle = Handle()
        handle.update(data, raw=raw)
        return handle

    notebook: Any = types.ModuleType("IPython")
    notebook.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    notebook.display = types.ModuleType("IPython.display")
    notebook.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook.display)
    return outputs


def test_an_explanation_shows_its_advice_in_bold() -> None:
    """What others have named stands there as text."""
    with tw.run(counting(), engine="local") as job:
        text = job.explain("done")._repr_html_()
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


def test_a_job_is_live_in_a_notebook(shown: list[str]) -> None:
    """Its picture changes while it runs, also as another thread runs it, and stays as it was at the end."""
    with tw.run(counting(), engine="local") as job:
        job._ipython_display_()
        assert len(shown) == 1
        lines = job.input("<b>lines</b>")
        lines.send(["a b"] * 1000)
        lines.advance_to(1)
        job.probe("done").wait_until(1, 10.0)
        assert eventually(lambda: "1.0k in, 2.0k out, at 1" in shown[-1])
        lines.close()
        job.wait(10.0)
        assert eventually(lambda: "is complete</div>" in shown[-1])
    count = len(shown)
    job._ipython_display_()
    assert len(shown) == count + 1
    assert "is complete</div>" in shown[-1]


def test_elsewhere_a_job_is_shown_as_text() -> None:
    """IPython falls back to that."""
    with tw.run(counting(), engine="local") as job, pytest.raises(NotImplementedError):
        job._ipython_display_()
