"""All processes of a cluster are killed at once, under every kind of program that uses it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from ray.util import get_node_ip_address

from tests.ray.lost_cluster_program import TOPIC
from tests.waiting import eventually

pytestmark = pytest.mark.ray

_ROOT = Path(__file__).parents[2]
_STARTS_WITHIN_S = 60.0
_TOLD_WITHIN_S = 7.0
"""Ray itself says after two seconds that an actor cannot be reached."""
_ENDS_WITHIN_S = 20.0
_ANSWERS_WITHIN_S = 2.0


class Machine:
    """A folder for temporary files, a port, and the processes that use them: a cluster and programs."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self._cluster: Program | None = None
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._port = server.getsockname()[1]
        self.address = f"{get_node_ip_address()}:{self._port}"
        self._environment = {
            **environment,
            "RAY_ADDRESS": self.address,
            "RAY_AUTH_MODE": "disabled",
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(folder),
        }

    def start(self, name: str, *command: str) -> "Program":
        """Start a program, which writes to files of that name."""
        with (self.folder / f"{name}.out").open("w") as out, (self.folder / f"{name}.err").open("w") as err:
            process = subprocess.Popen(command, cwd=_ROOT, env=self._environment, stdout=out, stderr=err)
        self._started.append(process)
        return Program(process, self.folder / name)

    def have_cluster(self) -> "Program":
        """Start a cluster at the port, unless the test before has left one; return its first process."""
        if self._cluster is None or self._cluster.process.poll() is not None:
            self._cluster = self._start_cluster()
            assert self._cluster.says("Ray runtime started", _STARTS_WITHIN_S), self._cluster.errors
        return self._cluster

    def _start_cluster(self) -> "Program":
        sizes = ("--num-cpus=3", f"--object-store-memory={100 * 2**20}", "--include-dashboard=false")
        options = (f"--port={self._port}", f"--temp-dir={self.folder}/ray", "--disable-usage-stats", "--block", *sizes)
        return self.start("cluster", str(Path(sys.executable).with_name("ray")), "start", "--head", *options)

    def processes(self) -> list[psutil.Process]:
        """Return all processes that have the folder, by their environment."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("TMPDIR") == str(self.folder) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def kill_all_but(self, *programs: "Program") -> None:
        """Kill what is left."""
        for process in self.processes():
            if process.pid not in {program.process.pid for program in programs}:
                with suppress(psutil.Error):
                    process.kill()

    def end(self) -> None:
        """Kill everything."""
        self.kill_all_but()
        for process in self._started:
            process.wait(_ENDS_WITHIN_S)


class Program:
    """One program.

    Args:
        process: that of the program.
        files: the path of what it writes, without the suffix.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", files: Path) -> None:
        self.process = process
        self._files = files

    @property
    def output(self) -> str:
        """What it has written to its output."""
        return self._files.with_suffix(".out").read_text()

    @property
    def errors(self) -> str:
        """What it has written to its errors."""
        return self._files.with_suffix(".err").read_text()

    def says(self, text: str, within_s: float, times: int = 1) -> bool:
        """Wait until it has written a text, so often; return False if it has not, or has ended before."""
        return eventually(lambda: (self.output + self.errors).count(text) >= times, within_s)


