"""A dataflow as engines see it: something that has a description."""

from tidewheel.progress import GraphError
from tidewheel.runtime.description.dataflow_description import DataflowDescription


class Described:
    """The base of `Dataflow`, which shows its users nothing of the description."""

    __slots__ = ("_description",)

    def __init__(self, description: DataflowDescription) -> None:
        self._description = description


def description_of(flow: object, caller: str = "this function") -> DataflowDescription:
    """Return the description of a dataflow; raise GraphError, which names the caller, if ``flow`` is none."""
    if not isinstance(flow, Described):
        raise GraphError(f"{caller} takes a Dataflow, not {flow!r}")
    return flow._description
