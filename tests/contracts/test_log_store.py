"""The log in memory does what every system of logs has to do."""

import pytest

from storage.log.log_store import LogStore
from storage.log.memory_log import MemoryLog
from storage.log.testing import LogStoreContract


class TestMemoryLog(LogStoreContract):
    @pytest.fixture
    def log(self) -> LogStore:
        return MemoryLog()
