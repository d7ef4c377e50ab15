"""Machines of a cluster on one: network namespaces with addresses of their own, from which the checkout is hidden.

Where namespaces cannot be made (no root, no `ip`), or are not wanted (SNAPLINE_TEST_NAMESPACES=no), a host is a set of plain
processes on 127.0.0.1 with directories of its own.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
# Hides the checkout from a process, which is told where its dependencies were bound before.
_HIDE = 'mount --bind "$1" "$2" && mount -t tmpfs -o size=16k hidden "$0" && cd / && shift 2 && exec "$@"'


@dataclass
class Host:
    """A machine: its address, its directory, and what every process there is started with."""

    name: str
    address: str
    directory: Path
    environment: dict[str, str]
    namespace: str = ""
    # The directory of packages, and where processes of this host see it; empty where the checkout is there.
    packages: tuple[str, str] | None = None
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, command: Sequence[object], log: str, **more: str) -> subprocess.Popen[bytes]:
        """Start a process, with what it says in `log`; it is ended with the cluster."""
        with (self.directory / log).open("ab") as output:
            process = self._popen(command, more, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        self.processes.append(process)
        return process

    def run(
        self, *command: object, timeout_s: float = 480, expected: int = 0, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end. Raises AssertionError with what it said if it ends with another code."""
        process = self._popen(command, more, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.processes.append(process)
        out, err = (text.decode(errors="replace") for text in process.communicate(timeout=timeout_s))
        assert process.returncode == expected, f"{self.name}: {command}: {process.returncode}\n{out}\n{err[-6000:]}"
        return subprocess.CompletedProcess(list(map(str, command)), process.returncode, out, err)

    def _popen(
        self, command: Sequence[object], more: Mapping[str, str], stdout: int | IO[bytes], **options: Any
    ) -> subprocess.Popen[bytes]:
        words = list(map(str, command))
        if self.namespace:
            hidden = ["sh", "-c", _HIDE, str(ROOT), *self.packages] if self.packages else []
            words = ["ip", "netns", "exec", self.namespace, *hidden, *words]
        return subprocess.Popen(
            words,
            env={**self.environment, **more},
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            **options,
        )

    def end(self) -> None:
        """End what runs here, the newest first."""
        for process in reversed(self.processes):
            end(process)


def end(process: subprocess.Popen[bytes], sign: signal.Signals = signal.SIGTERM, patience_s: float = 10) -> None:
    """End a process, and what it has started, by a signal, and by SIGKILL if it stays."""
    for each in (sign, signal.SIGKILL):
        try:
            os.killpg(process.pid, each)
            process.wait(timeout=patience_s)
        except ProcessLookupError:
            process.wait()
        except subprocess.TimeoutExpired:
            continue
    process.wait()


class Network:
    """A bridge, with a namespace for each host that is asked for; none where they cannot be made."""

    def __init__(self) -> None:
        self._bridge = f"snapline{os.getpid() % 10**5}"
        # Another run on this machine has another one.
        self._prefix = f"10.87.{os.getpid() % 250 + 1}"
        self._hosts: list[str] = []
        is_wanted = os.environ.get("SNAPLINE_TEST_NAMESPACES") != "no"
        self.is_there = is_wanted and shutil.which("ip") is not None and os.geteuid() == 0 and self._make_bridge()

    @property
    def address(self) -> str:
        """Where the services of this machine are reached from all hosts."""
        return f"{self._prefix}.1" if self.is_there else "127.0.0.1"

    @property
    def addresses(self) -> str:
        """The addresses of all hosts, as a network."""
        return f"{self._prefix}.0/24"

    def host(self, name: str) -> tuple[str, str]:
        """A new host's namespace and address."""
        if not self.is_there:
            return "", "127.0.0.1"
        number = len(self._hosts) + 2
        namespace, inner, outer = f"{self._bridge}-{name}", "eth0", f"{self._bridge[-7:]}v{number}"
        self._hosts.append(namespace)
        address = f"{self._prefix}.{number}"
        _ip("netns", "add", namespace)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", namespace)
        _ip("link", "set", outer, "master", self._bridge, "up")
        for words in (
            ("addr", "add", f"{address}/24", "dev", inner),
            ("link", "set", inner, "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", namespace, *words)
        return namespace, address

    def close(self) -> None:
        """Take the network away."""
        for namespace in self._hosts:
            subprocess.run(["ip", "netns", "del", namespace], check=False)
        if self.is_there:
            subprocess.run(["ip", "link", "del", self._bridge], check=False)

    def _make_bridge(self) -> bool:
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("addr", "add", f"{self._prefix}.1/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            _ip("netns", "add", f"{self._bridge}-try")
            _ip("netns", "del", f"{self._bridge}-try")
        except (OSError, subprocess.CalledProcessError):
            subprocess.run(["ip", "link", "del", self._bridge], check=False, stderr=subprocess.DEVNULL)
            return False
        return True


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
