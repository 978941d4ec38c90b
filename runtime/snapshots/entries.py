"""The entries of a folder's log, as JSON: owners, snapshots, deletions, releases.

Each entry is one small object, such as `log/0000000043.json`, which is put once and never changes. Its last JSON member
is the CRC-32C of the bytes before it.
"""

import re
from typing import Any, TypeAlias

import msgspec

from tidewheel.runtime.messages.written_part import Blob
from tidewheel.runtime.snapshots.errors import SnapshotError
from tidewheel.storage.checksum import crc32c

FORMAT_VERSION = 2
"""The version of a folder's format.

Readers refuse entries of a later version, and then remove nothing in the folder.
"""


class Process(msgspec.Struct, frozen=True):
    """The identity of a process, different from that of any other process at any time.

    Args:
        namespace: the namespace of the process id, which differs between containers.
        started: when the process started, in ticks since the start of the machine.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    started: int


class Owner(msgspec.Struct, frozen=True, tag="owner"):
    """A claim: from this entry on, the entry's writer owns the folder.

    Args:
        claimed: the moment of the claim, as ISO 8601 in UTC.
        incarnation: the number of claims of the folder so far, including this claim.
    """

    job: str
    process: Process
    claimed: str
    incarnation: int
    identity: str
    version: int = FORMAT_VERSION


class Manifest(msgspec.Struct, frozen=True, tag="snapshot"):
    """A committed snapshot.

    Args:
        created: the moment of the commit, as ISO 8601 in UTC.
        blobs: all blobs that the snapshot needs, also blobs of earlier snapshots.
        kept: the entry numbers of the earlier snapshots that the folder keeps.
    """

    number: int
    incarnation: int
    created: str
    blobs: tuple[Blob, ...]
    body: dict[str, Any]
    kept: tuple[int, ...]
    identity: str
    version: int = FORMAT_VERSION


class Deletion(msgspec.Struct, frozen=True, tag="deletion"):
    """A person has deleted snapshots; the snapshots in ``kept`` remain."""

    kept: tuple[int, ...]
    identity: str
    version: int = FORMAT_VERSION


class Release(msgspec.Struct, frozen=True, tag="released"):
    """The owner has released the folder, so the next job need not wait."""

    identity: str
    version: int = FORMAT_VERSION


class Unreadable(msgspec.Struct, frozen=True):
    """A damaged entry of the log, of unknown kind."""

    problem: str


Entry: TypeAlias = Owner | Manifest | Deletion | Release
FoundEntry: TypeAlias = Entry | Unreadable


class _Header(msgspec.Struct):
    version: int


_ENTRY: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)
_HEADER = msgspec.json.Decoder(_Header)
_SEALED = re.compile(rb'(.*),"checksum":"([0-9a-f]{8})"}', re.DOTALL)


def encode(entry: Entry) -> bytes:
    text = msgspec.json.encode(entry)[:-1]
    return b'%b,"checksum":"%08x"}' % (text, crc32c(text))


def decode(name: str, data: bytes) -> FoundEntry:
    """Return the entry in the bytes of an object; `Unreadable` if `encode` cannot have made them.

    >>> decode("log/0000000001.json", encode(Release("7f")))
    Release(identity='7f', version=2)

    Raises:
        SnapshotError: a newer version of tidewheel has written the entry.
    """
    try:
        version = _HEADER.decode(data).version
        if version > FORMAT_VERSION:
            raise SnapshotError(
                f"{name} has format {version}, and this tidewheel reads formats up to {FORMAT_VERSION}: "
                "a newer tidewheel has written to the folder. Nothing was changed. "
                "Run the job with that release or a later one, or use another folder"
            )
        entry = _ENTRY.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Unreadable(f"{name} is damaged: {error}")
    sealed = _SEALED.fullmatch(data)
    if sealed is None or int(sealed[2], 16) != crc32c(sealed[1]):
        return Unreadable(f"{name} is damaged: its checksum is another one")
    return entry
