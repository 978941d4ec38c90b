"""Running a benchmark in its quick form, as a user does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

Figures: TypeAlias = dict[str, dict[str, float]]
"""``"rows"`` and ``"expectations"``, by name."""

_ROOT = Path(__file__).parents[2]
_DEADLINE_S = 180


def quick_run(name: str, *options: str, **environment: str) -> Figures:
    """Return what a benchmark, such as ``loops.barrier``, has measured with more options.

    Its directory for temporary files is empty in the end, but for the logs of a Ray that it starts itself.
    """
    with TemporaryDirectory(prefix="tw") as directory:
        file, temporary = Path(directory, "figures.json"), Path(directory, "t")
        temporary.mkdir()
        ran = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}", "--quick", "--json", str(file), *options],
            check=False,
            timeout=_DEADLINE_S,
            capture_output=True,
            text=True,
            env={**os.environ, **environment, "TMPDIR": str(temporary)},
            cwd=_ROOT,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert [path for path in temporary.iterdir() if path.name != "ray"] == []
        content = json.loads(file.read_text())
    assert content["machine"]["python"]
    return {kind: {row["name"]: row["value"] for row in content[kind]} for kind in ("rows", "expectations")}
