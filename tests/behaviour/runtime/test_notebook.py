"""Jobs and what they answer, in a notebook."""

import tidewheel as tw


def test_an_explanation_shows_its_advice_in_bold() -> None:
    """What others have named stands there as text."""
    flow = tw.Dataflow("named")
    flow.input("<b>numbers</b>").probe("done")
    with tw.run(flow, engine="local") as job:
        shown = job.explain("done")._repr_html_()
    advice = [line for line in shown.splitlines() if line.startswith("<b>   -&gt; job.input(")]
    assert len(advice) == 1
    assert "<b>numbers" not in shown
    assert shown.count("<b>") == 1
