"""The rules of a folder's log, without I/O: its owner, its snapshots, and the objects that may be removed.

- The writer of the last claim owns the folder; late claims (see below) do not count. A claim takes the number of the
  former owner's next entry, so the former owner can no longer commit.
- A snapshot lives until a later entry omits it from ``kept``. So readers no longer see a snapshot when its objects are
  removed.
- The entries before all living snapshots may be removed, except the last owner's claim. A former owner or a slow store
  may put a removed entry again, for example a late claim. Such an entry hides no snapshot and restores none;
  `protocol.append` notices it.
- Only the number of a damaged entry is known. The entry may have been a claim, so it counts as an incarnation, and no
  later owner uses that incarnation in names of blobs.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tidewheel.runtime.messages.written_part import Blob
from tidewheel.runtime.snapshots.entries import Deletion, FoundEntry, Manifest, Owner, Release, Unreadable
from tidewheel.runtime.snapshots.names import Writing, blob_writing, heartbeat_incarnation


@dataclass(frozen=True)
class Log:
    """The entries of a log, by number.

    >>> Log({}).next_number
    1
    """

    entries: Mapping[int, FoundEntry] = field(default_factory=dict)

    @property
    def next_number(self) -> int:
        return max(self.entries, default=0) + 1

    @cached_property
    def _owner_number(self) -> int:
        claims = (number for number, entry in self.entries.items() if isinstance(entry, Owner))
        return max((number for number in claims if not self._came_late(number)), default=0)

    def _came_late(self, number: int) -> bool:
        """Tell whether a claim came late, at a number that was free again.

        That is so if a later snapshot has another owner with the same or an earlier incarnation.
        """
        claim = self.entries[number]
        return isinstance(claim, Owner) and any(
            later > number and entry.incarnation <= claim.incarnation and entry.identity != claim.identity
            for later, entry in self.entries.items()
            if isinstance(entry, Manifest)
        )

    @property
    def owner(self) -> Owner | None:
        entry = self.entries.get(self._owner_number)
        return entry if isinstance(entry, Owner) else None

    @property
    def first_owner(self) -> Owner | None:
        owners = [number for number, entry in self.entries.items() if isinstance(entry, Owner)]
        entry = self.entries.get(min(owners, default=0))
        return entry if isinstance(entry, Owner) else None

    @property
    def is_released(self) -> bool:
        owner = self.owner
        return owner is None or any(
            isinstance(entry, Release) and entry.identity == owner.identity for entry in self.entries.values()
        )

    @property
    def incarnation(self) -> int:
        """The highest incarnation that an owner may have had; 0 if there was no owner."""
        known = (entry.incarnation for entry in self.entries.values() if isinstance(entry, Owner))
        return max(known, default=0) + len(self.unreadable)

    def entries_of(self, owner: Owner) -> list[int]:
        entries = self.entries.items()
        return [n for n, one in entries if not isinstance(one, Unreadable) and one.identity == owner.identity]

    @property
    def unreadable(self) -> dict[int, Unreadable]:
        return {number: entry for number, entry in self.entries.items() if isinstance(entry, Unreadable)}

    @cached_property
    def snapshots(self) -> dict[int, Manifest]:
        living: dict[int, Manifest] = {}
        for number, entry in sorted(self.entries.items()):
            match entry:
                case Manifest():
                    living = _kept(living, entry.kept) | {number: entry}
                case Deletion():
                    living = _kept(living, entry.kept)
        return living

    @property
    def next_snapshot(self) -> int:
        return 1 + max((entry.number for entry in self.entries.values() if isinstance(entry, Manifest)), default=0)

    def kept_beside_a_new_one(self, keep: int, damaged: Collection[int]) -> tuple[int, ...]:
        kept: list[int] = []
        intact = 1
        for number in reversed(self.snapshots):
            if intact >= keep:
                break
            kept.append(number)
            intact += number not in damaged
        return tuple(sorted(kept))

    def old_entries(self) -> list[int]:
        """Return the numbers of the entries before all living snapshots, except the last owner's claim."""
        oldest = min(self.snapshots, default=0)
        return [number for number in self.entries if number < oldest and number != self._owner_number]

    def needed_blobs(self) -> dict[str, Blob]:
        return {blob.name: blob for manifest in self.snapshots.values() for blob in manifest.blobs}

    def unneeded_blobs(self, names: Iterable[str], owner: Owner) -> list[str]:
        """Return the names of blobs that no snapshot needs, including half-written files.

        Args:
            names: the names of the present blobs.
            owner: the owner. It may be writing the blobs after its last snapshot, so these stay, and so do blobs of
                later owners.
        """
        manifests = [entry for entry in self.entries.values() if isinstance(entry, Manifest)]
        committed = [manifest.number for manifest in manifests if manifest.identity == owner.identity]
        last = Writing(owner.incarnation, max(committed, default=-1))
        needed = self.needed_blobs()
        return [name for name in names if (of := blob_writing(name)) and of <= last and name not in needed]


def old_heartbeats(names: Iterable[str], owner: Owner) -> list[str]:
    return [name for name in names if (of := heartbeat_incarnation(name)) and of < owner.incarnation]


def _kept(living: dict[int, Manifest], kept: Collection[int]) -> dict[int, Manifest]:
    return {number: manifest for number, manifest in living.items() if number in kept}
