"""A real server that speaks S3, for all tests of a worker and for one that stops it."""

import os
from collections.abc import Iterator

import fsspec
import pytest

from tests.contracts.versitygw import Versitygw, why_missing


@pytest.fixture(scope="session")
def _shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versitygw]:
    yield from _started(tmp_path_factory)


@pytest.fixture
def gateway(_shared_gateway: Versitygw) -> Iterator[Versitygw]:
    """A server with an empty bucket named `bucket`. A test that kills or pauses it takes `own_gateway`."""
    _shared_gateway.empty()
    yield _shared_gateway
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.fixture
def own_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versitygw]:
    """A server that the test may kill, pause and start again."""
    yield from _started(tmp_path_factory)
    fsspec.get_filesystem_class("s3").clear_instance_cache()


def _started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versitygw]:
    if missing := why_missing():
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    server = Versitygw(tmp_path_factory.mktemp("versitygw") / "buckets")
    try:
        server.start()
    except TimeoutError:
        # Somebody else may have taken its port.
        server = Versitygw(tmp_path_factory.mktemp("versitygw") / "buckets")
        server.start()
    yield server
    server.kill()
