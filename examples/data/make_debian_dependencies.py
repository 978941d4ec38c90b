"""Make ``debian-bookworm-dependencies.parquet`` from the package metadata that apt has on this machine.

The graph has an edge from a package to everything that its ``Depends``, ``Pre-Depends`` or ``Recommends`` field names:
each alternative of ``a | b`` is an edge, version constraints and architecture qualifiers are dropped, and a virtual
package is a node like any other. ``Pre-Depends`` counts as ``depends``. Several versions of one package give the union
of their edges. The output is a function of the metadata alone: rows are sorted and distinct.

Run it on Debian bookworm (amd64) after ``apt-get update``, with ``main`` as the only component::

    python examples/data/make_debian_dependencies.py
    apt-cache dumpavail | python examples/data/make_debian_dependencies.py --input - --output edges.parquet
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

OUTPUT = Path(__file__).with_name("debian-bookworm-dependencies.parquet")
KINDS = {"Depends": "depends", "Pre-Depends": "depends", "Recommends": "recommends"}
SCHEMA = pa.schema([(name, pa.string()) for name in ("source", "target", "kind", "section")])
PACKAGE_NAME = re.compile(r"\s*([a-z0-9][a-z0-9+.-]*)")

Edge = tuple[str, str, str, str]


def stanzas(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield one mapping of field to value per deb822 stanza; continuation lines are joined to their field."""
    fields: dict[str, str] = {}
    name = ""
    for line in lines:
        text = line.rstrip("\n")
        if not text:
            if fields:
                yield fields
            fields, name = {}, ""
        elif text[0].isspace():
            fields[name] += "\n" + text
        else:
            name, _, value = text.partition(":")
            fields[name] = value.strip()
    if fields:
        yield fields


def targets(relation: str) -> Iterator[str]:
    """Yield the package names of a relation field, every alternative included.

    >>> list(targets("libc6 (>= 2.36), python3:any | python3-minimal, mail-transport-agent"))
    ['libc6', 'python3', 'python3-minimal', 'mail-transport-agent']
    """
    for clause in relation.split(","):
        for alternative in clause.split("|"):
            match = PACKAGE_NAME.match(alternative)
            if match:
                yield match.group(1)


def edges(package: dict[str, str]) -> Iterator[Edge]:
    """Yield ``(source, target, kind, section)`` for every dependency of one package stanza."""
    section = package.get("Section", "unknown").rpartition("/")[2]
    for field, kind in KINDS.items():
        for target in targets(package.get(field, "")):
            yield package["Package"], target, kind, section


def dependency_table(lines: Iterable[str]) -> pa.Table:
    """Return the distinct edges of all amd64 and architecture-independent packages, sorted by every column."""
    packages = (stanza for stanza in stanzas(lines) if stanza.get("Architecture") in {"amd64", "all"})
    rows = sorted({edge for package in packages for edge in edges(package)})
    return pa.table([pa.array(column, pa.string()) for column in zip(*rows, strict=True)], schema=SCHEMA)


def available_packages() -> list[str]:
    """Return the lines of apt's list of available packages."""
    command = shutil.which("apt-cache")
    if command is None:
        sys.exit("apt-cache is not on PATH: run this on Debian, or pipe its `dumpavail` in with --input -")
    dump = subprocess.run([command, "dumpavail"], check=True, stdout=subprocess.PIPE, encoding="utf-8")
    return dump.stdout.splitlines()


def main() -> None:
    """Write the table and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--input", choices=["apt", "-"], default="apt", help="apt-cache, or standard input")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    table = dependency_table(sys.stdin if arguments.input == "-" else available_packages())
    pq.write_table(table, arguments.output, compression="zstd", compression_level=19, use_dictionary=True)
    sources, names = set(table["source"].to_pylist()), set(table["target"].to_pylist())
    sys.stdout.write(
        f"{arguments.output}: {table.num_rows} edges, {len(sources | names)} nodes, {len(sources)} of them sources\n"
    )


if __name__ == "__main__":
    main()
