"""Several owners of one folder of snapshots under a seed: stopped between any two calls, crashed, with lost answers.

No owner waits before it claims the folder, so all others go on as zombies. After each call the folder is compared
with a model that sees everything.
"""

import random
from collections.abc import Generator, Iterator
from itertools import count
from typing import Any, NamedTuple

from tidewheel.runtime.messages.written_part import Blob
from tidewheel.runtime.snapshots import protocol
from tidewheel.runtime.snapshots.entries import Deletion, Entry, Manifest, Owner, Process, Release, Unreadable, decode
from tidewheel.runtime.snapshots.errors import FencedError, SnapshotError
from tidewheel.runtime.snapshots.log import Log
from tidewheel.runtime.snapshots.names import ENTRIES, PARTS, blob_name
from tidewheel.storage.folder_calls import Get, PutNew, Remove, Sizes

PROCESS = Process("host", "boot", "namespace", 1, 1)


class Write(NamedTuple):
    """A call of a worker: it puts a blob."""

    name: str


class Committed(NamedTuple):
    """No call: an owner has learned that its snapshot is committed."""

    manifest: Manifest


class LostAnswerError(SnapshotError):
    """A store did not answer in time; it may have done what it was asked for, or do it later."""


Steps = Generator[Any, Any, None]


class Folder:
    """The objects of a folder, and the model: which snapshots there should be."""

    def __init__(self, keep: int) -> None:
        self.objects: dict[str, bytes] = {}
        self.living: list[Manifest] = []
        self.committed: set[tuple[str, int]] = set()
        self._keep = keep

    def log(self) -> Log:
        """Return the log as it is now."""
        numbers = {number: name for name in self.objects if (number := ENTRIES.number(name)) is not None}
        return Log({number: decode(name, self.objects[name]) for number, name in numbers.items()})

    def perform(self, call: Any) -> Any:
        """Do what an owner or a worker asks for."""
        match call:
            case PutNew(name, data):
                return self._put_new(name, data)
            case Get(name):
                return self.objects.get(name)
            case Sizes(prefix):
                return {name: len(data) for name, data in self.objects.items() if name.startswith(prefix)}
            case Remove(names):
                for name in names:
                    self.objects.pop(name, None)
            case Write(name):
                self.objects[name] = b"x"
        return None

    def _put_new(self, name: str, data: bytes) -> bool:
        if name in self.objects:
            return False
        owner = self.log().owner
        self.objects[name] = data
        entry = decode(name, data)
        assert not isinstance(entry, Unreadable), "nothing is damaged"
        is_last = ENTRIES.number(name) == self.log().next_number - 1
        if is_last and not isinstance(entry, Owner) and owner is not None and owner.identity == entry.identity:
            self._expect(entry)
        return True

    def _expect(self, entry: Entry) -> None:
        if isinstance(entry, Manifest):
            self.committed.add((entry.identity, entry.number))
            self.living = [*self.living, entry][-self._keep :]
        elif isinstance(entry, Deletion):
            kept = [self.log().entries[number] for number in entry.kept]
            (gone,) = [manifest for manifest in self.living if manifest not in kept]
            self.living.remove(gone)

    def check(self) -> None:
        """Compare the folder with the model."""
        found = [(manifest.incarnation, manifest.number) for manifest in self.log().snapshots.values()]
        expected = [(manifest.incarnation, manifest.number) for manifest in self.living]
        assert found == expected, f"{found} live, and {expected} should"
        for manifest in self.living:
            for blob in manifest.blobs:
                assert blob.name in self.objects, f"snapshot {manifest.number} has lost {blob.name}"


