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

_BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
_DEADLINE_S = 180


def quick_run(name: str, *options: str, **environment: str) -> Figures:
    """Return what a benchmark with more options has measured; its directory for temporary files is empty in the end.

    But for the logs of a Ray that it starts itself, which Ray keeps.
    """
    with TemporaryDirectory(prefix="tw") as directory:
        file, temporary = Path(directory, "figures.json"), Path(directory, "t")
        temporary.mkdir()
        ran = subprocess.run(
            [sys.executable, str(_BENCHMARKS / f"{name}.py"), "--quick", "--json", str(file), *options],
            check=False,
            timeout=_DEADLINE_S,
            capture_output=True,
            text=True,
            env={**os.environ, **environment, "TMPDIR": str(temporary)},
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert [path for path in temporary.iterdir() if path.name != "ray"] == []
        content = json.loads(file.read_text())
    assert content["machine"]["python"]
    return {kind: {row["name"]: row["value"] for row in content[kind]} for kind in ("rows", "expectations")}
