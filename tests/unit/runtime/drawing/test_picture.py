"""Dataflows as pictures in a notebook: what `Dataflow._repr_html_` returns."""

import re
from collections import Counter
from time import process_time
from xml.etree import ElementTree

from hypothesis import given

import tidewheel as tw
from tests.kit.runtime.drawing.random_flow import WEIRD, flows
from tests.laws.strategies import law_settings
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.outline import describe_pact

SVG = "{http://www.w3.org/2000/svg}"


def titles(flow: tw.Dataflow) -> Counter[str]:
    """Return what operators and edges of the picture say when one points at them; it is well-formed XML."""
    picture = re.search(r"<svg.*</svg>", flow._repr_html_(), re.DOTALL)
    assert picture is not None
    root = ElementTree.fromstring(picture[0])
    return Counter("".join(title.itertext()) for title in root.findall(f"{SVG}g/{SVG}title"))


@law_settings(100)
@given(flows() | flows(*WEIRD))
def test_every_operator_and_every_edge_is_there_once(flow: tw.Dataflow) -> None:
    """Each says its name, an edge what it joins; an edge that is not connected is a note of its operator.

    Names with tags, quotes and signs that nobody can print are shown, and never read as HTML.
    """
    outline = description_of(flow).outline()
    expected = [operator.name for operator in outline.operators]
    for edge in outline.edges():
        if edge.source is not None:
            spread = f", {describe_pact(edge.pact)}" if edge.pact is not None else ""
            expected.append(f"{outline.output_name(edge.source)} → {outline.operators[edge.operator].name}{spread}")
    assert titles(flow) == Counter(name if name.isprintable() else repr(name)[1:-1] for name in expected)
    missing = sum(edge.source is None for edge in outline.edges())
    assert flow._repr_html_().count("not connected</text>") == missing


def test_it_needs_nothing_from_elsewhere() -> None:
    """No script, no style sheet, no address but the name of SVG itself: it shows without a network."""
    flow = tw.Dataflow("flow")
    flow.input("in").exchange("key").iterate(lambda s: (s.filter(bool), s.map(str))).probe("done").capture("out")
    text = flow._repr_html_()
    assert re.findall(r"\w+://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"<script|<style|<link|<image|@import|url\(|href", text)


def test_what_is_known_outside_and_how_records_are_spread_is_written_on_the_operator() -> None:
    """Under its name."""
    flow = tw.Dataflow("flow")
    flow.input("in").exchange("key").probe("done")
    text = flow._repr_html_()
    assert ">by &#x27;key&#x27;</text>" in text
    assert ">probe &#x27;done&#x27;</text>" in text


def test_a_dataflow_that_is_too_large_to_look_at_is_text() -> None:
    """Nobody reads a picture of thousands of operators; making it would take long."""
    flow = tw.Dataflow("flow")
    stream = flow.input("<in>")
    for _ in range(400):
        stream = stream.map(str)
    assert flow._repr_html_().startswith("<pre>dataflow &#x27;flow&#x27;\n  input &lt;in&gt;")


def test_the_largest_picture_takes_no_time() -> None:
    """A cell of a notebook that ends with it is there at once: 300 operators that all read the first take a second."""
    flow = tw.Dataflow("flow")
    first = stream = flow.input("in")
    for _ in range(298):
        stream = stream.concat(first)
    started = process_time()
    assert "<svg" in flow._repr_html_()
    assert process_time() - started < 20


def test_a_dataflow_shows_its_name_and_size() -> None:
    """In a terminal, where there is no picture."""
    flow = tw.Dataflow("shown")
    flow.input("numbers").map(str)
    assert repr(flow) == "<Dataflow 'shown' of 2 operators>"
