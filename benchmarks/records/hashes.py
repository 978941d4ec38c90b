"""The hashes of keys: how many collide, how evenly they fill shards and workers, and how near `sample` is to its share.

A hash is of `HASH_VERSION`: a CRC-32 and an Adler-32 of the key, mixed. An Adler-32 of a short string has few different
values, so the question is whether the two together are as good as 64 random bits. Of n keys with 32 random bits,
n * n / 2**33 pairs would collide. The kinds of keys are those of everyday tables, numbered without gaps, and at random.
"""

import itertools
import string
import uuid
from collections.abc import Iterator
from random import Random

import numpy as np

from benchmarks.measuring.measurement import Report, arguments
from tidewheel.runtime.description.shards import SHARDS
from tidewheel.runtime.description.stable_hash import HASH_VERSION, hash_keys

SEED = 1
SHARE = 0.01
MOST_UNEVEN = 1.02
"""The most that the busiest of 16 workers may have, as a multiple of the mean, with a million keys."""


def main() -> None:
    options = arguments("Measure how good the hashes of keys are.")
    report = Report()
    print(f"version {HASH_VERSION}, {SHARDS:,} shards, seed {SEED}")
    for name, keys in kinds(10_000 if options.quick else 1_000_000):
        measure(report, name, keys)
    report.finish(options.json)


def kinds(many: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the kinds of keys, by name, about so many of each."""
    random = Random(SEED)
    yield "user-1", [f"user-{number}" for number in range(many)]
    yield "sensor-000001", [f"sensor-{number:06d}" for number in range(many)]
    yield "1", [str(number) for number in range(many)]
    yield (
        "abcd",
        ["".join(letters) for letters in itertools.islice(itertools.product(string.ascii_lowercase, repeat=4), many)],
    )
    yield "UUIDs", [str(uuid.UUID(int=random.getrandbits(128), version=4)) for _ in range(many)]
    yield "a1@example.com", [f"{random.choice('abcdefghij')}{number}@example.com" for number in range(many)]
    yield "https://example.com/1/2", [f"https://example.com/{number // 1000}/{number % 1000}" for number in range(many)]
    yield (
        "2026-11-28T00:00:01",
        [str(np.datetime64("2026-11-28") + np.timedelta64(number, "s")) for number in range(many)],
    )


def measure(report: Report, name: str, keys: list[str]) -> None:
    """Report what can be said of the hashes of different keys."""
    hashes = np.array(hash_keys(keys), dtype=np.uint64)
    shards = (hashes % np.uint64(SHARDS)).astype(np.int64)
    by_shard = np.bincount(shards, minlength=SHARDS)
    mean = len(keys) / SHARDS
    collisions = len(keys) - len(np.unique(hashes))
    by_worker = np.bincount(shards % 16, minlength=16)
    uneven = float(by_worker.max() / by_worker.mean())
    report.add_several(
        f"{len(keys):,} keys like {name}",
        {
            "that collide": (collisions, "keys"),
            "chi-squared of the shards, by degree of freedom": (
                float(((by_shard - mean) ** 2 / mean).sum() / (SHARDS - 1)),
                "",
            ),
            "of the mean on the busiest of 16 workers": (uneven, "times"),
            f"sampled of {SHARE:.0%}": (100 * float(np.mean(hashes < np.uint64(int(SHARE * 2**64)))), "%"),
        },
    )
    report.expect(f"{len(keys):,} keys like {name}: that collide", collisions, 0)
    if len(keys) >= 400_000:
        report.expect(f"{len(keys):,} keys like {name}: on the busiest of 16 workers, of the mean", uneven, MOST_UNEVEN)


if __name__ == "__main__":
    main()
