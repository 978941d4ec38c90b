"""Pages of the documentation, run as a reader runs them.

A page is one session in one folder. Its Python blocks run one after the other in one interpreter. Its commands, after
``$``, run in one shell beside it, as in a second terminal. What a step prints is what the page shows: the ``text``
block right after a Python block, or the lines under a command. In it ``...`` stands for any text, and after the
comment ``<!-- numbers differ -->`` any number for any other.

A reader's machine has one Ray cluster. Here others may run, of which commands could find any. So the shell names that
of the page, once the interpreter has joined it. A page starts it, or is given one.
"""

import doctest
import inspect
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, NamedTuple, Self

_FENCE = re.compile(r"^( *)(```+)(.*)$")
_DIFFER = "<!-- numbers differ -->"
_NUMBER = re.compile(r"\b[0-9a-f]{8}\b|\d+")
_END_S = 30.0


class Block(NamedTuple):
    """A fenced block: what its fence says, the number of its first line, its lines, and whether numbers may differ."""

    kind: str
    line: int
    lines: list[str]
    numbers_differ: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A piece that a reader pastes, and what it prints then."""

    kind: str
    line: int
    code: str
    shown: str
    numbers_differ: bool


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    found: list[Block] = []
    fence = before = ""
    for number, line in enumerate(text.splitlines(), start=1):
        mark = _FENCE.match(line)
        if not fence and mark:
            fence = mark[2]
            found.append(Block(mark[3].strip(), number + 1, [], before == _DIFFER))
        elif fence and mark and mark[2] == fence and not mark[3].strip():
            fence = ""
        elif fence:
            found[-1].lines.append(line)
        before = line.strip() or before
    assert not fence, f"the block at line {found[-1].line} has no end"
    return found


def steps(text: str) -> list[Step]:
    """Return the steps of a page in order.

    Raises:
        ValueError: a block is none that can be run or compared.
    """
    made: list[Step] = []
    joins = False
    for block in blocks(text):
        match block.kind:
            case "python":
                made.append(Step("python", block.line, "\n".join(block.lines) + "\n", "", numbers_differ=False))
            case "console":
                made += _commands(block)
            case "text" if joins:
                code = made.pop()
                shown = "".join(f"{line}\n" for line in block.lines)
                made.append(Step("python", code.line, code.code, shown, block.numbers_differ))
            case _:
                raise ValueError(f"line {block.line}: a block {block.kind!r} here cannot be run, nor compared")
        joins = block.kind == "python"
    return made


def _commands(block: Block) -> Iterator[Step]:
    """Yield the commands of a console block; lines up to the next one are what a command prints."""
    starts = [place for place, line in enumerate(block.lines) if line.startswith("$ ")]
    if not starts or starts[0] != 0:
        raise ValueError(f"line {block.line}: a console block begins with a command after '$ '")
    for start, end in zip(starts, [*starts[1:], len(block.lines)], strict=True):
        shown = "".join(f"{line}\n" for line in block.lines[start + 1 : end])
        yield Step("console", block.line + start, block.lines[start][2:], shown, block.numbers_differ)


def unfenced(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside of fenced blocks, with their numbers."""
    fenced = {number for block in blocks(text) for number in range(block.line - 1, block.line + len(block.lines) + 1)}
    yield from ((number, line) for number, line in enumerate(text.splitlines(), start=1) if number not in fenced)


def run(page: Path, folder: Path, checkout: Path, *, limit_s: float, cluster: str | None = None) -> None:
    """Run the steps of a page in ``folder``, which gets links to all that is in ``checkout``.

    Args:
        page: the file.
        folder: where its session runs.
        checkout: the repository.
        limit_s: for how long, in seconds.
        cluster: the address of a Ray cluster that is there, None for none.

    Raises:
        AssertionError: a step fails, prints something else than the page shows, or the page takes longer than
            ``limit_s`` seconds.
    """
    for path in checkout.iterdir():
        if path.name not in {".git", ".venv"}:
            (folder / path.name).symlink_to(path)
    (folder / ".venv").symlink_to(sys.prefix)
    deadline = time.monotonic() + limit_s
    pasted = steps(page.read_text("utf-8"))
    with _environment(cluster) as environment, ExitStack() as stack:
        sessions = {
            kind: stack.enter_context(_Session(command, folder, environment))
            for kind, command in (("python", _PYTHON), ("console", _SHELL))
            if any(step.kind == kind for step in pasted)
        }
        for step in pasted:
            where = f"{page.name}:{step.line}"
            printed, cluster = sessions[step.kind].do(step, where, deadline)
            if cluster and "console" in sessions:
                sessions["console"].do(replace(step, kind="console", code=f"export {cluster}"), where, deadline)
            assert agree(step, printed), f"{where} shows\n{step.shown}\nand prints\n{printed}"
        for session in sessions.values():
            session.end(page.name)


