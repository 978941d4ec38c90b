"""Operators by which results leave a dataflow, and probes of its progress."""

import os
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, Literal, Self

import cloudpickle

from tidewheel.batches.batches import Batch, records
from tidewheel.operators.base.stream_base import (
    Record,
    Result,
    StreamBase,
    callback,
    caught_by,
    check_positive,
)
from tidewheel.operators.epochs.gathered_epochs import build_gathered
from tidewheel.operators.keys.record_hash import GatherPact
from tidewheel.operators.sinks.capture import build_capture
from tidewheel.operators.sinks.covered import build_covered
from tidewheel.operators.sinks.epoch_objects import EpochObjects
from tidewheel.operators.sinks.file_formats import FileFormat
from tidewheel.operators.sinks.publish import build_publish, declared_schema, publish_pact
from tidewheel.operators.sinks.sink import PART_BYTES, Sink, SinkOperators, sink_operators
from tidewheel.operators.sinks.write_files import EpochFolders, WrittenEpoch
from tidewheel.progress import GraphError, ProductDomain, Time
from tidewheel.pubsub.protocol.publisher import DEFAULT_CAPACITY_BYTES
from tidewheel.pubsub.publications.publication import Publication
from tidewheel.pubsub.publishers.topic_log import Log, topic_log
from tidewheel.runtime.description.origin import adds_operators
from tidewheel.runtime.description.plan import EndsWanted
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.storage.store_url import absolute, is_place, is_url, local_path

if TYPE_CHECKING:
    from tidewheel.operators.dead_letters import DeadLetters
    from tidewheel.operators.stream import Stream


