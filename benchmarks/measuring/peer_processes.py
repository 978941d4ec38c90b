"""Peers in processes of their own: they read lines that say what to do, and answer each with a line."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Self

_ENDS_WITHIN_S = 20


def program(module: str, *arguments: str | int | Path, python: str = sys.executable) -> list[str]:
    """Return the command that runs a module of ``benchmarks/`` in another process, from the project's root as well."""
    return [python, "-m", f"benchmarks.{module}", *map(str, arguments)]


class PeerMissingError(Exception):
    """A peer did not start, as it does if it is not installed."""


class PeerProcesses:
    """Processes that do something together; a context manager, which ends them.

    Args:
        commands: what starts each. It says that it is ready by an empty line.

    Raises:
        PeerMissingError: one has ended before it was ready; says why.
    """

    def __init__(self, commands: Sequence[Sequence[str]]) -> None:
        self._ending = ExitStack()
        self._errors: IO[str] = TemporaryFile("w+")  # noqa: SIM115 - closed with the rest
        self._ending.callback(self._errors.close)
        self._processes = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, bufsize=1
            )
            for command in commands
        ]
        for process in self._processes:
            self._ending.enter_context(process)
        for process in self._processes:
            if not self._answer(process):
                last = self._last_error()
                self._end()
                raise PeerMissingError(last)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [process.pid for process in self._processes]

    def ask(self, line: str) -> list[str]:
        """Send a line to each and return what each answers. RuntimeError if one ends instead."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(line + "\n")
        answers = [self._answer(process) for process in self._processes]
        if not all(answers):
            raise RuntimeError(f"{self._processes[0].args!r} has failed: {self._last_error()}")
        return [answer.strip() for answer in answers]

    @staticmethod
    def _answer(process: "subprocess.Popen[str]") -> str:
        assert process.stdout is not None
        return process.stdout.readline()

    def _last_error(self) -> str:
        self._errors.seek(0)
        lines = [line for line in self._errors.read().splitlines() if line.strip()]
        return lines[-1].strip() if lines else "it said nothing"

    def _end(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            try:
                process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
        self._ending.close()
