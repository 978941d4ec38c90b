"""One worker's share of a growing web: its pages with their links, and the weight that they pass on."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from node_arrays import distinct
from rounds import Round

FOLLOW = 0.85
"""How likely it is that a visitor follows a link."""


class WebShare:
    """The pages that one worker owns: their links, the weight that each has passed on, and what it is to pass yet."""

    def __init__(self, pages: int, least: float) -> None:
        self.least = least
        self.source, self.target = np.empty(0, np.int64), np.empty(0, np.int64)
        self.known, self.passed, self.waiting = np.zeros(pages, bool), np.zeros(pages), np.zeros(pages)

    def work(self, number: int, entered: list[pa.Table], returned: list[pa.Table]) -> Round:
        """Take links and weight, and pass on what has become large enough."""
        before = self.parts(self.passed) if entered else 0
        for links in entered:
            self.source = np.concatenate([self.source, links["source"]])
            self.target = np.concatenate([self.target, links["target"]])
            self.meet(links["source"].to_numpy())
        offers = self.parts(self.passed) - before if entered else 0
        for table in returned:
            self.meet(table["page"].to_numpy())
            np.add.at(self.waiting, table["page"].to_numpy(), table["weight"].to_numpy())
        passing = np.where(np.abs(self.waiting) > self.least, self.waiting, 0)
        self.waiting -= passing
        self.passed += passing
        return Round([(1, table_of("weight", offers + self.parts(passing)))], table_of("change", passing))

    def meet(self, pages: npt.NDArray[Any]) -> None:
        """Give pages that were not known before the weight of visits that begin there."""
        new = distinct(pages[~self.known[pages]])
        self.known[new] = True
        self.waiting[new] += 1 - FOLLOW

    def parts(self, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what each page gets if every page passes on so much."""
        each = FOLLOW * weights / np.maximum(1, np.bincount(self.source, minlength=len(weights)))
        return np.bincount(self.target, each[self.source], minlength=len(weights))


def table_of(name: str, values: npt.NDArray[Any]) -> pa.Table:
    """Return the pages whose value is not 0, with that value."""
    pages = np.flatnonzero(values)
    return pa.table({"page": pages, name: values[pages]})
