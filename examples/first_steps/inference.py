"""The language of messages, by a model that a pool of actors has: batched inference in a stream.

The model counts pairs of letters, and compares them with those of a text in each language. Each actor loads the weights
once, from a file. A batch of messages costs NumPy little more than a single one, so actors get up to 64 together.
"""

import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt

import tidewheel as tw
from examples.parts.program import by_epoch, options

TEXTS = {
    "English": "the ship leaves with the morning tide and there is nothing that we could do to hold it back for you",
    "French": "le bateau part avec la marée du matin et il ne nous reste rien que nous pourrions faire pour vous",
    "German": "das schiff fährt mit der flut am morgen und nichts von dem was wir noch tun könnten hält es auf",
}
CODES, MINUTES, MESSAGES, WORDS = 1 << 12, 5, 300, 3


def pairs(text: str) -> npt.NDArray[np.float32]:
    """Return how often each pair of letters occurs, by its code."""
    letters = np.frombuffer(f" {text} ".encode("utf-32-le"), np.uint32)
    return np.bincount((letters[:-1] * 61 + letters[1:]) % CODES, minlength=CODES).astype(np.float32)


def write_weights(path: Path) -> None:
    counts = np.stack([pairs(text) for text in TEXTS.values()])
    logarithms = np.log((counts + 0.1) / (counts + 0.1).sum(axis=1, keepdims=True))
    np.savez(path, languages=list(TEXTS), weights=logarithms.T)


class Languages:
    """Tells the language of each message of a list."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            self._languages, self._weights = file["languages"].tolist(), file["weights"]

    def __call__(self, messages: list[str]) -> list[tuple[str, str]]:
        scores = np.stack([pairs(message) for message in messages]) @ self._weights
        return [(message, self._languages[best]) for message, best in zip(messages, scores.argmax(axis=1), strict=True)]


def languages(messages: tw.Stream[str], weights: Path) -> tw.Stream[tuple[str, str]]:
    """Return each message with its language, by a model whose weights are in a file."""
    return messages.map_actors(partial(Languages, weights), replicas=2, batch_size=64, within_ms=20)


def sent(random: Random) -> dict[str, str]:
    """Return the messages of a minute, with the language of their words."""
    chosen = random.choices(list(TEXTS), k=MESSAGES)
    return {" ".join(random.sample(TEXTS[one].split(), WORDS)): one for one in chosen}


def main() -> None:
    chosen, random = options(__doc__), Random(1)
    minutes = [sent(random) for _ in range(MINUTES)]
    with tempfile.TemporaryDirectory() as folder:
        write_weights(weights := Path(folder, "languages.npz"))
        flow = tw.Dataflow("inference")
        messages = flow.source("messages", tw.IterableSource([list(enumerate(map(list, minutes)))]))
        languages(messages, weights).capture("told")
        with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job:
            job.wait(timeout_s=120)
            for minute, batches in by_epoch(job, "told").items():
                told = dict(one for batch in batches for one in batch)
                right = sum(minutes[minute][message] == name for message, name in told.items())
                print(f"minute {minute}: {right} of {len(told)} are right;", dict(Counter(sorted(told.values()))))


if __name__ == "__main__":
    main()
