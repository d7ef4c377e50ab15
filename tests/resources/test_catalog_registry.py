"""The file of the catalogs: whoever else writes it, and whatever it holds."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from resources.warehouse import catalog_registry
from resources.warehouse.catalog_registry import CatalogRegistry
from storage import AlreadyExists, CorruptData, InvalidRequest, NotFound


def _options(tmp_path: Path, name: str) -> dict[str, str]:
    return {"warehouse": str(tmp_path / name)}


def test_what_others_create_and_drop_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = CatalogRegistry(tmp_path)
    registry.create("old", _options(tmp_path, "old"))
    opened = catalog_registry.open_lineage_store

    def beside(options: object) -> object:
        monkeypatch.setattr(catalog_registry, "open_lineage_store", opened)
        other = CatalogRegistry(tmp_path)
        other.create("b", _options(tmp_path, "b"))
        other.drop("old")
        return opened(options)

    monkeypatch.setattr(catalog_registry, "open_lineage_store", beside)
    registry.create("a", _options(tmp_path, "a"))
    assert sorted(registry.all()) == ["a", "b"]


def test_of_two_that_create_one_name_the_second_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = catalog_registry.open_lineage_store

    def beside(options: object) -> object:
        monkeypatch.setattr(catalog_registry, "open_lineage_store", opened)
        CatalogRegistry(tmp_path).create("a", _options(tmp_path, "theirs"))
        return opened(options)

    monkeypatch.setattr(catalog_registry, "open_lineage_store", beside)
    with pytest.raises(AlreadyExists, match="just created"):
        CatalogRegistry(tmp_path).create("a", _options(tmp_path, "ours"))
    assert CatalogRegistry(tmp_path).get("a")["warehouse"] == str(tmp_path / "theirs")


def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    def create(number: int) -> None:
        CatalogRegistry(tmp_path).create(f"c{number}", _options(tmp_path, f"w{number}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(16)))
    assert len(CatalogRegistry(tmp_path).all()) == 16


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"c": 3}', b'{"c": {}}', b'{"c": {"warehouse": 3}}', b"[" * 100_000]
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "catalogs.json").write_bytes(content)
    registry = CatalogRegistry(tmp_path)
    with pytest.raises(CorruptData, match=re.escape(f"File {tmp_path}/catalogs.json")):
        registry.all()
    with pytest.raises(CorruptData):
        registry.create("a", _options(tmp_path, "a"))
    assert (tmp_path / "catalogs.json").read_bytes() == content


def test_a_directory_in_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "catalogs.json").mkdir()
    with pytest.raises(CorruptData, match=r"catalogs\.json"):
        CatalogRegistry(tmp_path).all()
    (tmp_path / "catalogs.json").rmdir()
    with pytest.raises(NotFound):
        CatalogRegistry(tmp_path).get("a")


@pytest.mark.parametrize("warehouse", ["rel", "./rel", "../rel", "~/rel"])
def test_a_warehouse_that_is_another_one_elsewhere_is_refused(tmp_path: Path, warehouse: str) -> None:
    with pytest.raises(InvalidRequest, match="no absolute path"):
        CatalogRegistry(tmp_path).create("a", {"warehouse": warehouse})
    assert CatalogRegistry(tmp_path).all() == {}
