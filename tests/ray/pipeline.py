"""A pipeline of several programs for tests that kill any process of it, and start its programs again."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Literal, Self

import psutil

from tests.ray.driver_process import ROOT
from tests.ray.leftovers import titled
from tests.ray.pipeline_program import JOURNALS, Payment, Totals, batch_totals, journal, running
from tests.waiting import eventually

DEADLINE_S = 150.0
_EPOCH_EVERY_S = 0.05
_ACCOUNTS = 60
_MOST_PAYMENTS = 4
_ENDS_WITHIN_S = 10.0
_ENDS_AFTER_JOB_S = 20.0
_RUNS_AT_END = 8
_LAST_OUTPUT = 3000
_LONGEST_PAUSE_S = 4.0

ACTORS = {"worker": "ray::WorkerActor", "publisher": "ray::PublisherActor", "catalog": "ray::CatalogActor"}
"""Ray's names for the processes of the pipeline's actors, by kind."""


class GrowingJournals:
    """Writes an epoch after the other to the journals, on a thread, until `end`.

    Attributes:
        epochs: the payments of each epoch so far.
    """

    def __init__(self, folder: Path, random: Random) -> None:
        self._random = random
        self._files = [journal(folder, number).open("a", encoding="utf-8") for number in range(JOURNALS)]
        self._is_enough = threading.Event()
        self.epochs: list[list[Payment]] = []
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        while not self._is_enough.wait(_EPOCH_EVERY_S):
            parts = [self._payments() for _ in self._files]
            self.epochs.append([payment for part in parts for payment in part])
            for file, part in zip(self._files, parts, strict=True):
                file.write(json.dumps(part) + "\n")
                file.flush()
        for file in self._files:
            file.write("null\n")
            file.close()

    def _payments(self) -> list[Payment]:
        count = self._random.randrange(_MOST_PAYMENTS)
        return [(self._random.randint(1, _ACCOUNTS), self._random.randrange(1000)) for _ in range(count)]

    def end(self) -> None:
        """Write the last lines. Idempotent."""
        self._is_enough.set()
        self._thread.join()


class Program:
    """A program that is started again, by the same command, until it ends well.

    Whatever it has started ends with it, as under a supervisor that ends groups of processes.

    Args:
        command: of ``python -m``, module first.
        environment: its variables.
        output: the file of all that it writes.

    Attributes:
        pid: of its process, the last one.
        ends: the exit codes of the processes that have ended, in order, by process.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str], output: Path) -> None:
        self._command = [sys.executable, "-m", *command]
        self._environment = environment
        self.output = output
        self._is_closed = False
        self.ends: dict[int, int] = {}
        self.run()

    def run(self) -> None:
        """Run it until it ends well; it must not run already."""
        self._process = self._start()
        self._thread = threading.Thread(target=self._supervise)
        self._thread.start()

    def _start(self) -> "subprocess.Popen[bytes]":
        with self.output.open("ab") as file:
            return subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=self._environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _supervise(self) -> None:
        while True:
            code = self._process.wait()
            say(f"{self.output.stem} ({self.pid}) has ended: {code}")
            eventually(self._group_is_gone, _ENDS_WITHIN_S)
            self.ends[self.pid] = code
            if code == 0 or self._is_closed:
                return
            self._process = self._start()

    def _group_is_gone(self) -> bool:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return True
        return False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended_well(self) -> bool:
        return 0 in self.ends.values()

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def processes(self, name: str = "") -> list[psutil.Process]:
        """Return its process, if it lives, or those below it whose names begin so."""
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                children = process.children(recursive=True) if name else []
                return [child for child in children if child.name().startswith(name)] if name else [process]
        return []

    def close(self) -> None:
        """End it for good."""
        self._is_closed = True
        while self._thread.is_alive():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._thread.join(0.1)

    def last_output(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")[-_LAST_OUTPUT:]


class Pipeline:
    """The job and the programs that store its topic, on the cluster at an address; in a ``with`` block.

    Args:
        folder: where all of it is.
        address: of the cluster.
        random: makes the payments, and chooses whom to kill, and when.
        stores: the command of each program that stores the topic beside that for SQLite, by name.
        visible: when epochs are published.

    Attributes:
        killed: the kinds of processes that were killed, in order.
    """

    def __init__(
        self,
        folder: Path,
        address: str,
        random: Random,
        stores: Mapping[str, list[str]],
        visible: Literal["epoch", "snapshot"],
    ) -> None:
        self._folder, self._random = folder, random
        self.killed: list[str] = []
        self._struck: set[int] = set()
        self._known: set[psutil.Process] = set()
        self._journals = GrowingJournals(folder, Random(random.random()))
        module, environment = "tests.ray.pipeline_program", {**os.environ, "RAY_ADDRESS": address}
        commands = {
            "job": [module, "job", str(folder), str(1 + len(stores)), visible],
            "database": [module, "database", str(folder)],
            **{name: [*command, str(folder)] for name, command in stores.items()},
        }
        self._programs = {
            name: Program(command, environment, folder / f"{name}.txt") for name, command in commands.items()
        }
        self._began_s = time.monotonic()

    # ------------------------------------------------------------------ killing

    def victims(self) -> dict[str, list[psutil.Process]]:
        """Return the processes that live, by kind."""
        found = {kind: titled(title) for kind, title in ACTORS.items()}
        for name, program in self._programs.items():
            found[f"program {name}"] = program.processes()
            found[f"JVM of {name}"] = program.processes("java")
        unhurt = {kind: [one for one in living if one not in self._known] for kind, living in found.items()}
        return {kind: living for kind, living in unhurt.items() if living}

    def strike(self, kind: str | None = None) -> None:
        """Kill a process of a kind, by default of one of those that were killed least."""

        def strike() -> bool:
            victims = self.victims()
            draws = {one: (self.killed.count(one), self._random.random()) for one in sorted(victims)}
            chosen = kind or min(draws, key=draws.__getitem__)
            if chosen not in victims:
                return False
            victim = self._random.choice(victims[chosen])
            name = chosen.rpartition(" ")[2]
            if name in self._programs:  # it ends with its JVM, too
                self._struck.add(self._programs[name].pid)
            job = self._programs["job"]
            if chosen in ACTORS and running(job.pid) not in job.output.read_text(encoding="utf-8", errors="replace"):
                self._struck.add(job.pid)  # `tw.run` raises if an actor dies while it deploys the job
            self._known.add(victim)
            with suppress(psutil.NoSuchProcess):
                victim.kill()
                self.killed.append(chosen)
                say(f"{time.monotonic() - self._began_s:6.1f} s: killed {chosen} ({victim.pid})")
                return True
            return False

        assert eventually(strike, DEADLINE_S), f"nothing to kill of kind {kind}"

    def kill_some(self, kills: int, stored: Mapping[str, Callable[[], int]]) -> None:
        """Kill so many processes at random: in a pipeline that runs, or that is just starting again."""
        for _ in range(kills):
            if not self.killed or self._random.random() < 0.6:
                self.goes_on(stored)
            threading.Event().wait(self._random.random() * _LONGEST_PAUSE_S)
            self.strike()

    # ------------------------------------------------------------------ going on

    def goes_on(self, stored: Mapping[str, Callable[[], int]]) -> None:
        """Wait until each store has stored more.

        Args:
            stored: returns for each store how much it has.
        """
        before = {name: count() for name, count in stored.items()}

        def idle() -> list[str]:
            return [name for name, count in stored.items() if count() <= before[name]]

        assert eventually(lambda: not idle(), DEADLINE_S), f"these stores do not go on: {idle()}, {before}"
        say(f"{time.monotonic() - self._began_s:6.1f} s: all stores go on")

    def end(self, kills: int = 0) -> None:
        """End the source, and wait until all programs have ended well.

        A store that is down when the job ends misses the end of the topic. So the job is started again for it.

        Args:
            kills: how many processes are killed meanwhile.
        """
        self._journals.end()
        for _ in range(kills):
            threading.Event().wait(self._random.random())
            self.strike()

        def unended() -> list[str]:
            return [name for name, program in self._programs.items() if not program.has_ended_well]

        job = self._programs["job"]
        for _ in range(_RUNS_AT_END):
            if eventually(lambda: not unended(), _ENDS_AFTER_JOB_S):
                break
            if not job.runs:
                say(f"{time.monotonic() - self._began_s:6.1f} s: the job runs again for {unended()}")
                job.run()
        assert not unended(), f"these programs do not end: {unended()}"
        failed = {
            f"{name} ({pid})": code
            for name, program in self._programs.items()
            for pid, code in program.ends.items()
            if code and pid not in self._struck
        }
        say(f"{time.monotonic() - self._began_s:6.1f} s: all have ended; killed {dict(Counter(self.killed))}")
        assert not failed, f"programs have ended that were not killed: {failed}"

    @property
    def expected(self) -> Totals:
        """The results of a batch computation."""
        return batch_totals(self._journals.epochs)

    def report(self) -> str:
        """Return the kills, and the last output of each program."""
        outputs = (f"--- {name}\n{program.last_output()}" for name, program in self._programs.items())
        return "\n".join([f"killed {self.killed}", *outputs])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self.report())
        for program in self._programs.values():
            program.close()
        self._journals.end()


def say(text: str) -> None:
    """Print a line, for whoever runs tests with ``-s`` or reads a failure."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