@contextmanager
def own_machine(environment: dict[str, str]) -> Iterator[Machine]:
    """Yield a machine, and end all that runs there."""
    machine = Machine(Path(tempfile.mkdtemp(prefix="tl-", dir="/tmp")), environment)
    try:
        yield machine
    finally:
        machine.end()
        assert eventually(lambda: not machine.processes())
        shutil.rmtree(machine.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A machine of these tests alone."""
    with own_machine(dict(os.environ)) as machine:
        yield machine


def status(url: str, within_s: float = _ANSWERS_WITHIN_S) -> int:
    """Return the status of an answer, which has to come at once."""
    try:
        with urllib.request.urlopen(url, timeout=within_s) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.long
def test_what_belongs_to_a_cluster_that_was_left_ends_quietly_in_the_next(machine: Machine) -> None:
    """The job fails when the program calls `ray.shutdown`; ending it and its readers disturbs no other job."""
    machine.have_cluster()
    program = machine.start("leave", sys.executable, "-m", "tests.ray.lost_cluster_program", "leave")
    assert program.process.wait(_STARTS_WITHIN_S) == 0, program.errors
    assert "failed" in program.output
    assert f"this process has left the Ray cluster at {machine.address}" in program.errors
    assert "Traceback" not in program.errors


def test_everybody_says_that_the_cluster_is_gone(machine: Machine) -> None:
    """Within five seconds of Ray's own notice, and with exit code 1; ``serve`` answers 503 until it is back.

    A subscriber that catches the error subscribes again as soon as there is a cluster. Nothing is left of any of them.
    """
    program = (sys.executable, "-m", "tests.ray.lost_cluster_program")
    command = (sys.executable, "-m", "tidewheel")
    cluster = machine.have_cluster()
    driver = machine.start("drive", *program, "drive")
    readers = {
        "feed": machine.start("feed", *program, "feed"),
        "read": machine.start("read", *program, "read"),
        "tail": machine.start("tail", *command, "tail", TOPIC, "--timeout", "60"),
    }
    stays = machine.start("go on", *program, "go on")
    ports = ("--no-token", "--port", "0", "--flight-port", "0")
    serve = machine.start("serve", *command, "serve", *ports)
    ending = {"drive": driver, **readers}
    for name, one in ending.items():
        assert one.says("\t" if name == "tail" else "running", _STARTS_WITHIN_S), (name, one.errors)
    assert stays.says("running", _STARTS_WITHIN_S)
    assert serve.says("topics  http", _STARTS_WITHIN_S)
    url = serve.output[serve.output.index("topics  http") :].split()[1]
    assert status(url) == 200
    assert f"tidewheel: this process has joined the Ray cluster at {machine.address}" in serve.errors

    machine.kill_all_but(stays, serve, *ending.values())
    cluster.process.wait()
    gone = f"the Ray cluster at {machine.address} is gone"
    for name, one in ending.items():
        assert one.says(gone, _TOLD_WITHIN_S), (name, one.errors)
    assert serve.says(gone, _TOLD_WITHIN_S)
    assert status(url) == 503
    for name, one in ending.items():
        assert one.process.wait(_ENDS_WITHIN_S) == 1, name
        assert gone in one.errors.splitlines()[-1], name
    assert status(url) == 503
    assert {process.pid for process in machine.processes()} == {serve.process.pid, stays.process.pid}

    machine.have_cluster()
    assert eventually(lambda: status(url, _STARTS_WITHIN_S) == 200, _STARTS_WITHIN_S), serve.errors
    driver = machine.start("drive", *program, "drive")
    assert stays.says("running", _STARTS_WITHIN_S, times=2), stays.errors
    assert stays.process.wait(_ENDS_WITHIN_S) == 0
    serve.process.terminate()
    assert serve.process.wait(_ENDS_WITHIN_S) == 0
    driver.process.terminate()
    driver.process.wait(_ENDS_WITHIN_S)
    assert not [path for path in machine.folder.iterdir() if path.name.startswith("tidewheel-")]


def test_a_job_hears_of_the_loss_where_another_thread_hears_of_it_first(machine: Machine) -> None:
    """That thread makes this process leave the cluster; the watch of the job does not join another by a call of Ray."""
    machine.have_cluster()
    program = machine.start("poll", sys.executable, "-m", "tests.ray.lost_cluster_program", "poll")
    assert program.says("running", _STARTS_WITHIN_S), program.errors
    machine.kill_all_but(program)
    assert program.process.wait(_ENDS_WITHIN_S) == 1, program.errors
    assert machine.address in program.errors.splitlines()[-1]