class Simulation:
    """A run under a seed. Any lie of the protocol is an AssertionError."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._keep = self._random.randint(1, 3)
        self.folder = Folder(self._keep)
        self._late: list[PutNew] = []
        self._identities = count(1)

    def run(self, steps: int = 250) -> None:
        """Let three owners go on in turns; then one alone, behind which nothing unneeded is left."""
        waiting: dict[int, tuple[Steps, Any]] = {}
        for _ in range(steps):
            slot = self._random.randrange(3)
            if slot not in waiting or self._random.random() < 0.01:
                started = self._owner(10)
                waiting[slot] = (started, next(started))
            owner, call = waiting.pop(slot)
            following = self._step(owner, call)
            if following is not None:
                waiting[slot] = (owner, following)
            self._put_late()
            self.folder.check()
        self._alone()

    def _step(self, owner: Steps, call: Any) -> Any:
        """Do what an owner has asked for; return its next call, None at its end."""
        try:
            if isinstance(call, Committed):
                assert (call.manifest.identity, call.manifest.number) in self.folder.committed
            if isinstance(call, PutNew) and self._random.random() < 0.1:
                if self._random.random() < 0.5:
                    self.folder.perform(call)
                else:
                    self._late.append(call)
                return owner.throw(LostAnswerError())
            return owner.send(self.folder.perform(call))
        except StopIteration:
            return None

    def _put_late(self) -> None:
        if self._late and self._random.random() < 0.05:
            self.folder.perform(self._late.pop(self._random.randrange(len(self._late))))

    def _alone(self) -> None:
        """Let a last owner commit and remove: it has what it needs, and no more."""
        self._late.clear()
        for call in self._answered(self._owner(4, calm=True)):
            assert not isinstance(call, Committed) or self.folder.living[-1] == call.manifest
        self.folder.check()
        needed = {blob.name for manifest in self.folder.living for blob in manifest.blobs}
        assert {name for name in self.folder.objects if name.startswith(PARTS)} == needed
        assert len(self.folder.log().entries) <= 2 * self._keep + 4

    def _answered(self, owner: Steps) -> Iterator[Any]:
        call = next(owner)
        while call is not None:
            yield call
            try:
                call = owner.send(self.folder.perform(call)) if not isinstance(call, Release) else None
            except StopIteration:
                raise AssertionError("the only owner has failed") from None

    def _owner(self, snapshots: int, *, calm: bool = False) -> Steps:
        """The life of an owner: it claims, commits snapshots that build on each other, and removes old ones."""
        try:
            log = yield from protocol.read_log()
            identity = f"{next(self._identities)}"
            me = Owner("job", PROCESS, "now", log.incarnation + 1, identity)
            claimed = yield from protocol.claim(log, me)
            if claimed is None:
                assert not calm
                return
            log = claimed
            number = log.next_snapshot
            for number in range(number, number + snapshots):  # noqa: B020  it goes on from there
                log = yield from self._commit(log, me, number)
                if calm or self._random.random() < 0.5:
                    yield from protocol.remove_old(log, me)
                if not calm and log.snapshots and self._random.random() < 0.1:
                    log = yield from protocol.append(log, me, lambda now: self._deletion(now, identity))
            yield Release(identity)
        except (FencedError, LostAnswerError):
            return

    def _deletion(self, log: Log, identity: str) -> Deletion | None:
        """Return the deletion of one snapshot, if there are more."""
        living = list(log.snapshots)
        if self._random.random() < 0.5 or not living:
            return None
        living.remove(self._random.choice(living))
        return Deletion(tuple(living), identity)

    def _commit(self, log: Log, me: Owner, number: int) -> Generator[Any, Any, Log]:
        """Write blobs and commit a snapshot, which needs some blobs of the one before; return the new log."""
        newest = max(log.snapshots, default=0)
        earlier = [blob for blob in log.snapshots[newest].blobs if self._random.random() < 0.5] if newest else []
        written = [Blob(blob_name(me.incarnation, number, str(part)), 1, 0) for part in range(2)]
        for blob in written:
            yield Write(blob.name)

        def manifest(now: Log) -> Manifest | None:
            if any(isinstance(old, Manifest) and _is(old, me, number) for old in now.entries.values()):
                return None
            protocol.check_blobs(number, (*earlier, *written), log, now, me)
            kept = now.kept_beside_a_new_one(self._keep, ())
            return Manifest(number, me.incarnation, "now", (*earlier, *written), {}, kept, me.identity)

        try:
            now = yield from protocol.append(log, me, manifest)
        except LostAnswerError:
            return log
        (made,) = [old for old in now.entries.values() if isinstance(old, Manifest) and _is(old, me, number)]
        yield Committed(made)
        return now


def _is(manifest: Manifest, owner: Owner, number: int) -> bool:
    return (manifest.identity, manifest.number) == (owner.identity, number)