def agree(step: Step, printed: str) -> bool:
    """Tell whether a step has printed what its page shows, but for blank lines around it and spaces behind lines."""
    shown, printed = (re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip("\n") for text in (step.shown, printed))
    if step.numbers_differ:
        shown, printed = (re.sub(" +", " ", _NUMBER.sub("0", text)) for text in (shown, printed))
    return doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS)


@contextmanager
def _environment(cluster: str | None) -> Iterator[dict[str, str]]:
    """Yield the variables of a reader who has activated the virtual environment, with a folder for temporary files.

    So what runs here finds no Ray cluster of others but the one that is named, and others do not find its own.
    """
    own = ("PYTEST", "TIDEWHEEL_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    if kept.get("RAY_ADDRESS") != "127.0.0.1:1":  # what tests without Ray have, so that none starts it
        kept.pop("RAY_ADDRESS", None)
    if cluster is not None:
        kept["RAY_ADDRESS"] = cluster
    temporary = tempfile.mkdtemp(prefix="tw-", dir="/tmp")  # short, because sockets are in it
    try:
        yield {**kept, "PATH": f"{sys.prefix}/bin:{kept['PATH']}", "TMPDIR": temporary}
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _obey() -> None:
    """Execute each block that comes on standard input, a JSON line each, as the main program; say how it ended."""
    import json
    import os
    import sys
    import traceback

    main = sys.modules["__main__"].__dict__
    answers = int(sys.argv[1])
    for name in ("_obey", "annotations"):
        main.pop(name, None)
    for line in sys.stdin:
        step = json.loads(line)
        source = "\n" * (step["line"] - 1) + step["code"]
        failed = 0
        try:
            exec(compile(source, step["page"], "exec"), main)
        except BaseException:  # noqa: BLE001 - whatever it is, the reader sees it
            traceback.print_exc()
            failed = 1
        sys.stdout.flush()
        sys.stderr.flush()
        ray = sys.modules.get("ray")
        address = ray.get_runtime_context().gcs_address if ray is not None and ray.is_initialized() else ""
        mode = os.environ.get("RAY_AUTH_MODE")
        cluster = f"RAY_ADDRESS={address}" + (f" RAY_AUTH_MODE={mode}" if mode else "")
        os.write(answers, f"{failed} {cluster if address else ''}\n".encode())


_PYTHON = (sys.executable, "-c", f"{inspect.getsource(_obey)}\n_obey()")
_SHELL = ("bash", "--norc", "--noprofile", "-o", "pipefail", "-s")  # a command that fails before `| head` fails


class _Session:
    """An interpreter or a shell that a reader has open."""

    def __init__(self, command: tuple[str, ...], folder: Path, environment: Mapping[str, str]) -> None:
        self._output, self._errors = (tempfile.TemporaryFile("ab+") for _ in range(2))  # noqa: SIM115
        self._answers, answers = os.pipe()
        self._process = subprocess.Popen(
            [*command, str(answers)],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=self._errors,
            pass_fds=[answers],
            start_new_session=True,
            text=True,
        )
        os.close(answers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        os.close(self._answers)
        self._output.close()
        self._errors.close()

    def do(self, step: Step, where: str, deadline: float) -> tuple[str, str]:
        """Return what a step prints to standard output, and variables that name the Ray cluster that it has joined."""
        before = len(_all(self._output))
        if step.kind == "python":
            request = json.dumps({"page": where.partition(":")[0], "line": step.line, "code": step.code})
        else:
            # Braces: a command such as `cd` changes the shell itself, and none reads the commands that follow it.
            request = f"{{ {step.code}\n}} </dev/null; printf '%d \\n' $? >&$1"
        assert self._process.stdin is not None
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
        answer = os.read(self._answers, 100).decode() if ready else "no answer in time"
        ended, _, cluster = answer.strip("\n").partition(" ")
        said = _all(self._output)[before:]
        assert ended == "0", f"{where} failed ({answer.strip()}):\n{said}\n{_all(self._errors)[-8000:]}"
        return said, cluster.strip()

    def end(self, page: str) -> None:
        """Close the interpreter or the shell, as a reader does in the end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        ended = self._process.wait(_END_S)
        errors = _all(self._errors)[-8000:]
        assert ended == 0, f"{page}: a session ended with {ended}:\n{errors}"
        assert "Traceback" not in errors, f"{page}:\n{errors}"


def _all(file: IO[bytes]) -> str:
    """Return what is in a file, whose offset belongs to the process that writes it."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()
