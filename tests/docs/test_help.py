"""`help` of what users see lists what they may use: nothing that wants what only the runtime has."""

import inspect
import pydoc
import re
import sys
from typing import Any

import pytest

import tidewheel as tw
from tests.packaging.surface import doors

DOORS = [doors()[name] for name in ("tidewheel", "tidewheel.types", "tidewheel.errors")]
TIMES = ("Antichain", "IntegerDomain", "PathSummary", "ProductDomain", "TimeDomain", "UnitDomain")
NAMED = [getattr(door, name) for door in DOORS for name in door.__all__] + [
    getattr(tw.progress, name) for name in TIMES
]
SEEN = [made for made in NAMED if inspect.isclass(made)]
INNER = ("tidewheel.progress", "tidewheel.runtime", "tidewheel.transport")
"""The packages with the inner works of a job."""

HANDED_OUT = {
    *("Described", "Nesting", "RunningAttachment", "Self"),
    *("EdgeStatistics", "Holder", "InputStatistics", "OperatorStatistics", "WorkerStatistics"),
}
"""The objects that users do not name: a dataflow is the first, and streams and jobs hand out the others."""

SHOWN = {
    tw.InputPort: "ended frontier",
    tw.OutputPort: "send",
    tw.types.LentToken: "delayed key label retain time",
    tw.TimestampToken: "clone delayed discard domain downgrade is_live key label time",
    tw.TumblingWindows: "length offset",
    tw.SessionWindows: "gap",
    tw.types.InputHandle: (
        "advance_to clone close delayed end_substream is_closed position send statistics time wait_until_saved"
    ),
    tw.types.ProbeHandle: "advances frontier has_completed has_reached wait_until",
}


def shown_by_help(made: type) -> dict[str, Any]:
    """Return what help lists of a class by its own name, those inherited from tidewheel's classes included."""
    return {
        name: member
        for name, _, home, member in inspect.classify_class_attrs(made)
        if pydoc.visiblename(name, obj=made) and not name.startswith("__") and home.__module__.startswith("tidewheel")
    }


def inner_classes() -> set[str]:
    """Return the names of the classes that users do not see."""
    modules = [module for name, module in sys.modules.items() if name.startswith(INNER)]
    made = {
        name
        for module in modules
        for name, one in vars(module).items()
        if getattr(one, "__module__", "") == module.__name__ and inspect.isclass(one)
    }
    return made - {one.__name__ for one in SEEN} - HANDED_OUT


def named_by(member: Any) -> set[str]:
    """Return the names in the annotations of a method or property."""
    function = getattr(member, "fget", None) or getattr(member, "func", None) or member
    annotations = getattr(function, "__annotations__", {}).values()
    return {word for annotation in annotations for word in re.findall(r"(?<!~)\b\w+", str(annotation))}


@pytest.mark.parametrize("made", SEEN, ids=lambda made: made.__name__)
def test_help_shows_no_inner_works(made: type) -> None:
    """Nothing that it lists wants or returns an object of a class that only the runtime knows."""
    inner = inner_classes()
    assert {name: found for name, member in shown_by_help(made).items() if (found := named_by(member) & inner)} == {}


@pytest.mark.parametrize("made", SHOWN, ids=lambda made: made.__name__)
def test_help_of_what_operators_work_with_is_short(made: type) -> None:
    """Ports, tokens, probes and handles have a few names each; whoever adds one adds it here."""
    assert sorted(shown_by_help(made)) == SHOWN[made].split()
