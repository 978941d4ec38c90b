"""The simulations of one test run: how many, from which seed, in equal chunks."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from tests.kit.seeds import seed_of


@dataclass(frozen=True, slots=True)
class SimulatedRuns:
    """The seeds of one test run.

    Attributes:
        runs: how many simulations there are.
        seed: the first seed.
        chunks: how many tests share them.
    """

    runs: int
    seed: int
    chunks: int

    @classmethod
    def asked(cls, name: str, runs: int, chunks: int, seed: int | None = None) -> "SimulatedRuns":
        """Return what the environment asks for.

        Args:
            name: of the simulations: ``TIDEWHEEL_{name}S`` has their number, ``TIDEWHEEL_{name}_SEED`` the first seed.
            runs: their number by default.
            chunks: how many tests share them.
            seed: the first seed by default; None takes one that follows from the seed of the run.
        """
        variable = f"TIDEWHEEL_{name}_SEED"
        first = seed_of(variable, bits=40) if seed is None else int(os.environ.get(variable, seed))
        return cls(int(os.environ.get(f"TIDEWHEEL_{name}S", runs)), first, chunks)

    def check(self, chunk: int, report_on: Callable[[range], str | None]) -> None:
        """Assert that the simulations of one chunk pass, and print the first seed for pytest to show otherwise."""
        print(f"simulations from seed {self.seed}")  # noqa: T201 - pytest shows it beside a failure
        each = (self.seed + number * self.runs // self.chunks for number in (chunk, chunk + 1))
        report = report_on(range(*each))
        assert report is None, report
