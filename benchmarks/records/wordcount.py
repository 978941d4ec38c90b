"""The words counted each second: by tidewheel, in Python and on Arrow's kernels, and by other systems.

The text is in files. A turn takes from the word go until all words are counted and each contestant has said how many
there were, and how many different ones; it has done the same before, as often as its speed needs. What the peers take
for files with next to nothing in them is taken off, at most half, so that plans and clusters that they make anew each
time do not count. Beside tidewheel and its peers, in turn, what one thread of Python or Arrow can do at most.

Peers that are missing are said to be. Spark comes with tidewheel, Bytewax with its extra ``bench``. Pathway does not
take the versions of Arrow and others that tidewheel is tested with: ``python3.11 -m venv peers``, ``peers/bin/pip
install bytewax==0.21.1 pathway==0.33.0``, and then ``--peers peers/bin/python`` runs both there.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from socket import create_server
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

import tidewheel as tw
from benchmarks.measuring.measurement import Report, arguments
from benchmarks.measuring.peer_processes import PeerMissingError, PeerProcesses, program
from benchmarks.measuring.transport_floor import ray_cluster
from benchmarks.measuring.wordcount_text import blocks_of, files_of, write_parts, write_text
from tidewheel.runtime.description.plan import Schedule

if TYPE_CHECKING:
    import pyarrow as pa

DEADLINE_S = 120.0
PROGRAM = "contestants.wordcount_peers"
PLAIN, COLUMNAR = "tidewheel, Python functions", "tidewheel, Arrow's kernels"
BYTEWAX, PATHWAY, SPARK = "Bytewax", "Pathway", "Spark SQL"
LIMITS = [(PLAIN, BYTEWAX, 2), (COLUMNAR, BYTEWAX, 5), (COLUMNAR, SPARK, 1)]
"""Two contestants each, and how many times as fast as the second the first has to be."""
MANY, FEW, QUICK = 5, 3, 1
"""The turns of fast contestants, of slow ones, and of all of them with ``--quick``."""


def main() -> None:
    options = arguments("Measure how many words a second are counted.", peers=True)
    report = Report()
    with TemporaryDirectory(prefix="words") as folder, ray_cluster(), ExitStack() as running:
        text = Text(Path(folder), parts=2, every=5) if options.quick else Text(Path(folder), parts=10, every=1)
        measure(report, running, text, options.peers, quick=options.quick)
    report.finish(options.json)


class Text:
    """What is counted.

    Attributes:
        files: the folder it is in.
        words: how many words there are.
        nothing: a folder with as many files, which have one word each.
    """

    def __init__(self, folder: Path, *, parts: int, every: int) -> None:
        self.files = folder / "text"
        self.nothing = folder / "nothing"
        self.words = write_text(self.files, parts, every)
        write_parts(self.nothing, parts, "word\n")
        print(f"{self.words:,} words in {parts} files", flush=True)


def measure(report: Report, running: ExitStack, text: Text, peers: str, *, quick: bool) -> None:
    """Let the contestants take turns; report them, and how ours compare with others."""
    turns: dict[str, Callable[[], float]] = {}
    for workers in (1, 2):
        for name, describe in ((PLAIN, count_plain), (COLUMNAR, count_columnar)):
            turns[f"{name}, {workers} worker{'s' * (workers - 1)}"] = deployed(running, text, describe, workers)
    rounds = dict.fromkeys(turns, MANY)
    for name, peer in all_peers(peers).items():
        try:
            turns[name] = started(running, text, peer, most=1 if quick else MANY)
            rounds[name] = peer.rounds
        except PeerMissingError as error:
            print(f"{name}: missing ({error})")
    rates: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(QUICK if quick else MANY):
        for name, turn in turns.items():
            if number < rounds[name]:
                rates[name].append(text.words / turn())
    found = {name: report.add(name, figures, "words/s") for name, figures in rates.items()}
    for ours, theirs, times in LIMITS:
        compare(report, found, ours, theirs, times)


def compare(report: Report, found: dict[str, float], ours: str, theirs: str, times: float) -> None:
    """Expect that ours is so many times as fast as theirs, each with as many workers as are best for it."""
    our_best, their_best = (
        max((rate for name, rate in found.items() if name.startswith(kind)), default=None) for kind in (ours, theirs)
    )
    if our_best is not None and their_best is not None:
        report.expect(f"{theirs}: words a second over those of {ours}, ratio", their_best / our_best, 1 / times)


# ---------------------------------------------------------------------- tidewheel


def count_plain(blocks: tw.Stream[bytes]) -> tw.Stream[Any]:
    lines = blocks.flat_map(lambda block: block.decode().splitlines())
    return lines.flat_map(str.split).count().map_batches(count_pairs)


def count_pairs(counts: list[tuple[str, int]]) -> list[tuple[int, int]]:
    return [(sum(number for _, number in counts), len(counts))]


def count_columnar(blocks: tw.Stream[bytes]) -> tw.Stream[Any]:
    from pyarrow.compute import field

    words = blocks.map_batches(as_lines).map_batches(as_words)
    return words.group_by("word").aggregate(n="count_all").filter(field("word") != "").map_batches(count_rows)


def as_lines(blocks: list[bytes]) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    return pa.table({"line": pc.list_flatten(pc.split_pattern(pa.array(blocks, pa.string()), "\n"))})


def as_words(lines: "pa.Table") -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    return pa.table({"word": pc.list_flatten(pc.ascii_split_whitespace(lines["line"]))})


def count_rows(counts: "pa.Table") -> list[tuple[int, int]]:
    import pyarrow.compute as pc

    return [(pc.sum(counts["n"]).as_py(), counts.num_rows)]


def deployed(
    running: ExitStack, text: Text, describe: Callable[[tw.Stream[bytes]], tw.Stream[Any]], workers: int
) -> Callable[[], float]:
    """Deploy a dataflow that counts the text once an epoch, let two go by, and return what measures the next."""
    flow = tw.Dataflow("wordcount")
    blocks = flow.input("folders", str).broadcast().unary(build_read, name="read")
    describe(blocks).probe("done").capture("totals")
    job = running.enter_context(deploy(flow, workers))
    running.callback(job.stop)
    turn = partial(epoch, job, text, count())
    turn()
    turn()
    return turn


def deploy(flow: tw.Dataflow, workers: int) -> tw.types.Job:
    return tw.run(flow, workers=workers)


def build_read(context: tw.OperatorContext) -> Schedule:
    """Build an operator that sends this worker's share of the files in a folder, a block each time it is called."""
    reading: list[tuple[tw.TimestampToken, Iterator[bytes]]] = []

    def schedule(folders: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in folders:
            files = [file for folder in batch for file in files_of(Path(folder))[context.worker :: context.workers]]
            reading.append((lent.retain(), (block for file in files for block in blocks_of(file))))
        if not reading:
            return
        token, blocks = reading[0]
        block = next(blocks, None)
        if block is None:
            token.discard()
            del reading[0]
        else:
            output.send(token, [block])
        if reading:
            context.activate()

    return schedule


def epoch(job: tw.types.Job, text: Text, epochs: "count[int]") -> float:
    """Let one epoch go through; return how many seconds it took."""
    time = next(epochs)
    began = perf_counter()
    job.input("folders").send([str(text.files)])
    job.input("folders").advance_to(time + 1)
    job.probe("done").wait_until(time + 1, timeout_s=DEADLINE_S)
    took = perf_counter() - began
    totals = [total for captured in job.captured("totals") if captured.time == time for total in captured.batch]
    assert sum(words for words, _ in totals) == text.words, totals
    return took


# ---------------------------------------------------------------------- what it is compared with


@dataclass(frozen=True, slots=True)
class Peer:
    """A contestant in processes of its own: what starts each, how many turns warm it up, and how many count then."""

    commands: list[list[str]]
    warm_up: int
    rounds: int


def all_peers(python: str) -> dict[str, Peer]:
    """Return all, by name; those with dependencies of their own run on ``python``."""
    addresses = free_addresses(2)
    two = [program(PROGRAM, "bytewax", number, *addresses, python=python) for number in range(2)]
    return {
        f"{SPARK}, local[2]": Peer([program(PROGRAM, "spark", 2)], 5, MANY),
        f"{BYTEWAX}, 1 process": Peer([program(PROGRAM, "bytewax", 0, python=python)], 0, FEW),
        f"{BYTEWAX}, 2 processes": Peer(two, 0, FEW),
        f"{PATHWAY}, 2 threads": Peer([program(PROGRAM, "pathway", 2, python=python)], 0, 1),
        "collections.Counter, 1 thread, the most that Python can do": Peer([program(PROGRAM, "counter")], 1, MANY),
        "Arrow's kernels, 1 thread": Peer([program(PROGRAM, "arrow")], 1, MANY),
    }


def free_addresses(number: int) -> list[str]:
    with ExitStack() as opened:
        servers = [opened.enter_context(create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [f"127.0.0.1:{server.getsockname()[1]}" for server in servers]


def started(running: ExitStack, text: Text, peer: Peer, most: int) -> Callable[[], float]:
    """Start a peer, let it warm up by ``most`` turns at most, and return what measures one.

    Raises:
        PeerMissingError: it does not start.
    """
    processes = running.enter_context(PeerProcesses(peer.commands))
    for _ in range(min(peer.warm_up, most)):
        asked(processes, text.files)
    set_up = min(asked(processes, text.nothing)[0] for _ in range(3))

    def turn() -> float:
        took, words = asked(processes, text.files)
        assert words == text.words, f"{words:,} of {text.words:,} words were counted"
        return max(took - set_up, took / 2)

    return turn


def asked(processes: PeerProcesses, folder: Path) -> tuple[float, int]:
    """Return how many seconds the words in a folder take to be counted, and how many there are."""
    began = perf_counter()
    answers = processes.ask(str(folder))
    return perf_counter() - began, sum(int(answer.split()[0]) for answer in answers)


if __name__ == "__main__":
    main()
