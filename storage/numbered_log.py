"""A claimed log: numbered objects in a folder, owned by one writer at a time.

Invariants:

- A writer puts the object after the last number that it knows, and a put fails if the number exists. So each number
  belongs to one writer, without lock or clock.
- A writer claims the log with its first object. A former writer, however late, finds an object of the new writer at the
  number that it wants to put next, and stops. So the log stays one sequence, even if a job was wrongly taken for dead.
- A stored object is durable, even if the answer to the put was lost. Each object names its writer: so if a number has
  the same bytes already, an earlier attempt of the same writer has put them.

Source: Amazon S3, "Conditional writes".
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tidewheel.storage.folder_calls import Calls, Get, PutNew


class Put(Enum):
    OWN = "own"
    """The number belongs to this writer, by this put or an earlier attempt."""

    TAKEN = "taken"
    """The number belongs to another writer."""

    UNSEEN = "unseen"
    """The store refuses the object but shows none: another put is in progress, or the object was removed."""


@dataclass(frozen=True, slots=True)
class NumberedLog:
    """The names of the objects of a claimed log, and the calls that put them, without I/O; see `folder_calls`.

    >>> entries = NumberedLog("log/", 10, ".json")
    >>> entries.name(43)
    'log/0000000043.json'
    >>> entries.number("log/0000000043.json"), entries.number("notes.txt")
    (43, None)
    """

    prefix: str = ""
    digits: int = 20
    suffix: str = ""

    def name(self, number: int) -> str:
        """Return the name of the object with this number; names sort by number."""
        return f"{self.prefix}{number:0{self.digits}}{self.suffix}"

    def number(self, name: str) -> int | None:
        """Return the number in an object's name; None for other names, such as half-written files."""
        found = self._match(name)
        return int(found[1]) if found and not found[2] else None

    def half_written(self, name: str) -> int | None:
        found = self._match(name)
        return int(found[1]) if found and found[2] else None

    def _match(self, name: str) -> "re.Match[str] | None":
        digits = rf"(\d{{{self.digits},}})"
        return re.fullmatch(rf"{re.escape(self.prefix)}{digits}{re.escape(self.suffix)}(\..*)?", name)

    def put(self, number: int, data: bytes) -> Calls[Put]:
        """Put the object with this number; ``data`` names its writer.

        After an error the caller may repeat the put with the same bytes.
        """
        name = self.name(number)
        if (yield PutNew(name, data)):
            return Put.OWN
        found = yield Get(name, len(data))
        if found is None:
            return Put.UNSEEN
        return Put.OWN if found == data else Put.TAKEN

    def check_store(self, number: int, url: str, harm: str, error: Callable[[str], Exception]) -> Calls[None]:
        """Check that the store refuses a second object with the same number.

        If the object is gone, a later writer has removed it. Then nothing is put, and the caller's next put finds out.

        Raises:
            Exception: made by ``error``: the store accepts a second object.
        """
        name = self.name(number)
        data = yield Get(name)
        if data is not None and (yield PutNew(name, data)):
            raise error(
                f"{url} is not used: its store puts an object although there is one (it ignores If-None-Match), so "
                f"{harm}. Use a store with conditional writes"
            )
