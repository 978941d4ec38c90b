"""The example's model in a pool."""

from pathlib import Path
from random import Random

import pytest

from examples.first_steps import inference
from tests.examples.running import captured, epochs, records


@pytest.mark.parametrize("workers", [1, 2])
def test_every_message_has_one_language(tmp_path: Path, workers: int) -> None:
    """At its epoch, and nearly always that of its words."""
    random = Random(2)
    minutes = [inference.sent(random) for _ in range(3)]
    inference.write_weights(tmp_path / "languages.npz")
    found = captured(
        lambda flow: inference.languages(
            flow.source("sent", epochs(list(map(list, minutes)))), tmp_path / "languages.npz"
        ),
        workers,
    )
    for minute, sent in enumerate(minutes):
        told = records(found[minute])
        assert sorted(message for message, _ in told) == sorted(sent)
        assert sum(sent[message] == language for message, language in told) > 0.95 * len(sent)
