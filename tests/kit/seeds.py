"""The seeds of tests that choose at random. All follow from the seed of the run, which pytest prints at its top."""

import os
import secrets
from random import Random

RUN = "TIDEWHEEL_RUN_SEED"
"""The variable that has the seed of the run; tests/conftest.py sets it."""


def seed_of(name: str, bits: int = 32) -> int:
    """Return what the environment variable of this name says, or else a number that follows from the run's seed.

    Args:
        name: of the variable, such as ``TIDEWHEEL_KILLS_SEED``.
        bits: how large the number may be.
    """
    asked = os.environ.get(name)
    return int(asked) if asked else Random(f"{os.environ.get(RUN, secrets.randbits(32))} {name}").getrandbits(bits)
