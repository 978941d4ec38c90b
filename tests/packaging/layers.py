"""The layers of the product: one order of folders, in which a folder imports only from those above it in the list.

`python -m tests.packaging.layers` prints the imports against the order, and writes the tables of CONTRIBUTING.md and
docs/architecture.md anew.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.packaging.repository import FACADE, PACKAGES, ROOT, Import, imports_of, name_of, shipped_modules, tree_of

LAYERS = {
    "progress": "times and their orders, antichains, path summaries, the tracker; the standard library only",
    "batches": "lists, Arrow tables and NumPy arrays: length, slices, bytes held",
    "display": "small HTML, numbers as text, cells of a notebook",
    "host": "what a process and a cluster are: Ray's private doors, names, memory, signals, log lines",
    "transport": "frames, links in a process, over sockets and by Ray calls, keys and tickets",
    "storage": "where snapshots, logs and files are kept: folders, object stores; claimed logs, locks",
    "runtime": "dataflow descriptions, tokens, workers, inputs, state, snapshots, jobs",
    "runtime/errors": "",
    "runtime/messages": "the envelope and other values that workers, driver and feeders exchange",
    "runtime/tokens": "timestamp tokens and what holds them",
    "runtime/description": "the dataflow as the user has written it, its plan and its settings",
    "runtime/drawing": "pictures of a dataflow",
    "runtime/inputs": "handles of inputs, and the processes that feed",
    "runtime/substreams": "the books of substreams",
    "runtime/explaining": "why a job waits",
    "runtime/state": "state of operators, and the cut",
    "runtime/snapshots": "what a snapshot contains, on any store of `storage/`; who owns it, recovery's data",
    "runtime/worker": "the worker core, its loop and actor, ports and operators that run",
    "runtime/telemetry": "the document of numbers that the live page and the metrics show",
    "runtime/engines": "`run`, and jobs on Ray and in one process",
    "pubsub": "topics: publishers, subscribers, logs, relays, the catalog",
    "pubsub/errors": "",
    "pubsub/messages": "wire messages, events, schemas",
    "pubsub/protocol": "best-effort delivery without I/O: publisher, subscriber, the policies for slow subscribers",
    "pubsub/log": "the durable log of one partition",
    "pubsub/exactly_once": "delivery of topics with a log, without I/O: pubends, subends, relays, subscriptions",
    "pubsub/publishers": "the actor of a partition, its log and its readers",
    "pubsub/catalog": "the list of topics: the actor and the one of this process",
    "pubsub/publications": "what a job publishes: descriptions and running publications",
    "pubsub/subscribers": "`subscribe`, `topics`, and how they read",
    "pubsub/relays": "relays between publishers and subscribers",
    "differential": "updates, arrangements, joins and reductions of collections; no I/O",
    "operators": "`Stream`, `Collection` and the operators",
    "operators/keys": "keys, hashes, orders and columns of records",
    "operators/files": "how files of each format are read",
    "operators/base": "the base of all operators' methods, and how state is divided among workers",
    "operators/epochs": "one result an epoch, and state by key",
    "operators/tables": "columns of Arrow tables",
    "operators/windows": "windows of event time",
    "operators/substreams": "divided streams",
    "operators/pools": "pools of actors with models, and the calls of workers to them",
    "operators/records": "one record at a time, routing, loops, times",
    "operators/sinks": "captures, files, topics, sinks of one's own",
    "operators/sources": "files, queues, topics, sources of one's own",
    "operators/joins": "joins of streams and tables",
    "operators/collections": "`Collection`",
    "connectors": "brokers, databases, lake tables, Ray Datasets",
    "connectors/base": "what connectors have in common: secrets of settings, records as rows, attempts",
    "connectors/object_blocks": "rows in Ray's object store, block by block: what Datasets and DataFrames share",
    "connectors/datasets": "Ray Datasets in and out",
    "connectors/delta": "tables of Delta Lake: versions in, epochs out",
    "connectors/iceberg": "Iceberg tables: snapshots in, epochs out",
    "connectors/kafka": "Kafka: topics in, epochs out",
    "connectors/nats": "NATS JetStream: streams in, epochs out",
    "connectors/postgres": "a Postgres database: its changes in, epochs out",
    "connectors/redis": "Redis Streams: streams in, epochs out",
    "spark_bridge": "Spark sessions on Ray, DataFrames in and out",
    "spark_bridge/structured_streaming": "micro-batches in, epochs out",
    "gateway": "topics over HTTP and Arrow Flight",
    "console": "the subscribers that people watch jobs with",
    "console/metrics": "metrics for Prometheus, Ray and OpenTelemetry",
    "console/page": "the live page",
    "console/terminal": "`tidewheel top` and `tail`",
    "console/notebook": "views in a notebook",
    "testing": "what users test their dataflows and sinks with",
}
"""Each folder of the product with its contents, lowest first. A module `errors.py` is below the folders beside it."""

APART = {("runtime", "pubsub"), ("pubsub", "runtime"), ("differential", "runtime"), ("differential", "pubsub")}
"""Root folders that do not import each other, whatever the order."""

TYPES_ABOVE = {
    ("runtime/tokens", "runtime/worker"),  # a token belongs to a port, which makes tokens
}
"""Folders that name types of a folder above them, under TYPE_CHECKING."""

FLUENT = {"operators/stream.py", "operators/dataflow.py", "operators/dead_letters.py"}
"""Modules whose classes have all operators as methods. Each operator returns a `Stream`, so its folder names that."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One import of a module by another one, in a folder that is above."""

    importer: Path
    imported: Path
    line: int
    is_type: bool

    def __str__(self) -> str:
        """Return it for a message."""
        return f"{name_of(self.importer)}:{self.line} imports {name_of(self.imported)}"


