"""Dataflows for Mermaid: what `Dataflow.to_mermaid` returns."""

import html
import re
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given

import tidewheel as tw
from tests.kit.runtime.drawing.random_flow import WEIRD, flows
from tests.laws.strategies import law_settings
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.drawing.mermaid import escaped

_LABEL = r'"([^"\[\]<>{}|`\\]*)"'
_NODE = re.compile(rf"([nuf][\d_]+)(\(\[|\[\[|\[|\(\(|>){_LABEL}(?:\]\)|\]\]|\]|\)\))")
_EDGE = re.compile(rf"([nuf][\d_]+) (-->|==>|-\.->|-\.-)(?:\|{_LABEL}\|)? ([nuf][\d_]+)")
_BOX = re.compile(rf"subgraph (s\d+)\[{_LABEL}\]")


@dataclass
class Chart:
    """What a flowchart says: nodes with the boxes around them, and edges."""

    nodes: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    edges: list[tuple[str, str, str]] = field(default_factory=list)


def read(text: str) -> Chart:
    """Read a flowchart; it has no line but nodes, edges and boxes, and no node or box twice."""
    title, *lines = text.split("\n")
    assert title == "flowchart TD"
    chart, seen = Chart(), set()
    boxes: list[tuple[str, str]] = []
    for line in map(str.strip, lines):
        if node := _NODE.fullmatch(line):
            assert node[1] not in chart.nodes
            chart.nodes[node[1]] = (label(node[3]), tuple(name for _, name in boxes))
        elif edge := _EDGE.fullmatch(line):
            chart.edges.append((edge[1], edge[2], edge[4]))
        elif box := _BOX.fullmatch(line):
            assert box[1] not in seen
            seen.add(box[1])
            boxes.append((box[1], label(box[2])))
        else:
            assert line == "end"
            boxes.pop()
    assert not boxes
    return chart


def label(text: str) -> str:
    """Return what Mermaid shows of a label: it makes entities of the numbers."""
    return html.unescape(re.sub(r"#(\d+);", r"&#\1;", text))


@law_settings(200)
@given(flows())
def test_every_operator_and_every_edge_is_there_once(flow: tw.Dataflow) -> None:
    """Operators stand in the boxes of their scopes; exchanges are thick, what goes back or is missing dotted."""
    outline = description_of(flow).outline()
    chart = read(flow.to_mermaid())
    for index, operator in enumerate(outline.operators):
        scopes: list[str] = []
        scope = operator.scope
        while scope.parent is not None:
            scopes.insert(0, scope.name)
            scope = scope.parent
        assert chart.nodes[f"n{index}"] == (operator.short_name, tuple(scopes))
    assert len([name for name in chart.nodes if name.startswith("n")]) == len(outline.operators)
    expected: Counter[tuple[str, str, str]] = Counter()
    for edge in outline.edges():
        if edge.source is None:
            expected[f"u{edge.operator}_{edge.port}", "-.->", f"n{edge.operator}"] += 1
        else:
            arrow = "-.->" if edge.goes_back else "==>" if edge.pact is not None else "-->"
            expected[f"n{edge.source.operator}", arrow, f"n{edge.operator}"] += 1
    for index, operator in enumerate(outline.operators):
        expected.update((f"n{index}", "-.-", f"f{index}_{number}") for number in range(len(operator.marks)))
    assert Counter(chart.edges) == expected
    assert {end for start, _, last in chart.edges for end in (start, last)} <= set(chart.nodes)


@law_settings(200)
@given(flows(*WEIRD))
def test_no_name_is_read_as_something_else(flow: tw.Dataflow) -> None:
    """Quotes, brackets, comments and entities in names are neither lost nor taken for Mermaid's or HTML's."""
    chart = read(flow.to_mermaid())
    for index, operator in enumerate(description_of(flow).outline().operators):
        name = operator.short_name
        assert chart.nodes[f"n{index}"][0] == (name if name.isprintable() else repr(name)[1:-1])


def test_a_label_has_only_plain_signs() -> None:
    """Letters of any language stay; all else but a few signs is a number."""
    assert escaped('Größe "x" %%') == "Größe #34;x#34; #37;#37;"
    assert escaped("a\nb #1") == "a#92;nb #35;1"


def test_probes_hang_on_their_operator() -> None:
    """Several of them, too; a capture is known by its operator."""
    flow = tw.Dataflow("flow")
    flow.input("in").probe("one").probe("other").capture("kept")
    chart = read(flow.to_mermaid())
    assert chart.nodes["f0_0"] == ("probe 'one'", ())
    assert chart.nodes["f0_1"] == ("probe 'other'", ())
    assert chart.nodes["n1"] == ("capture kept", ())
    assert len(chart.nodes) == 4


def test_labels_say_what_is_special() -> None:
    """The key of an exchange, and which output it is if there are several."""
    flow = tw.Dataflow("flow")
    left, right = flow.operator([flow.input("in")], 2, lambda context: None, name="split")  # type: ignore[arg-type, return-value]
    left.exchange("word")
    right.map(str)
    assert flow.to_mermaid().splitlines()[-2:] == [
        "  n1 ==>|\"output 0#59; by 'word'\"| n2",
        '  n1 -->|"output 1"| n3',
    ]
