"""Four processes commit to a real server over S3 that is killed and paused meanwhile: each commit is there once."""

import threading
import time
from pathlib import Path

import pytest

from tests.contracts.versitygw import Versitygw
from tests.crash.crowd_of_writers import Crowd
from tests.crash.test_crowd import act, seed
from tests.scale import FULL, amount

CROWD = {"writers": 4, "commits": amount(8, 100, full=25), "compactors": 1, "branchers": 1}
# Time-outs are shorter than a pause, and longer than the server takes to start.
CONFIG = {"retries": {"max_attempts": 2, "mode": "standard"}, "read_timeout": 2, "connect_timeout": 2}


class _Disturber(threading.Thread):
    """Kills the server and starts it again, or lets it sleep beyond time-outs, until `stop`, or until all writers are done: what
    is there then is looked at in peace.
    """

    def __init__(self, server: Versitygw, kind: str, crowd: Crowd) -> None:
        super().__init__(daemon=True)
        self._server, self._kind, self._crowd = server, kind, crowd
        self._over = threading.Event()
        self.times = 0

    def run(self) -> None:
        # The table is to be made before.
        while not list(self._server.directory.glob("bucket/w/shop.db/*/schema/schema-0")) and not self._over.wait(0.05):
            pass
        while not self._over.wait(1.5) and not self._crowd.has_written:
            if self._kind == "killed":
                self._server.kill()
                time.sleep(0.3)
                self._server.start()
            elif self._kind == "paused":
                self._server.pause()
                time.sleep(3.5)
                self._server.resume()
            self.times += 1

    def stop(self) -> None:
        self._over.set()
        if self.is_alive():
            self.join()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("server", ["left alone", "killed", "paused"])
@pytest.mark.parametrize("keyed", [True, False] if FULL else [True])
def test_each_commit_of_four_processes_is_there_once(
    own_gateway: Versitygw, tmp_path: Path, server: str, keyed: bool
) -> None:
    options = own_gateway.options(**CONFIG)
    crowd = Crowd(str(tmp_path), seed(), warehouse="s3://bucket/w", storage_options=options, keyed=keyed, **CROWD)
    disturber = _Disturber(own_gateway, server, crowd)
    if server != "left alone":
        disturber.start()
    try:
        outcome = act(crowd, "crowd_of_writers.py")
    finally:
        disturber.stop()
    assert outcome["acknowledged"] == crowd.writers * crowd.commits
    assert (disturber.times > 0) == (server != "left alone")
    assert own_gateway.buckets() == ["bucket"]
