"""Random pipelines over records of classes of every kind, on Ray and in one process: ``... SEED PIPELINES``.

As a program it is its own main program, which other processes cannot import; as a module, it can be imported. It says
which pipelines had other results on Ray, as a line of JSON each, and how many there were. A class of pydantic is among
the kinds where that is installed.
"""

import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, Flag, IntEnum
from importlib.util import find_spec
from typing import Any, Generic, NamedTuple, TypeVar

import tidewheel as tw

T = TypeVar("T")


class Counting(type):
    """A metaclass."""

    def numbered(cls, n: int) -> Any:
        """Make an instance."""
        return cls(n)


@dataclass(frozen=True)
class Deposit:
    n: int


@dataclass(frozen=True, slots=True)
class Slotted:
    n: int


@dataclass(frozen=True)
class Transfer(Deposit):
    note: str = "none"


class Card(NamedTuple):
    n: int
    text: str = "card"


class Kind(Enum):
    FIRST = 0
    SECOND = 1
    THIRD = 2

    @property
    def n(self) -> int:
        return int(self.value)


class Level(IntEnum):
    LOW = 0
    MIDDLE = 1
    HIGH = 2

    @property
    def n(self) -> int:
        return int(self)


class Right(Flag):
    READ = 1
    WRITE = 2

    @property
    def n(self) -> int:
        return int(self.value)


class Outer:
    @dataclass(frozen=True)
    class Inner:
        n: int


@dataclass(frozen=True)
class Box(Generic[T]):
    n: T


