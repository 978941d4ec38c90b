"""The common parts of the benchmarks: the machine, medians over alternating rounds, a table, and a JSON file."""

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import tidewheel

Measured = TypeVar("Measured")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; ``least`` and ``most`` are those of all rounds, ``value`` is their median."""

    name: str
    value: float
    unit: str
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """A figure that ought to be at most ``limit``."""

    name: str
    value: float
    limit: float
    holds: bool


@dataclass(slots=True)
class Report:
    """The figures of one run, printed as they come."""

    rows: list[Row] = field(default_factory=list)
    expectations: list[Expectation] = field(default_factory=list)

    def add(self, name: str, values: Sequence[float], unit: str) -> float:
        """Add the median of several rounds, print and return it."""
        row = Row(name, statistics.median(values), unit, min(values), max(values))
        self.rows.append(row)
        spread = "" if len(values) == 1 else f"   ({row.least:,.4g} to {row.most:,.4g})"
        print(f"{name:<72} {row.value:>10,.4g} {unit}{spread}", flush=True)
        return row.value

    def add_several(self, name: str, figures: Mapping[str, tuple[float, str]]) -> None:
        """Add several figures of one thing, by what each is, as (value, unit); print them in one line."""
        self.rows += [Row(f"{name}: {what}", value, unit) for what, (value, unit) in figures.items()]
        texts = (f"{value:>10,.5g} {unit} {what}" for what, (value, unit) in figures.items())
        print(f"{name:<56}{', '.join(texts)}", flush=True)

    def expect(self, name: str, value: float, limit: float) -> None:
        """Compare a figure with what it ought to be at most."""
        self.expectations.append(Expectation(name, value, limit, value <= limit))

    def finish(self, file: Path | None) -> None:
        """Print the expectations, and write everything to ``file`` if one is given."""
        print()
        for expected in self.expectations:
            verdict = "holds" if expected.holds else "FALLS SHORT"
            print(f"{expected.name:<72} {expected.value:>10,.4g}, at most {expected.limit:,.4g}: {verdict}")
        if file is not None:
            content = {
                "machine": machine(),
                "rows": [asdict(row) for row in self.rows],
                "expectations": [asdict(expected) for expected in self.expectations],
            }
            file.write_text(json.dumps(content, indent=2) + "\n")


def machine() -> dict[str, Any]:
    """Describe what the figures were measured on."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "tidewheel": tidewheel.__version__,
    }


def arguments(description: str, *, peers: bool = False, picture: str | None = None) -> argparse.Namespace:
    """Read the options of `parser`; with the help text ``picture``, there is ``--picture FILE`` as well."""
    options = parser(description, peers=peers)
    if picture is not None:
        options.add_argument("--picture", type=Path, metavar="FILE", help=picture)
    return options.parse_args()


def parser(description: str, *, peers: bool = False) -> argparse.ArgumentParser:
    """Return what reads ``--quick`` and ``--json FILE``, and ``--peers PYTHON`` where peers have own processes."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--quick", action="store_true", help="fewer rounds and sizes: ends within a minute")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    if peers:
        text = "the interpreter that has the peers, this one by default"
        options.add_argument("--peers", default=sys.executable, metavar="PYTHON", help=text)
    return options


def alternate(
    contestants: Mapping[str, Callable[[], Measured]], rounds: int, random: Random | None = None
) -> dict[str, list[Measured]]:
    """Return what each contestant measures in each round; they take turns, so that a slow minute hits all of them.

    Args:
        contestants: what each does.
        rounds: how often.
        random: shuffles them in each round, where one leaves something behind that slows down who comes next.
    """
    found: dict[str, list[Measured]] = {name: [] for name in contestants}
    turns = list(contestants.items())
    for _ in range(rounds):
        if random is not None:
            random.shuffle(turns)
        for name, measure in turns:
            found[name].append(measure())
    return found
