"""One declaration of substreams, as the runtime sees it."""

from dataclasses import dataclass

from tidewheel.progress import Location, Source


@dataclass(frozen=True, slots=True)
class DeclaredSubstreams:
    """Where substreams are declared, and who asks for their ends.

    Attributes:
        name: of the declaration.
        source: the output from which records with keys go on.
        is_shared: whether every worker lets in records of each key, or only one.
        asked: the inputs where somebody asks for ends.
        ordered: those of them where ends are to be told in the order of closing.
        firm: those of them where each substream is received in one piece.
        turns: those of them that are on a cycle: they are ordered, too.
    """

    name: str
    source: Source
    is_shared: bool
    asked: tuple[Location, ...]
    ordered: tuple[Location, ...] = ()
    firm: tuple[Location, ...] = ()
    turns: tuple[Location, ...] = ()
