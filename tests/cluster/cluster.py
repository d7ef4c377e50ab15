"""A platform on several hosts: an object store, PostgreSQL, a Spark master with two workers, and two hosts of code locations.

One code location has the checkout; everything else has the wheel in an environment at another path.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path

import pyspark

from resources.class_archive import QUICK_START
from tests.contracts.versitygw import program

from .hosts import ROOT, Host, Network, end

KEY, SECRET, BUCKET = "snapline", "snapline-secret", "lake"
CORES, MEMORY = 2, "1g"
_PATIENCE_S = 60


@dataclass
class Cluster:
    """What runs, and where. `end` takes all of it away."""

    directory: Path
    network: Network = field(default_factory=Network)
    hosts: dict[str, Host] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    store: "subprocess.Popen[bytes] | None" = None
    workers: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def begin(self) -> None:
        """Start all services. Raises AssertionError if one does not answer."""
        self.hosts["services"] = self._with_checkout("services")
        for name in ("second", "worker-1", "worker-2"):
            self.hosts[name] = self._with_wheel(name)
        for name in ("store", "postgresql", "master", "connect"):
            self.ports[name] = _free_port(self.network.address)
        self.start_store()
        self._start_postgresql()
        self._start_spark()

    @property
    def first(self) -> Host:
        """The host whose code location is a checkout."""
        return self.hosts["services"]

    @property
    def second(self) -> Host:
        """The host whose code location is an installed wheel."""
        return self.hosts["second"]

    def url(self, name: str, scheme: str) -> str:
        """The address of a service."""
        return f"{scheme}://{self.network.address}:{self.ports[name]}"

    def platform(self, host: Host) -> dict[str, str]:
        """The environment of a code location on a host: what docs/deploy.md says."""
        database = f"{self.network.address}:{self.ports['postgresql']}"
        storage = {"key": KEY, "secret": SECRET, "endpoint_url": self.url("store", "http")}
        spark = {"spark.cores.max": str(CORES), "spark.executor.cores": "1", "spark.executor.memory": "640m"}
        return {
            "SNAPLINE_HOME": str(host.directory / "home"),
            "SNAPLINE_WAREHOUSE": f"s3://{BUCKET}/warehouse",
            "SNAPLINE_STORAGE_OPTIONS": json.dumps(storage),
            "SNAPLINE_LINEAGE_URL": f"jdbc:postgresql://{database}/?user=snapline",
            "SNAPLINE_DAGSTER_URL": f"postgresql://snapline@{database}/dagster",
            "SNAPLINE_SPARK_MASTER": self.url("master", "spark"),
            "SNAPLINE_SPARK_CONFIG": json.dumps(spark),
        }

    def snapline(self, host: Host, *words: object, timeout_s: float = 480, expected: int = 0, **more: str) -> str:
        """What a command of the platform prints on a host."""
        program_text = "import sys; from resources.cli import main; sys.exit(main())"
        return self.python(host, "-c", program_text, *words, timeout_s=timeout_s, expected=expected, **more)

    def python(self, host: Host, *words: object, timeout_s: float = 480, expected: int = 0, **more: str) -> str:
        """What a Python program prints on a host, with the platform's environment."""
        environment = {**self.platform(host), **more}
        return host.run(self.interpreter(host), *words, timeout_s=timeout_s, expected=expected, **environment).stdout

    def interpreter(self, host: Host) -> Path:
        """The Python of a code location: the checkout's, or that of the environment that has the wheel."""
        return Path(sys.executable) if host.packages is None else host.directory / "venv" / "bin" / "python"

    def end(self) -> None:
        """End all that runs, and take the hosts away."""
        for host in reversed(self.hosts.values()):
            host.end()
        self.network.close()

    def _with_checkout(self, name: str) -> Host:
        host = self._host(name, "", self.network.address)
        host.environment["PYTHONPATH"] = str(ROOT)
        # As docs/deploy.md says: tasks are started as `python3`, by the PATH of each host.
        host.environment["PATH"] = f"{Path(sys.executable).parent}:{host.environment['PATH']}"
        return host

    def _with_wheel(self, name: str) -> Host:
        host = self._host(name, *self.network.host(name))
        packages = host.directory / "packages"
        packages.mkdir()
        shared = str(Path(pyspark.__file__).parent.parent)
        venv = host.directory / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        inside = next(venv.glob("lib/python*/site-packages"))
        places = [shared, *_more_packages(shared)]
        # Where there are namespaces, the checkout with its environment is hidden, and bound here before.
        host.packages = (shared, str(packages))
        (inside / "dependencies.pth").write_text("\n".join([str(packages), *places[1:]] if host.namespace else places))
        shutil.unpack_archive(self._wheel(), inside, "zip")
        host.environment["PATH"] = f"{venv / 'bin'}:{host.environment['PATH']}"
        return host

    def _host(self, name: str, namespace: str, address: str) -> Host:
        directory = self.directory / name
        directory.mkdir()
        kept = {key: os.environ[key] for key in ("PATH", "JAVA_HOME", "LANG", "HOME") if key in os.environ}
        java = {"JAVA_TOOL_OPTIONS": QUICK_START}
        return Host(name, address, directory, {**kept, **java, "SPARK_LOCAL_IP": address}, namespace)

    def _wheel(self) -> Path:
        directory = self.directory / "wheel"
        if not directory.exists():
            build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory]
            subprocess.run(build, check=True, cwd=ROOT, capture_output=True)
        return next(directory.glob("*.whl"))

    def start_store(self) -> None:
        """Start the object store, over the directory that it had before."""
        data = self.first.directory / "objects"
        (data / BUCKET).mkdir(parents=True, exist_ok=True)
        command = [program(), "--access", KEY, "--secret", SECRET, "--port"]
        address = f"{self.network.address}:{self.ports['store']}"
        self.store = self.first.start([*command, address, "--quiet", "posix", data], "store.log")
        self._wait("store", self.store, "store.log")

    def stop_store(self) -> None:
        """End the object store; its objects stay."""
        assert self.store is not None
        end(self.store)

    def _start_postgresql(self) -> None:
        root = Path(subprocess.check_output(["mktemp", "-d", "/tmp/postgresql-XXXXXX"], text=True).strip())
        user = {"user": "postgres"} if os.geteuid() == 0 else {}
        if user:
            shutil.chown(root, "postgres")
        binaries = Path(sorted(glob("/usr/lib/postgresql/*/bin"))[-1])
        make = [binaries / "initdb", "-D", root / "data", "-U", "snapline", "-A", "trust", "--no-sync", "-E", "UTF8"]
        subprocess.run([*make, "--locale=C"], check=True, stdout=subprocess.DEVNULL, cwd="/", **user)  # type: ignore[call-overload]
        with (root / "data" / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {self.network.addresses} trust\n")
        port = self.ports["postgresql"]
        command = [binaries / "postgres", "-D", root / "data", "-p", port, "-h", self.network.address, "-k", root]
        words = [*map(str, command), "-c", "fsync=off"]
        if user:
            words = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *words]
        self._wait("postgresql", self.first.start(words, "postgresql.log"), "postgresql.log")
        create = [binaries / "createdb", "-h", self.network.address, "-p", port, "-U", "snapline", "dagster"]
        subprocess.run(list(map(str, create)), check=True)

    def _start_spark(self) -> None:
        address, master = self.network.address, self.ports["master"]
        spark = "org.apache.spark.deploy.{}"
        words = [spark.format("master.Master"), "--host", address, "--port", master, "--webui-port", 0]
        process = self.first.start([spark_class(self.first, self), *words], "master.log", SPARK_DAEMON_MEMORY="256m")
        self._wait("master", process, "master.log")
        for name in ("worker-1", "worker-2"):
            self.start_worker(name)
        for name in ("worker-1", "worker-2"):
            self._wait_for_text(self.hosts[name].directory / "worker.log", "Successfully registered with master")

    def start_worker(self, name: str) -> None:
        """Start a worker, which offers two cores."""
        host = self.hosts[name]
        words = ["org.apache.spark.deploy.worker.Worker", "--cores", CORES, "--memory", "2g", "--webui-port", 0]
        place = ["--host", host.address, "--work-dir", host.directory / "work", self.url("master", "spark")]
        command = [spark_class(host, self), *words, *place]
        self.workers[name] = host.start(command, "worker.log", SPARK_DAEMON_MEMORY="256m")

    def _wait(self, name: str, process: "subprocess.Popen[bytes]", log: str) -> None:
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until and process.poll() is None:
            try:
                socket.create_connection((self.network.address, self.ports[name]), timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"{name} did not start:\n{(self.first.directory / log).read_text()[-3000:]}")

    def _wait_for_text(self, log: Path, text: str) -> None:
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            if text in log.read_text():
                return
            time.sleep(0.1)
        raise AssertionError(f"{log} does not say {text!r}:\n{log.read_text()[-3000:]}")


def spark_class(host: Host, cluster: Cluster) -> Path:
    """The program of pyspark's own package that starts its services, as a host sees it."""
    own = Path(pyspark.__file__).parent
    hidden = host.packages is not None and host.namespace and own.parent == Path(host.packages[0])
    return (Path(host.packages[1]) / "pyspark" if hidden and host.packages else own) / "bin" / "spark-class"


def _more_packages(shared: str) -> list[str]:
    """Further directories of packages that this interpreter has."""
    return [path for path in sys.path if path.endswith("site-packages") and path != shared]


def _free_port(address: str) -> int:
    with socket.socket() as listener:
        listener.bind((address, 0))
        return int(listener.getsockname()[1])
