"""The calls by which an owner claims a folder, commits to it and removes old objects, without I/O.

Each function is a generator of calls, so that a test can stop an owner between any two calls.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tidewheel.runtime.messages.written_part import Blob
from tidewheel.runtime.snapshots.entries import Entry, FoundEntry, Owner, decode, encode
from tidewheel.runtime.snapshots.errors import FencedError, SnapshotError, SnapshotFolderGone
from tidewheel.runtime.snapshots.log import Log, old_heartbeats
from tidewheel.runtime.snapshots.names import ENTRIES, HEARTBEATS, LOG, PARTS, heartbeat_name
from tidewheel.storage.folder_calls import Calls, Get, Remove, Sizes
from tidewheel.storage.numbered_log import Put

_MOST_READS = 20


def read_log(known: Mapping[int, FoundEntry] | None = None) -> Calls[Log]:
    """Read the log, except the entries in ``known``.

    Raises:
        SnapshotError: an entry has a newer format, or the log changed during each attempt.
    """
    known = known or {}
    for _ in range(_MOST_READS):
        names: Mapping[str, int] = yield Sizes(LOG)
        entries = yield from _entries(sorted(number for name in names if (number := ENTRIES.number(name))), known)
        if entries is not None:
            return Log(entries)
    raise SnapshotError(f"the log changed during each of {_MOST_READS} attempts to read it: try again")


def _entries(numbers: list[int], known: Mapping[int, FoundEntry]) -> Calls[dict[int, FoundEntry] | None]:
    entries: dict[int, FoundEntry] = {}
    for number in numbers:
        if number in known:
            entries[number] = known[number]
            continue
        name = ENTRIES.name(number)
        data = yield Get(name)
        if data is None:
            return None
        entries[number] = decode(name, data)
    return entries


def claim(log: Log, owner: Owner) -> Calls[Log | None]:
    """Put a claim at the end of a log; return the new log, or None if another entry came first."""
    yield from ENTRIES.put(log.next_number, encode(owner))
    # A store that answers too late also puts the entry, and refuses it when the client asks again.
    log = yield from read_log(log.entries)
    return log if log.owner == owner else None


def append(log: Log, owner: Owner, entry: Callable[[Log], Entry | None]) -> Calls[Log]:
    """Put an entry at the end of the log; return the new log.

    ``entry`` receives the log and returns the entry to put, or None if the log has it already.

    Raises:
        FencedError: another owner has claimed the folder. A snapshot put directly before the claim is valid.
    """
    while (put := entry(log)) is not None:
        number = log.next_number
        is_own = (yield from ENTRIES.put(number, encode(put))) is Put.OWN
        # A later owner may have removed its entry of this number, so a successful put alone says nothing.
        log = yield from read_log({**log.entries, number: put} if is_own else log.entries)
        check_owner(log, owner)
    return log


def check_owner(log: Log, owner: Owner) -> None:
    """Check that a log still belongs to an owner.

    Raises:
        FencedError: the folder belongs to another owner.
        SnapshotFolderGone: the folder has no entries.
    """
    other = log.owner
    if other is None:
        raise SnapshotFolderGone(
            f"the log of job {owner.job!r} has no entries any more: the folder was removed. "
            "Snapshots of this run are lost. Start the job again, which begins with an empty folder"
        )
    if other.identity != owner.identity:
        raise FencedError(
            f"{describe(other)} has claimed the folder, so {describe(owner)} commits nothing more. "
            "Let one of them go on, and give the other one a folder of its own"
        )


def describe(owner: Owner) -> str:
    process = owner.process
    return f"job {owner.job!r} (process {process.pid} on {process.host}, since {owner.claimed})"


def remove_old(log: Log, owner: Owner) -> Calls[None]:
    """Remove unneeded entries and blobs, including those of crashed owners."""
    names: Mapping[str, int] = yield Sizes(LOG)
    halves = (name for name in names if (number := ENTRIES.half_written(name)) and number < log.next_number)
    yield from _remove([*map(ENTRIES.name, log.old_entries()), *halves])
    names = yield Sizes(PARTS)
    yield from _remove(log.unneeded_blobs(names, owner))
    names = yield Sizes(HEARTBEATS)
    yield from _remove(old_heartbeats(names, owner))


def remove_all(owner: Owner) -> Calls[None]:
    """Remove what `remove_old` leaves of a folder without snapshots, except objects of a later owner.

    Entries are removed in order, so that each snapshot is removed before the entry that ends it.

    Raises:
        FencedError: another owner has claimed the folder.
    """
    log = yield from read_log()
    check_owner(log, owner)
    names: Mapping[str, int] = yield Sizes(HEARTBEATS)
    yield from _remove([*old_heartbeats(names, owner), heartbeat_name(owner.incarnation)])
    yield from _remove(map(ENTRIES.name, sorted(log.entries)))


def _remove(names: Any) -> Calls[None]:
    found = tuple(names)
    if found:
        yield Remove(found)


def check_blobs(number: int, blobs: Iterable[Blob], before: Log, now: Log, owner: Owner) -> None:
    """Check that no blob of a new snapshot may be removed as unneeded.

    Raises:
        SnapshotError: a blob belongs to no living snapshot.
    """
    names = [blob.name for blob in blobs]
    refused = set(before.unneeded_blobs(names, owner)).intersection(now.unneeded_blobs(names, owner))
    if refused:
        raise SnapshotError(
            f"snapshot {number} needs {min(refused)}, which no snapshot in the folder keeps any more: "
            "write that part again as a whole"
        )