class OutputOperators(StreamBase[Record]):
    """The methods of streams for files, topics and other readers outside of the dataflow."""

    __slots__ = ()

    def probe(self, name: str) -> Self:
        """Let ``job.probe(name)`` tell which times are complete here; records are not delayed. Returns this stream.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("probed")
        >>> _ = flow.input("numbers").map(str).probe("done")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("numbers") as numbers:
        ...         numbers.send([1, 2])
        ...         numbers.advance_to(1)
        ...         job.probe("done").wait_until(1)
        ...         job.probe("done").has_completed(0)
        True
        """
        self._description.register("probe", name, self._outlet.source)
        return self

    def ignore(self) -> Self:
        """Declare that this stream, for example the late records of windows, needs no reader. Returns this stream.

        A job warns of an unread stream that is not ignored; `Job.statistics` counts its records as ``records_dropped``.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("small ones")
        >>> small, rest = flow.source("numbers", tw.RecordSource([1, 20, 3])).branch(lambda n: n < 9)
        >>> _ = small.capture("small"), rest.ignore()
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("small"), job.statistics().operators["branch"].records_dropped
        ([Captured(time=0, batch=[1, 3])], 1)
        """
        self._description.ignored.add(self._outlet.source)
        return self

    def capture(self, name: str) -> Self:
        """Keep the records of this stream on their worker for ``job.captured(name)``. Returns this stream.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("captured")
        >>> _ = flow.source("words", tw.RecordSource(["to", "be"])).capture("words").map(str.upper).capture("loud")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("words"), job.captured("loud")
        ([Captured(time=0, batch=['to', 'be'])], [Captured(time=0, batch=['TO', 'BE'])])
        """
        self._description.register("capture", name, self._description.size)
        self._operator(f"capture {name}", [], 0, build_capture, notify=False)
        return self

    def capture_to(self, folder: str | os.PathLike[str], *, overwrite: bool = False, name: str | None = None) -> Self:
        """Write this stream to a folder, from which `ReplaySource` plays it again. Returns this stream.

        Each worker writes a log of its batches and its frontiers. Arrow stays Arrow. Other records must be plain
        values: None, numbers, text, bytes, dates and times, and tuples, lists, dicts and sets of those. Nothing is
        pickled, so it is safe to play a recording from someone else.

        Args:
            folder: a path, not a URL, that all nodes see.
            overwrite: True to replace the logs of another run; otherwise existing logs fail the job. A job that
                continues with the same folder of snapshots is the same run.
            name: the operator's name.

        Raises:
            GraphError: ``folder`` is not a folder, or this dataflow captures to it already.

        >>> import tempfile
        >>> import tidewheel as tw
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     flow = tw.Dataflow("recording")
        ...     _ = flow.source("words", tw.RecordSource(["to", "be"])).capture_to(folder)
        ...     with tw.run(flow, engine="local") as job:
        ...         job.wait()
        ...     again = tw.Dataflow("again")
        ...     _ = again.source("words", tw.ReplaySource(folder)).capture("words")
        ...     with tw.run(again, engine="local") as job:
        ...         job.wait()
        ...         job.captured("words")
        [Captured(time=0, batch=['to', 'be'])]
        """
        from tidewheel.operators.sinks.capture_to import build_capture_to

        path = local_path(folder, "capture_to: a folder", GraphError).absolute()
        self._claim("capture_to", str(path.resolve()), f"writes to {str(path)!r}")
        build = build_capture_to(path, overwrite=overwrite)
        self._operator(name or f"capture_to {path.name}", [], 0, build)
        return self

    def publish(  # noqa: PLR0913 - each says something of its own, and most may be left out
        self,
        topic: str,
        *,
        partition: Literal["worker", "merged"] = "worker",
        schema: object = None,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        log: Log | None = None,
        ends: bool = False,
        wait_for: int = 0,
        visible: Literal["epoch", "snapshot"] = "epoch",
        history: bool = False,
        name: str | None = None,
    ) -> Self:
        """Publish this stream live as a topic; see `tidewheel.subscribe`. Returns this stream.

        Args:
            topic: its name, unique among running jobs; names that begin with "tidewheel/" are reserved.
            partition: with ``"worker"``, each worker publishes its records in a partition of its own. With
                ``"merged"``, worker 0 publishes all records in one partition.
            schema: the `pyarrow.Schema` of the batches, or the type of the records, such as ``int``, ``tuple[str,
                int]`` or a dataclass. A batch that differs fails the job. Metadata and nullability of schemas do not
                matter, and subclasses of a type are accepted, so a bool is an int. By default the schema of the stream,
                if it is known.
            capacity_bytes: how many bytes each partition keeps for one slow subscriber. A log keeps any number of
                bytes.
            log: a `Log` for exactly-once delivery: it keeps every batch until all subscriptions have acknowledged it,
                and needs ``engine="ray"``. Without one, delivery is best effort.
            ends: whether subscribers get the keys of ended substreams, as `Epoch.ended`. Each end comes once, with the
                epoch of the substream's last records or a later epoch. Ends in dropped epochs are lost. Records go to
                the worker of their substream. With exactly-once delivery each run needs a new log.
            wait_for: the number of subscribers for which each partition waits before it publishes, so that they
                receive the first epochs. Meanwhile sources are held back; a log line says so after 5 s. With
                exactly-once delivery, durable subscriptions of earlier runs count, and a log with messages waits for
                none.
            visible: ``"snapshot"`` publishes an epoch once a snapshot has it; until then each worker keeps its records.
                So a job that goes back publishes the same again, even if operators read clocks or random numbers.
            history: True if the records are changes, as from `Collection.changes`: each subscriber first gets their
                sum.
            name: the operator's name.

        Raises:
            GraphError: this dataflow publishes that topic already, or ``ends`` is True for a stream without ends.
            DeliveryError: an argument is wrong, or the stream is known to have another schema.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("live")
        >>> _ = flow.input("words").publish("words of today", schema=str)
        >>> with tw.run(flow, engine="local") as job, tw.subscribe("words of today") as topic:
        ...     with job.input("words") as words:
        ...         words.send(["to", "be"])
        ...     [(epoch.time, epoch.records) for epoch in topic.epochs()]
        [(0, ['to', 'be'])]
        """
        declared = declared_schema(topic, schema, self.schema)
        domain, kept = self.nesting.domain, topic_log(topic, log)
        publication = Publication(topic, domain, capacity_bytes, partition, declared, kept, ends, wait_for, history)
        check_positive(f"publish {topic!r}", "wait_for", wait_for, least=0)
        if ends:
            self._check_ends(publication)
        shown = self._shown_with(topic, visible, ends=ends)
        self._description.attach(topic, publication)
        self._description.register("topic", topic, self._description.size)
        wanted = EndsWanted(ordered=False) if ends else False
        pact = publish_pact(publication)
        shown._operator(name or f"publish {topic}", [], 0, build_publish(publication), [pact], by_substream=wanted)
        return self

    def _shown_with(self, topic: str, visible: object, *, ends: bool) -> "Stream[Any] | Self":
        if visible not in ("epoch", "snapshot"):
            raise GraphError(f"publish {topic!r}: visible is 'epoch' or 'snapshot', not {visible!r}")
        if visible == "epoch":
            return self
        if ends:
            raise GraphError(f"publish {topic!r}: visible='snapshot' does not go with ends=True: leave out one of them")
        stream = self._made(self._outlet, self.schema)
        whole = stream.without_substreams() if self._outlet.substreams else stream
        return whole._unary(f"publish {topic}: wait for a snapshot", build_covered(topic), schema=self.schema)

    def _check_ends(self, publication: Publication) -> None:
        where = f"publish {publication.topic!r} with ends=True"
        if not self._outlet.substreams:
            raise GraphError(
                f"{where}: the stream has no substreams, so none ends: call substreams(name, key=...) before, or "
                "publish before without_substreams()"
            )
        if isinstance(publication.domain, ProductDomain):
            raise GraphError(
                f"{where}: inside a loop, or at pairs, times are in no order, so a substream ends with no one epoch. "
                "Publish what leaves the loop"
            )

    @adds_operators()
    def for_each_epoch(
        self, function: Callable[[Time, list[Record]], Result], *, name: str = "for_each_epoch"
    ) -> "Stream[Result]":
        """Call ``function(time, records)`` once for each complete epoch with records, and send its result.

        Worker 0 calls the function, in order of time, and holds each epoch in memory. A probe after the operator tells
        for which epochs the call has returned. `inspect` and `inspect_batches` get records as they arrive.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("reports")
        >>> numbers = flow.source("numbers", tw.RecordSource(range(6), batch_size=3, epoch_every=1))
        >>> _ = numbers.for_each_epoch(lambda time, records: print(time, sum(records))).probe("reported")
        >>> with tw.run(flow, workers=2, engine="local") as job:
        ...     job.wait()
        0 3
        1 12
        """
        call = callback("for_each_epoch", function)

        def process(_: object, batches: list[list[Batch]], token: TimestampToken) -> list[list[Batch]]:
            return [[[call(token.time, [record for batch in batches[0] for record in records(batch)])]]]

        return self._unary(name, build_gathered(1, process), GatherPact())._for_effect()

    @adds_operators("sink", "part_bytes", "visible", "dead_letters")
    def sink(
        self,
        sink: Sink,
        *,
        visible: Literal["snapshot", "epoch"] = "snapshot",
        part_bytes: int = PART_BYTES,
        dead_letters: "DeadLetters | None" = None,
        name: str = "sink",
    ) -> "Stream[Time]":
        """Store each epoch in a destination of your own, completely and once, even if processes crash; see `Sink`.

        The returned stream has the time of each committed epoch; a probe on it tells up to which epoch all are
        committed. A job that is started again, from a snapshot or from its beginning, skips committed epochs. So a run
        with other data needs another destination.

        Args:
            sink: the destination, which is pickled and sent to the workers.
            visible: ``"snapshot"`` commits an epoch once a snapshot has it, so the program need not be deterministic.
                ``"epoch"``, and any job without ``snapshots=``, commits an epoch when it is complete. Then an epoch
                that is computed again after a crash must have the same records.
            part_bytes: how many bytes of an epoch, in memory, a worker gathers before it prepares a part.
            dead_letters: receives records that `Sink.refused` names, at their epoch, when that is complete; None fails
                the job at them. A run that leaves out an epoch, since it is committed, sends no letters for it.
            name: the operator's name.

        Raises:
            GraphError: an argument is wrong, an equal sink is in use in this dataflow, or times are not totally ordered
                here, as in a loop.

        >>> import tidewheel as tw
        >>> class Printer(tw.Sink):  # it forgets what it has printed, and so is no good one
        ...     def commit(self, epoch, parts):
        ...         print(epoch, sorted(record for part in parts for record in part))
        ...
        ...     def last_committed(self):
        ...         return None
        >>> flow = tw.Dataflow("printed")
        >>> numbers = flow.source("numbers", tw.RecordSource(range(6), batch_size=3, epoch_every=1))
        >>> _ = numbers.sink(Printer())
        >>> with tw.run(flow, workers=2, engine="local") as job:
        ...     job.wait()
        0 [0, 1, 2]
        1 [3, 4, 5]
        """
        check_positive("sink", "part_bytes", part_bytes)
        made = sink_operators(sink, self.nesting.domain, part_bytes, visible)
        caught = caught_by(self._description, "sink", dead_letters)
        if caught and type(sink).refused is Sink.refused:
            raise GraphError(
                f"sink: a {type(sink).__qualname__} has no method refused(records), which says which records it would "
                "not take: leave out dead_letters="
            )
        equal = sha256(cloudpickle.dumps(sink)).hexdigest()  # a pickle may have a password, and names are shown
        self._claim("sink", equal, f"stores into an equal {type(sink).__qualname__}")
        return self._committed(name, replace(made, caught=caught), dead_letters)

    def _committed(self, name: str, made: SinkOperators, dead_letters: "DeadLetters | None" = None) -> "Stream[Any]":
        made = replace(made, key=f"{name} {self._description.size}")  # another sink may have its name
        parts = self._unary(name, made.build_prepare)
        if dead_letters is not None:
            parts = parts._without_letters(name, dead_letters)
        if made.waits:
            parts = parts._unary(f"{name}: wait for a snapshot", build_covered(sink=made.key))
        return parts._unary(f"{name}: commit", made.build_commit, GatherPact())._for_effect()

    @adds_operators("folder", "compression", "visible", "overwrite", "file_bytes")
    def write_files(
        self,
        folder: str | os.PathLike[str],
        format: Literal["parquet", "csv", "jsonl", "arrow", "text"] = "parquet",  # noqa: A002 - as pandas and Spark
        *,
        compression: Literal["gzip", "zstd", "bz2", "lz4", "snappy", "brotli"] | None = None,
        visible: Literal["snapshot", "epoch"] = "snapshot",
        overwrite: bool = False,
        file_bytes: int = PART_BYTES,
        name: str = "write_files",
    ) -> "Stream[WrittenEpoch]":
        """Write each epoch to a folder of its own, such as ``epoch=7``, which appears when it is complete.

        Each worker writes its files in a hidden folder. Worker 0 renames it when all files of the epoch are on disk and
        a snapshot has the epoch; without snapshots, when the epoch is complete. The returned stream has each epoch that
        readers can see; a probe on it tells up to which epoch they can see all. An epoch without records has no folder.
        Only one job at a time may write to ``folder``; it first removes the files that failed runs have left.

        Object stores cannot rename. There worker 0 puts a manifest, ``_epochs/epoch=7.json``, unless it exists. The
        manifest has the names of the epoch's files, and `FileSource` reads only these.

        Args:
            folder: the parent of the epochs' folders: a path that all nodes see, or a URL: ``s3://``, ``gs://``,
                ``az://`` or ``file://``.
            format: ``"parquet"``, ``"csv"``, ``"arrow"`` for Arrow IPC, ``"jsonl"`` with one record a line, or
                ``"text"``, whose records are lines. Rows of Arrow, dicts, named tuples and dataclasses have columns. In
                Parquet, CSV and Arrow a plain tuple has the columns "_1", "_2" and so on, as in Spark, and any other
                record has the column "value". The records of a file decide the types of its columns, so files may
                differ, unless records are Arrow tables of one schema. JSON has null for NaN and infinity, and
                times in ISO 8601.
            compression: the codec of files. Parquet (by default with snappy) and Arrow compress inside the file; other
                files are compressed as a whole, and have a name such as ``part.csv.gz``.
            visible: ``"snapshot"`` shows an epoch once a snapshot has it, so the program need not be deterministic.
                ``"epoch"``, and any job without ``snapshots=``, shows an epoch when it is complete. Then an epoch that
                is computed again after a crash must have the same records. A `Source` that reads several partitions,
                such as files, and assigns no epochs, does not guarantee this.
            overwrite: True to replace the epochs of another run; an epoch is then missing for a moment. Otherwise
                existing epochs fail the job. A job that continues with the same folder of snapshots is the same run.
            file_bytes: how many bytes of an epoch, in memory, a worker gathers before it writes a file.
            name: the operator's name.

        Raises:
            GraphError: an argument is wrong, or this dataflow writes to that folder already.

        >>> import tempfile
        >>> from pathlib import Path
        >>> import tidewheel as tw
        >>> numbers = tw.RecordSource(range(6), batch_size=3, epoch_every=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     flow = tw.Dataflow("writing")
        ...     written = flow.source("numbers", numbers).write_files(folder, "jsonl")
        ...     _ = written.map(lambda epoch: (epoch.time, Path(epoch.path).name, epoch.records)).capture("written")
        ...     with tw.run(flow, engine="local") as job:
        ...         job.wait()
        ...         [record for captured in job.captured("written") for record in captured.batch]
        [(0, 'epoch=0', 3), (1, 'epoch=1', 3)]
        """
        if not is_place(folder):
            raise GraphError(f"write_files: a folder is a text or a pathlib.Path, not {short(folder)}")
        place = absolute(folder, "write_files: a folder", GraphError)
        kind = FileFormat(format, compression)
        check_positive("write_files", "file_bytes", file_bytes)
        if visible not in ("epoch", "snapshot"):
            raise GraphError(f"write_files: visible is 'epoch' or 'snapshot', not {visible!r}")
        waits = visible == "snapshot"
        self._claim("write_files", place if is_url(place) else str(Path(place).resolve()), f"writes to {place!r}")
        sink = EpochObjects(place, kind, overwrite) if is_url(place) else EpochFolders(Path(place), kind, overwrite)
        return self._committed(name, sink.operators(self.nesting.domain, file_bytes, waits=waits))

    def _claim(self, operator: str, place: str, does: str) -> None:
        description = self._description
        try:
            description.register(operator, place, description.size)
        except GraphError:
            raise GraphError(
                f"{operator}: dataflow {description.name!r} {does} already: give each stream a place of its own, or "
                "concat() them first"
            ) from None
