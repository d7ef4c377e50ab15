"""Options that a catalog keeps in its warehouse."""

from typing import Any

import pytest

from storage import Catalog
from storage.file_io import FileIO


def test_options_that_two_give_a_catalog_at_once_are_both_kept(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    Catalog(catalog.warehouse, options={"table-storage.file.format": "parquet"})
    replaced = FileIO.replace_if

    def late(self: FileIO, *arguments: Any, **more: Any) -> bool:
        monkeypatch.undo()
        Catalog(catalog.warehouse, options={"table-storage.bucket": "4"})
        return replaced(self, *arguments, **more)

    monkeypatch.setattr(FileIO, "replace_if", late)
    options = Catalog(catalog.warehouse, options={"table-storage.write-only": "true"}).options
    keys = ["table-storage.bucket", "table-storage.file.format", "table-storage.write-only"]
    assert sorted(options) == sorted(Catalog(catalog.warehouse).options) == keys
