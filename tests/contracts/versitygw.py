"""versitygw, a server that speaks S3 over a directory, from `make versitygw`: the real thing beside the tests' own small one."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

_BUILT = Path(__file__).parents[2] / ".venv" / "versitygw" / "versitygw"
_PATIENCE_SECONDS = 60
KEY, SECRET, REGION = "snapline-key", "snapline-secret-0123", "eu-test-7"


def program() -> Path:
    """The server's program: the one that SNAPLINE_TEST_VERSITYGW names, else that of `make versitygw`."""
    return Path(os.environ.get("SNAPLINE_TEST_VERSITYGW") or _BUILT)


def why_missing() -> str | None:
    """Why no server can be started here, or None."""
    return None if os.access(program(), os.X_OK) else "versitygw is not built: `make versitygw` does it"


class Versitygw:
    """The server, its buckets the directories in `directory`. It keeps its port and its data from one start to the next."""

    def __init__(self, directory: Path, *, access_log: Path | None = None, keep_alive: bool = True) -> None:
        self.directory = directory
        self._port = _free_port()
        self._more = ["--access-log", str(access_log)] if access_log else []
        self._more += ["--keep-alive"] if keep_alive else []
        self._log = directory.with_name(f"{directory.name}.log")
        self._process: subprocess.Popen[bytes] | None = None
        (directory / "bucket").mkdir(parents=True)
        self._users = directory.with_name(f"{directory.name}.users")
        self._users.mkdir()

    @property
    def endpoint(self) -> str:
        """What clients take as `endpoint_url`."""
        return f"http://127.0.0.1:{self._port}"

    def options(self, **more: Any) -> dict[str, Any]:
        """Storage options that reach it, with further parameters of botocore's configuration."""
        return {
            "key": KEY,
            "secret": SECRET,
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": REGION},
            **({"config_kwargs": more} if more else {}),
        }

    def buckets(self) -> list[str]:
        """The names of all buckets."""
        return sorted(path.name for path in self.directory.iterdir() if not path.name.startswith("."))

    def empty(self) -> None:
        """Delete all buckets and make an empty one, `bucket`."""
        for name in self.buckets():
            shutil.rmtree(self.directory / name)
        (self.directory / "bucket").mkdir()

    def start(self) -> None:
        """Start it, and wait until it answers. Raises TimeoutError with the end of its log."""
        assert self._process is None, "it runs"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(str(program()), "--port", f"127.0.0.1:{self._port}", "--access", KEY, "--secret", SECRET),
                    *("--region", REGION, "--health", "/health", "--quiet", "--iam-dir", str(self._users), *self._more),
                    *("posix", str(self.directory)),
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.endpoint}/health", timeout=5):
                return
            time.sleep(0.02)
        self.kill()
        raise TimeoutError(f"versitygw does not answer. Its log ends: {self._log.read_text()[-2000:]}")

    def add_user(self, key: str, secret: str) -> None:
        """Make a user, who may do nothing yet."""
        root = ["--access", KEY, "--secret", SECRET, "--region", REGION, "--endpoint-url", self.endpoint]
        user = ["create-user", "--access", key, "--secret", secret, "--role", "user"]
        subprocess.run([str(program()), "admin", *root, *user], check=True, capture_output=True)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Let it answer nobody until `resume`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def _free_port() -> int:
    """A port below those that the system gives to clients, so that it is still free when the server is started again."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
