"""The cost of importing the package, here and at the publishers."""

import pickle
import subprocess
import sys

from tidewheel.gateway import RecordFilter

PROGRAM = """
import pickle, sys
import tidewheel.gateway, tidewheel.console.serve
wanted = pickle.loads(bytes.fromhex(sys.argv[1]))
assert wanted({"n": 2})
needless = {"h11", "prometheus_client", "pyarrow", "ray", "starlette", "uvicorn", "websockets"} & set(sys.modules)
sys.exit(f"loaded {needless}" if needless else 0)
"""


def test_a_filter_arrives_where_the_extra_is_not_installed() -> None:
    """A publisher needs no web server, and the command line loads none before it serves."""
    wanted = pickle.dumps(RecordFilter.parse(["n>1"])).hex()
    command = [sys.executable, "-c", PROGRAM, wanted]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
