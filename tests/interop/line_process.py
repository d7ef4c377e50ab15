"""A program that answers requests: a JSON object a line on its standard input, one on its standard output."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any


class UnsupportedBySecondReader(Exception):
    """Another reader of the format says that it does not do this yet."""


class LineProcess:
    """The program, started for the first request, and again for the next one if it has died."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: subprocess.Popen[str] | None = None

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer. Raises UnsupportedBySecondReader, RuntimeError with what the program says, or that it ended."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            self.close()
            raise RuntimeError(f"{self._command[0]} ended with {process.returncode} when it was asked {request}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            # A class of pypaimon's, or of Java's; and what pypaimon 2.1 says of deletion vectors of 64 bits.
            unsupported = answer["error"].startswith(
                (
                    "NotImplementedError",
                    "java.lang.UnsupportedOperationException",
                    "RuntimeError: Invalid magic number: 3520280932",
                )
            )
            kind = UnsupportedBySecondReader if unsupported else RuntimeError
            raise kind(f"{answer['error']}\nasked: {request}\n{answer['trace']}")
        return answer

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
