"""Scopes: the loops of a dataflow, each of which adds one coordinate to the times inside it."""

from tidewheel.display.checked_name import check_name
from tidewheel.progress import GraphError, IntegerDomain, Nesting, TimeDomain


class Scope:
    """One loop, or the dataflow itself; compared by identity."""

    __slots__ = ("is_over", "name", "nesting", "parent")

    def __init__(self, name: str, parent: "Scope | None", domain: TimeDomain) -> None:
        check_name("a scope", name, GraphError)
        self.name = name
        self.parent = parent
        self.is_over = False  # whether operators may no longer read from it
        self.nesting: Nesting = Nesting((domain,)) if parent is None else parent.nesting.inside(domain)

    def inside(self, name: str, domain: TimeDomain | None = None) -> "Scope":
        return Scope(name, self, domain if domain is not None else IntegerDomain())

    @property
    def path(self) -> str:
        """The names of the scopes, joined by slashes; empty outside every loop."""
        if self.parent is None:
            return ""
        return f"{self.parent.path}/{self.name}" if self.parent.path else self.name

    def describe(self) -> str:
        return f"scope {self.path!r}" if self.parent is not None else "the outermost scope"
