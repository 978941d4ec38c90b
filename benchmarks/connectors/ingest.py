"""Records a second that a gateway sends to the inbox of a job, beside a bare endpoint of the same web framework.

Gateway, worker and bare endpoint are processes of their own; this one is the client. It keeps some connections open and
sends the next request of each when the answer to the one before has come. The bare endpoint reads the body and answers
202. The job counts the records, and the figures end when it has counted all.
"""

import os
import re
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import ray

import tidewheel as tw
from benchmarks.measuring.measurement import Report, alternate, arguments

LEAST_RECORDS = 200_000
"""How many records a second the gateway is to take in POSTs of 100."""

LIMIT = 3.0
"""How many times as long as the bare endpoint a POST of one record may take."""

CONNECTIONS = 16
TOKEN = "benchmark-of-ingest"  # noqa: S105 - of a gateway that ends with the benchmark
PATH = "/jobs/counted/inputs/payments"
RECORD = b'{"to":"Brest","sum":625}\n'
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)

BARE = """
import socket, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def post(request):
    await request.body()
    return Response(b'{"state":"sent"}', 202, media_type="application/json")

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
app = Starlette(routes=[Route("/{rest:path}", post, methods=["POST"])])
uvicorn.Server(uvicorn.Config(app, loop="asyncio", log_level="critical", access_log=False)).run([listener])
"""


def main() -> None:
    options = arguments("Measure how many records a gateway sends to a job, beside a bare endpoint.")
    posts, rounds = (2_000, 3) if options.quick else (10_000, 9)
    report = Report()
    flow = tw.Dataflow("counted")
    payments = flow.inbox("payments", dict, epoch_every_s=0.1)
    payments.map_batches(lambda records: [len(records)]).probe("counted").capture("counts")
    with tw.run(flow, workers=1) as job, gateway() as ours, bare() as theirs:
        contestants: dict[str, Callable[[], float]] = {
            "bare": partial(posts_s, theirs, posts, RECORD),
            "one": partial(counted_s, job, ours, posts, 1),
            "hundred": partial(counted_s, job, ours, posts, 100),
        }
        for contestant in contestants.values():
            contestant()  # warm
        times = alternate(contestants, rounds)
        job.stop()
    bare_s = report.add(f"a bare endpoint, {posts:,} POSTs of a record", times["bare"], "s")
    one_s = report.add(f"the gateway and a job, {posts:,} POSTs of a record", times["one"], "s")
    hundred_s = report.add(f"the gateway and a job, {posts:,} POSTs of 100 records", times["hundred"], "s")
    report.add("POSTs of a record a second", [posts / one_s], "1/s")
    report.add("records a second in POSTs of 100", [100 * posts / hundred_s], "1/s")
    report.expect("the time of POSTs of a record over that of the bare endpoint", one_s / bare_s, LIMIT)
    report.expect("microseconds for a record in POSTs of 100", 1e6 * hundred_s / posts / 100, 1e6 / LEAST_RECORDS)
    report.finish(options.json)


@contextmanager
def gateway() -> Iterator[int]:
    """Run `tidewheel serve` on the cluster of this process; yield its port."""
    address = ray.get_runtime_context().gcs_address
    options = ["--address", address, "--ingest", "counted", "--port", "0", "--flight-port", "0"]
    command = [sys.executable, "-m", "tidewheel", "serve", *options]
    environment = {**os.environ, "TIDEWHEEL_TOKEN": TOKEN}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = next(line for line in process.stdout if line.startswith("topics"))
            yield int(line.rpartition(":")[2].partition("/")[0])
        finally:
            process.terminate()


@contextmanager
def bare() -> Iterator[int]:
    """Run the bare endpoint; yield its port."""
    with subprocess.Popen([sys.executable, "-c", BARE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def counted_s(job: tw.types.Job, port: int, posts: int, records: int) -> float:
    """Return the seconds until the job has counted the records of so many POSTs."""
    before = counted(job)
    began_s = time.perf_counter()
    posts_s(port, posts, RECORD * records)
    while counted(job) < before + posts * records:
        time.sleep(0.01)
    return time.perf_counter() - began_s


def counted(job: tw.types.Job) -> int:
    """Return how many records the job has counted."""
    job.probe("counted").has_completed(0)
    return sum(count for captured in job.captured("counts") for count in captured.batch)


def posts_s(port: int, posts: int, body: bytes) -> float:
    """Return the seconds until so many POSTs were answered 202, with the same number of requests on each connection."""
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    left = dict.fromkeys(range(CONNECTIONS), posts // CONNECTIONS)
    selector = selectors.DefaultSelector()
    began_s = time.perf_counter()
    for number in left:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection, selectors.EVENT_READ, number)
        connection.sendall(request)
    while left:
        for key, _ in selector.select():
            answered: socket.socket = key.fileobj  # type: ignore[assignment]
            read_answer(answered)
            left[key.data] -= 1
            if left[key.data]:
                answered.sendall(request)
                continue
            del left[key.data]
            selector.unregister(answered)
            answered.close()
    return time.perf_counter() - began_s


def read_answer(connection: socket.socket) -> None:
    """Read an answer; raise RuntimeError unless it is 202."""
    found = b""
    while (end := found.find(b"\r\n\r\n")) < 0 or len(found) < end + 4 + length_of(found):
        part = connection.recv(65536)
        if not part:
            raise RuntimeError(f"the connection was closed after {found!r}")
        found += part
    if not found.startswith(b"HTTP/1.1 202"):
        raise RuntimeError(f"a POST was answered {found!r}")


def length_of(head: bytes) -> int:
    """Return the length of the body that a head says."""
    found = _LENGTH.search(head)
    assert found is not None, "each answer says it"
    return int(found[1])


if __name__ == "__main__":
    main()
