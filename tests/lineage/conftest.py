"""Lineage stores of every kind; database servers are started for a test run, and stopped after it."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from glob import glob
from pathlib import Path

import pytest

KINDS = ["sqlite", "postgresql", "mariadb"]
_PATIENCE_SECONDS = 60


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`jdbc:` URL of a PostgreSQL server without a database's name."""
    directories = sorted(glob("/usr/lib/postgresql/*/bin")) or [
        str(Path(shutil.which("initdb") or "/none/initdb").parent)
    ]
    binaries = Path(directories[-1])
    if not (binaries / "initdb").exists():
        pytest.skip("PostgreSQL is not installed: `.ci/run` installs it")
    root = _directory_of(tmp_path_factory, "postgresql", "postgres")
    process_options = _as("postgres")
    subprocess.run(
        [
            binaries / "initdb",
            "-D",
            root / "data",
            "-U",
            "snapline",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        **process_options,
    )
    port = _free_port()
    command = [binaries / "postgres", "-D", root / "data", "-p", str(port), "-h", "127.0.0.1", "-k", root]
    with _server(
        [*map(str, command), "-c", "fsync=off", "-c", "max_connections=200"], port, root / "log", process_options
    ):
        yield f"jdbc:postgresql://127.0.0.1:{port}/"


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`jdbc:` URL of a MariaDB server without a database's name."""
    server, install = shutil.which("mariadbd", path=_wide_path()), shutil.which("mariadb-install-db", path=_wide_path())
    if server is None or install is None:
        pytest.skip("MariaDB is not installed: `.ci/run` installs it")
    root = _directory_of(tmp_path_factory, "mariadb", "mysql")
    process_options = _as("mysql")
    subprocess.run(
        [
            install,
            "--no-defaults",
            f"--datadir={root / 'data'}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **process_options,
    )
    port = _free_port()
    command = [
        server,
        "--no-defaults",
        f"--datadir={root / 'data'}",
        f"--port={port}",
        "--bind-address=127.0.0.1",
        f"--socket={root / 'socket'}",
        f"--pid-file={root / 'pid'}",
        "--innodb-flush-log-at-trx-commit=0",
        "--max-connections=200",
    ]
    with _server(command, port, root / "log", process_options):
        yield f"jdbc:mysql://127.0.0.1:{port}/"


@pytest.fixture(params=KINDS)
def store_options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Catalog options of an empty lineage database of each kind in turn."""
    return options_of(request.param, request.getfixturevalue, tmp_path)


def options_of(kind: str, fixture: Callable[[str], str], tmp_path: Path) -> dict[str, str]:
    if kind == "sqlite":
        return {"jdbc.url": f"jdbc:sqlite:{tmp_path / 'lineage.db'}"}
    name = f"lineage_{abs(hash(str(tmp_path))) % 10**12}"
    user = "snapline" if kind == "postgresql" else "root"
    return {"jdbc.url": fixture(kind), "jdbc.database": name, "jdbc.username": user, "jdbc.driver": "not.needed"}


def _wide_path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def _as(user: str) -> dict[str, str]:
    """Servers refuse to run as root."""
    return {"user": user} if os.geteuid() == 0 else {}


def _directory_of(factory: pytest.TempPathFactory, name: str, user: str) -> Path:
    if os.geteuid() != 0:
        return factory.mktemp(name)
    # Directories of pytest can be entered by their owner alone.
    root = Path(subprocess.check_output(["mktemp", "-d", f"/tmp/{name}-XXXXXX"], text=True).strip())
    shutil.chown(root, user)
    return root


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class _server:
    """A server that runs, and answers, inside a `with`."""

    def __init__(self, command: list[str], port: int, log: Path, process_options: dict[str, str]) -> None:
        self._port, self._log = port, log
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, **process_options)  # type: ignore[call-overload]

    def __enter__(self) -> None:
        end = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"The server did not start:\n{self._log.read_text()[-2000:]}")

    def __exit__(self, *_: object) -> None:
        # To PostgreSQL this means not to wait for clients; MariaDB takes it for the end as well.
        self._process.send_signal(signal.SIGINT if "postgres" in self._log.parent.name else signal.SIGTERM)
        self._process.wait(timeout=_PATIENCE_SECONDS)
        if os.geteuid() == 0:
            shutil.rmtree(self._log.parent, ignore_errors=True)
