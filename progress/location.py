"""The places in a dataflow graph where times live."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Source:
    """An operator's output port: where tokens live. ``operator`` and ``port`` count from 0."""

    operator: int
    port: int


@dataclass(frozen=True, slots=True)
class Target:
    """An operator's input port: where messages on their way to it live. ``operator`` and ``port`` count from 0."""

    operator: int
    port: int


Location: TypeAlias = Source | Target