class Plain:
    """Compares by hand, and says how it is pickled."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and other.n == self.n

    def __hash__(self) -> int:
        return hash(self.n)

    def __reduce__(self) -> Any:
        return made_plain, (self.n,)


def made_plain(n: int) -> Plain:
    """Make it again."""
    return Plain(n)


class Numbered(metaclass=Counting):
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return type(other) is Numbered and other.n == self.n

    def __hash__(self) -> int:
        return hash(self.n)


def local_class() -> type:
    """Make a class in a function."""

    @dataclass(frozen=True)
    class Local:
        n: int

    return Local


Local: Any = local_class()

MAKE: dict[type, Callable[[int], Any]] = {
    Deposit: Deposit,
    Slotted: Slotted,
    Transfer: Transfer,
    Card: Card,
    Kind: lambda n: Kind(n % 3),
    Level: lambda n: Level(n % 3),
    Right: lambda n: Right(1 + n % 3),
    Outer.Inner: Outer.Inner,
    Box: Box,
    Plain: Plain,
    Numbered: Numbered.numbered,
}
if find_spec("pydantic") is not None:
    from pydantic import BaseModel, ConfigDict

    class Model(BaseModel):
        model_config = ConfigDict(frozen=True)
        n: int

    MAKE[Model] = lambda n: Model(n=n)
if __name__ == "__main__":  # each process that imports a module has another class of its functions
    MAKE[Local] = Local
KINDS = list(MAKE)
KEYS = [Card, Kind, Level]
"""The kinds that can be keys, of which it matters whether they are equal in another process."""


def make(number: int, n: int) -> Any:
    """Make a record of a kind."""
    return MAKE[KINDS[number]](n)


def shown(record: Any) -> Any:
    """Return a record as plain values; it says "another" of one that is of none of the classes of this process."""
    if type(record) is tuple:
        return [shown(part) for part in record]
    if type(record) in MAKE:
        return [
            KINDS.index(type(record)),
            record.n,
            record == MAKE[type(record)](record.n) or isinstance(record, Right),
        ]
    return record if type(record) in {int, str, type(None)} else f"another {record!r}"


def matched(record: Any) -> int:
    """Tell what a record is by its pattern."""
    match record:
        case Transfer(n=n, note="none"):
            return 1000 + int(n)
        case Deposit(n=n):
            return 2000 + int(n)
        case Card(n, "card"):
            return 3000 + n
        case Kind.FIRST | Level.HIGH:
            return 4000
        case Outer.Inner() | Box() | Local():
            return 5000
        case _:
            return int(record.n)


def step(stream: Any, rng: random.Random) -> Any:
    """Add a random operator to a stream of records."""
    a, b, n = rng.randrange(len(KINDS)), rng.randrange(len(KINDS)), rng.randrange(5)
    one, some = make(a, n), {make(b, k) for k in range(3)}
    kind, key = KINDS[a], KEYS[rng.randrange(len(KEYS))]

    def keyed(record: Any) -> Any:
        return MAKE[key](record.n)

    def sets(records: Any) -> Any:
        merged = records.accumulate(keyed, start=set, add=lambda seen, record: seen | {record})
        return merged.flat_map(lambda pair: sorted(pair[1], key=lambda record: (str(type(record)), record.n)))

    def join(records: Any) -> Any:
        joined = records.join(records.map(keyed).distinct(), keyed, lambda record: record)
        return joined.map(lambda row: row[1] if isinstance(row[0], key) and not isinstance(row[1], key) else row[-1])

    def replace(record: Any) -> Any:
        return make(b, matched(record) % 7) if type(record) is kind else record

    choices: list[Callable[[Any], Any]] = [
        sets,
        join,
        lambda records: records.filter(lambda record: isinstance(record, kind) or record.n % 2),
        lambda records: records.filter(lambda record: record != one),
        lambda records: records.filter(lambda record: record not in some),
        lambda records: records.map(replace),
        lambda records: records.exchange(keyed),
        lambda records: records.concat(records.map(lambda record: make(a, record.n))),
        lambda records: records.rebalance().filter(lambda record: matched(record) % 3 != n % 3),
        lambda records: records.deduplicate(lambda record: (keyed(record), KINDS.index(type(record)), record.n)),
    ]
    return rng.choice(choices)(stream)


def pipeline(name: str, seed: int) -> tw.Dataflow:
    """Describe a random pipeline over an input ``"records"``."""
    rng = random.Random(seed)
    flow = tw.Dataflow(name)
    stream: Any = flow.input("records")
    for _ in range(rng.randint(1, 5)):
        stream = step(stream, rng)
    stream.capture("records")
    key = KEYS[rng.randrange(len(KEYS))]
    stream.map(lambda record: MAKE[key](record.n)).concat(stream.filter(lambda r: type(r) is key)).count().capture(
        "counts"
    )
    return flow


def epochs(seed: int) -> Iterator[list[Any]]:
    """Return random records, epoch by epoch."""
    rng = random.Random(-seed)
    for _ in range(rng.randint(1, 3)):
        yield [make(rng.randrange(len(KINDS)), rng.randrange(6)) for _ in range(rng.randint(0, 30))]


def results(job: tw.types.Job, seed: int) -> dict[str, list[str]]:
    """Run a job, and return what it has captured, in order."""
    with job.input("records") as records:
        for time, batch in enumerate(epochs(seed)):
            records.advance_to(time)
            records.send(batch)
    job.wait(timeout_s=60)
    found = {
        name: [shown(one) for entry in job.captured(name) for one in entry.batch] for name in ("records", "counts")
    }
    return {name: sorted(map(json.dumps, values)) for name, values in found.items()}


def say(found: dict[str, Any]) -> None:
    """Write a line for the test that reads it."""
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def main(seed: int, pipelines: int) -> None:
    """Run all on both engines."""
    host = tw.Dataflow("host")
    host.input("nothing").probe("nothing")
    different = records = 0
    with tw.run(host, workers=2) as workers:
        for number in range(pipelines):
            each = seed + number
            with tw.run(pipeline(f"p{number}", each), workers=2, engine="local") as job:
                expected = results(job, each)
            with workers.add(pipeline(f"p{number}", each)) as job:
                found = results(job, each)
            records += sum(map(len, expected.values()))
            if found != expected:
                different += 1
                say({"seed": each, "local": expected, "ray": found})
        workers.input("nothing").close()
    say({"pipelines": pipelines, "records": records, "different": different})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
