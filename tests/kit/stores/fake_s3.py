"""An S3 for tests: moto's server in a process of its own, reached over 127.0.0.1, which ends with this one.

`python -m tests.kit.stores.fake_s3 PORT` prints the port and serves until its standard input ends.
"""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

LISTED_AT_ONCE = 100
"""So many objects are in an answer; S3 has a thousand."""


@contextmanager
def s3_server(port: int = 0) -> Iterator[str]:
    """Start the server, at any free port by default; yield its URL."""
    command = [sys.executable, "-m", "tests.kit.stores.fake_s3", str(port)]
    environment = {**os.environ, "MOTO_S3_DEFAULT_MAX_KEYS": str(LISTED_AT_ONCE)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


def settings(endpoint: str) -> dict[str, str]:
    """Return the variables by which obstore finds the server, as it does that of AWS."""
    found = {"ENDPOINT": endpoint, "ALLOW_HTTP": "true", "REGION": "us-east-1"}
    found |= {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "top-secret"}
    return {f"AWS_{name}": value for name, value in found.items()}


def make_bucket(endpoint: str, bucket: str) -> None:
    """Make an empty bucket."""
    request = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 200


def _serve() -> None:
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False)
    server.start()
    sys.stdout.write(f"{server.get_host_and_port()[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    _serve()
