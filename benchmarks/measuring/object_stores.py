"""A bucket for benchmarks: one of the user, or one of moto's server on this machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_DEADLINE_S = 120.0


@contextmanager
def store(url: str | None, bucket: str) -> Iterator[str]:
    """Yield the URL of a store: that of the user, or a bucket of moto's server, which is started."""
    if url is not None:
        yield url
        return
    command = [sys.executable, "-m", "tests.kit.stores.fake_s3", "0"]
    with subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = int(server.stdout.readline())
        settings = {"ENDPOINT": f"http://127.0.0.1:{port}", "ALLOW_HTTP": "true", "REGION": "us-east-1"}
        settings |= {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test"}
        os.environ.update({f"AWS_{name}": value for name, value in settings.items()})
        with closing(HTTPConnection("127.0.0.1", port, timeout=_DEADLINE_S)) as connection:
            connection.request("PUT", f"/{bucket}")
            assert connection.getresponse().status == 200
        try:
            yield f"s3://{bucket}/benchmark"
        finally:
            server.stdin.close()
