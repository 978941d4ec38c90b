"""The file of a worker's part: entries, followed by their index.

Keyed states are written in chunks of pairs, so that other threads rarely wait for the interpreter. Mutable values are
already pickled at the cut. Messages and batches never change, so they are pickled only here.
"""

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from tidewheel.batches.batches import pack, unpack
from tidewheel.runtime.errors import SnapshotError
from tidewheel.runtime.messages.unread import Unread
from tidewheel.runtime.state.keyed_state import GoneKeys, KeyedCut
from tidewheel.runtime.state.saved_worker import SavedOnWorker, SavedWorker
from tidewheel.runtime.state.state_pickling import pickle_state
from tidewheel.runtime.state.worker_part import OperatorPart, WorkerPart

_LENGTH = 8

_Kind: TypeAlias = Literal[
    "state", "format", "times", "all", "pairs", "gone", "frozen", "unread", "mailbox", "substreams"
]


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """The description of one entry in the file.

    An entry of the ``kind`` "all" has no content. It makes the keyed state of earlier files void.
    """

    operator: str
    kind: _Kind
    name: str
    size: int


class _Index(msgspec.Struct, frozen=True, array_like=True):
    worker: int
    operators: list[str]
    entries: list[_Entry]


def write_part(part: WorkerPart) -> Iterator[bytes]:
    """Yield the bytes of a part's file, piece by piece, so that other threads can run in between.

    Raises:
        SnapshotError: a record or a key cannot be pickled.
    """
    return _file_of(part, _pieces(part, _pieces_of))


def write_frozen(part: WorkerPart, names: Collection[str]) -> Iterator[bytes]:
    """Yield the bytes of a file of frozen values: one piece for each value, then the index.

    Raises:
        SnapshotError: a value cannot be pickled.
    """

    def pieces_of(one: OperatorPart) -> Iterator[tuple[_Kind, str, bytes]]:
        for name, value in one.kept.frozen.items():
            if name in names:
                yield "frozen", name, pickle_state(value).data

    return _file_of(part, _pieces(part, pieces_of))


def _file_of(part: WorkerPart, pieces: Iterable[tuple[str, _Kind, str, bytes]]) -> Iterator[bytes]:
    entries: list[_Entry] = []
    for operator, kind, name, data in pieces:
        entries.append(_Entry(operator, kind, name, len(data)))
        if data:
            yield data
    index = msgspec.msgpack.encode(_Index(part.worker, list(part.operators), entries))
    yield index
    yield len(index).to_bytes(_LENGTH, "little")


def _pieces(
    part: WorkerPart, pieces_of: Callable[[OperatorPart], Iterator[tuple[_Kind, str, bytes]]]
) -> Iterator[tuple[str, _Kind, str, bytes]]:
    for operator, one in part.operators.items():
        try:
            for kind, name, data in pieces_of(one):
                yield operator, kind, name, data
        except Exception as error:
            raise SnapshotError(
                f"operator {operator!r}: a key of its state, or a record that waits for it, cannot be pickled: "
                f"{type(error).__name__}: {error}. Use keys and records that can be pickled"
            ) from error


def _pieces_of(part: OperatorPart) -> Iterator[tuple[_Kind, str, bytes]]:
    for name, data in part.kept.states.items():
        yield "state", name, data
    for name, number in part.kept.formats.items():
        yield "format", name, str(number).encode()
    for data in part.kept.times:
        yield "times", "", data
    for name, cut in part.kept.keyed.items():
        for kind, data in _pieces_by_key(cut):
            yield kind, name, data
    for port, unread in enumerate(part.unread):
        for message in unread:
            yield "unread", str(port), pickle_state(message._replace(batch=pack(message.batch))).data
    if part.mailbox is not None:
        yield "mailbox", "", pickle_state(part.mailbox).data
    if part.substreams is not None:
        yield "substreams", "", pickle_state(part.substreams).data


def _pieces_by_key(cut: KeyedCut) -> Iterator[tuple[_Kind, bytes]]:
    if cut.begins and cut.ends:
        yield "all", b""
    for pairs in cut.unchanging:
        yield "pairs", pickle_state(pairs).data
    if cut.pickled is not None:
        yield "pairs", cut.pickled.data
    if cut.gone:
        yield "gone", pickle_state(cut.gone).data


def read_worker(files: Sequence[bytes]) -> SavedWorker:
    """Return one worker's state from its files, oldest first.

    Keyed state and frozen values come from all files together, everything else from the newest.

    Raises:
        SnapshotError: a file has another format, or a record in it cannot be read.
    """
    saved = SavedWorker(0)
    for data in files:
        index = _index_of(data)
        before, saved = saved, SavedWorker(index.worker, {name: SavedOnWorker() for name in index.operators})
        for name, one in before.operators.items():
            if name in saved.operators:
                saved.operators[name].keyed, saved.operators[name].frozen = one.keyed, one.frozen
        at = 0
        view = memoryview(data)
        for entry in index.entries:
            _read_entry(saved, entry, view[at : at + entry.size])
            at += entry.size
    return saved


def _index_of(data: bytes) -> _Index:
    length = int.from_bytes(data[-_LENGTH:], "little")
    try:
        index = msgspec.msgpack.decode(data[-_LENGTH - length : -_LENGTH], type=_Index)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"a part of a snapshot has no index that can be read: {error}") from error
    expected = sum(entry.size for entry in index.entries) + length + _LENGTH
    if len(data) != expected:
        raise SnapshotError(f"a part of a snapshot has {len(data)} bytes, and {expected} by its index")
    return index


def _read_entry(saved: SavedWorker, entry: _Entry, data: memoryview) -> None:
    one = saved.operators[entry.operator]
    match entry.kind:
        case "state" | "frozen":
            (one.states if entry.kind == "state" else one.frozen)[entry.name] = bytes(data)
        case "format":
            one.formats[entry.name] = int(bytes(data))
        case "times":
            one.times.append(bytes(data))
        case "all":
            one.keyed[entry.name] = []
        case "pairs":
            one.keyed.setdefault(entry.name, []).append(bytes(data))
        case "gone":
            one.keyed.setdefault(entry.name, []).append(GoneKeys(_loaded(entry, data)))
        case "unread":
            message: Unread = _loaded(entry, data)
            one.unread.setdefault(int(entry.name), []).append(message._replace(batch=unpack(message.batch)))
        case "mailbox":
            one.mailbox = _loaded(entry, data)
        case "substreams":
            one.substreams = _loaded(entry, data)


def _loaded(entry: _Entry, data: memoryview) -> Any:
    try:
        return pickle.loads(data)  # noqa: S301 - a file of the job's own snapshots
    except Exception as error:
        what = "keys" if entry.kind == "gone" else "messages"
        raise SnapshotError(
            f"operator {entry.operator!r}: its {what} cannot be read from the snapshot: {type(error).__name__}: "
            f"{error}. Let the program have what was saved, or use another folder"
        ) from error