def folder_of(module: Path) -> str:
    """Return the layer of a module."""
    name = name_of(module).removesuffix(".py")
    return name if name in LAYERS else name.rpartition("/")[0]


def edges_upward() -> list[Edge]:
    """Return the imports against the order that nothing permits."""
    rank = {layer: float(number) for number, layer in enumerate(LAYERS)}
    # A folder's own modules stand above the folders in it, except where these stand on them.
    for layer in LAYERS:
        inside = [rank[other] for other in LAYERS if other.startswith(f"{layer}/")]
        if inside and layer != "spark_bridge":
            rank[layer] = max(inside) + 0.5
    found = []
    for module in shipped_modules():
        if module.parent == FACADE:
            continue
        for edge in _edges(module):
            above, below = folder_of(edge.imported), folder_of(module)
            roots = below.partition("/")[0], above.partition("/")[0]
            own = module.name == "__init__.py" and above.startswith(f"{below}/")  # it re-exports
            if (rank[above] > rank[below] and not own and not _is_permitted(edge, below, above)) or roots in APART:
                found.append(edge)
    return found


def _is_permitted(edge: Edge, below: str, above: str) -> bool:
    if name_of(edge.imported) in FLUENT and below.startswith("operators/"):
        return True
    return edge.is_type and (below, above) in TYPES_ABOVE


def _edges(module: Path) -> Iterator[Edge]:
    types = {
        node.lineno
        for block in ast.walk(tree_of(module))
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    for imported in imports_of(module):
        target = _module(imported)
        if target is not None and target != module:
            yield Edge(module, target, imported.line, imported.line in types)


def _module(imported: Import) -> Path | None:
    """Return the module that has an imported name; None if it is not one of a root folder."""
    parts = imported.name.split(".")
    if parts[0] != "tidewheel" or parts[1:2] == [] or parts[1] not in PACKAGES:
        return None
    for end in range(len(parts), 1, -1):
        place = ROOT.joinpath(*parts[1:end])
        if place.with_suffix(".py").is_file():
            return place.with_suffix(".py")
        if (place / "__init__.py").is_file():
            return place / "__init__.py"
    return None


TABLES = {ROOT / "CONTRIBUTING.md": False, ROOT / "docs" / "architecture.md": True}
"""The pages that have the table, and whether with the folders inside the roots."""

_TABLE = re.compile(r"(<!-- layers -->\n).*?(<!-- end of layers -->)", re.DOTALL)


def with_table(page: Path) -> str:
    """Return a page with the table of layers written anew."""
    rows = [
        f"| `{layer}/` | {contents} |"
        for layer, contents in LAYERS.items()
        if contents and (TABLES[page] or "/" not in layer)
    ]
    table = "\n".join(["| Folder | Contents |", "| --- | --- |", *rows])
    return _TABLE.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", page.read_text(encoding="utf-8"))


def _main() -> None:
    for page in TABLES:
        page.write_text(with_table(page), encoding="utf-8")
    sys.stdout.writelines(f"{edge}\n" for edge in edges_upward())


if __name__ == "__main__":
    _main()
