"""The messages of errors as users read them: `tests/messages.txt` has all of them, and tests compare theirs with it.

A test says which type of error it expects; the file says in which words it comes. So a change of words is a diff of one
file. After such a change, run the tests that meet the words, and look at the diff:

    python -m pytest --write-messages tests/unit/progress

Parts that differ between runs, such as folders and ports, stand as `<folder>` or `<port>`.
"""

import fcntl
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, TypeVar, cast

import pytest

Error = TypeVar("Error", bound=BaseException)

_TEST, _MESSAGE, _MORE = "  ", "    ", "      "
"""The indents of the name of a test, of a message and of its further lines, below the path of the file."""

_HEADER: Final = "Written by `python -m pytest --write-messages`; see tests/kit/messages.py."

_VARYING: Final = (
    (re.compile(rf"({re.escape(str(Path.cwd()))}|/tmp/)[^\s'\",;:)\]]*"), "<folder>"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\b(0x[0-9a-f]{6,}|[0-9a-f]{32})\b"), "<id>"),
    (re.compile(r"(?<=-)[0-9a-f]{8}\b"), "<id>"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+"), "<port>"),
    (re.compile(r"(?<=process )\d+"), "<number>"),
    # Depends on the tests that have run before, and on how many examples they had.
    (re.compile(r"(?<=s3://bucket-)\d+|(?<='publish/)\d+|(?<='published ends/)\d+"), "<number>"),
    (re.compile(r"integer (division or )?modulo by zero"), "division by zero"),  # before Python 3.14
    (re.compile(r"(?<=tidewheel\[spark)4(?=\])"), ""),  # from Python 3.13 on
    (re.compile(r"\b[0-9A-F]{1,8}/[0-9A-F]{6,8}\b"), "<place>"),
    (re.compile(r"(?<=tides_)\d+|\b7\d{18}\b"), "<number>"),  # of a table, and of a server of Postgres
    (re.compile(r"(?<=snapshot )\d{12,}|(?<=snapshots from )\d{12,}|(?<=after=)\d{12,}"), "<number>"),  # of Iceberg
    # The rest is in the buffers of a socket.
    (re.compile(r"\d+ bytes in \d+ messages(?= wer)"), "<number> bytes in <number> messages"),
)


class MessageBook:
    """The messages in a file, by test, and those that tests of this process have met.

    Attributes:
        is_written: whether what tests meet replaces what the file has, instead of being compared with it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._met: dict[str, list[str]] = defaultdict(list)
        self._expected: dict[str, list[str]] | None = None
        self.is_written = False

    def meet(self, test: str, message: str) -> None:
        """Compare the next message of a test with the file; raise AssertionError if they differ."""
        met = self._met[test]
        if message not in met:
            met.append(message)
        if self.is_written:
            return
        if self._expected is None:
            self._expected = read(self._path)
        assert met == self._expected.get(test, [])[: len(met)], (
            f"an error has other words than {self._path.name}, or is new: run "
            f"`python -m pytest --write-messages '{test}'` and look at the diff"
        )

    def tests(self) -> list[str]:
        """Return the tests that the file has messages of."""
        return list(read(self._path))

    def save(self) -> None:
        """Replace the messages of the tests that were run. Several processes may do so."""
        with self._path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            text = written({**read(self._path), **self._met})
            self._path.write_text(text, encoding="utf-8")


def written(messages: dict[str, list[str]]) -> str:
    r"""Return the text of a file with these messages by test.

    >>> print(written({"tests/test_a.py::test_b": ["JobError: it broke\nat once"]}), end="")
    Written by `python -m pytest --write-messages`; see tests/kit/messages.py.
    <BLANKLINE>
    tests/test_a.py
      test_b
        JobError: it broke
          at once
    """
    lines = [_HEADER]
    files: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for test, met in messages.items():
        file, _, name = test.partition("::")
        files[file][name] = met
    for file in sorted(files):
        lines += ["", file]
        for name in sorted(files[file]):
            lines.append(_TEST + name)
            lines += [_MESSAGE + message.replace("\n", "\n" + _MORE) for message in files[file][name]]
    return "\n".join(line.rstrip() for line in "\n".join(lines).split("\n")) + "\n"


def read(path: Path) -> dict[str, list[str]]:
    r"""Return the messages in a file, by test.

    >>> import tempfile
    >>> messages = {"tests/test_a.py::test_b": ["JobError: it broke\nat once", "GraphError: no"]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "messages.txt")
    ...     _ = path.write_text(written(messages))
    ...     read(path) == messages
    True
    """
    found: dict[str, list[str]] = {}
    file = test = ""
    for line in path.read_text(encoding="utf-8").split("\n")[1:]:
        if line.startswith(_MORE):
            found[test][-1] += "\n" + line.removeprefix(_MORE)
        elif line.startswith(_MESSAGE):
            found[test].append(line.removeprefix(_MESSAGE))
        elif line.startswith(_TEST):
            test = f"{file}::{line.removeprefix(_TEST)}"
            found[test] = []
        elif line:
            file = line
    return found


BOOK: Final = MessageBook(Path(__file__).parents[1] / "messages.txt")


def raises(kind: type[Error] | tuple[type[Error], ...]) -> "AbstractContextManager[pytest.ExceptionInfo[Error], bool]":
    """Expect an error of a type, as `pytest.raises` does, in the words that the file has for this test.

    A test that meets several errors has them there in this order, each once.
    """
    return cast("AbstractContextManager[pytest.ExceptionInfo[Error], bool]", _compared(kind))


@contextmanager
def _compared(kind: type[Error] | tuple[type[Error], ...]) -> Iterator[pytest.ExceptionInfo[Error]]:
    with pytest.raises(kind) as caught:
        yield caught
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0]
    BOOK.meet(test, _comparable(caught.value))


def _comparable(error: BaseException) -> str:
    """Return the message behind the name of its type, without the parts that differ between runs and blank lines."""
    text = f"{type(error).__name__}: {error}"
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
