"""Readers of other formats that the tests here share."""

from collections.abc import Iterator

import pytest

from tests.interop.iceberg_reader import IcebergReader


@pytest.fixture(scope="session")
def iceberg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergReader]:
    """pyiceberg and DuckDB."""
    reader = IcebergReader(tmp_path_factory.mktemp("iceberg"))
    yield reader
    reader.close()
