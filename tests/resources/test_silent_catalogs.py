"""A catalog that records no lineage of snapshots: what was made from its tables is not called sound."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from resources import Session
from resources.browser.spoilt import damage_of
from resources.cli import cli


@pytest.fixture
def shop(session: Session, tmp_path: Path) -> Session:
    """`shop.back` was made from `shop.orders` by way of the catalog `second`, `shop.other` from what `second` was given."""
    for statement in (
        f"CREATE CATALOG second WITH ('warehouse' = '{tmp_path / 'second'}', 'table-lineage' = 'true')",
        "CREATE DATABASE shop",
        "CREATE DATABASE second.shop",
        "CREATE TABLE shop.orders AS SELECT 7 AS a",
        "CREATE TABLE second.shop.copy AS SELECT a FROM snapline.shop.orders",
        "CREATE TABLE second.shop.given (a INT)",
        "INSERT INTO second.shop.given VALUES (1)",
        "CREATE TABLE shop.back AS SELECT a FROM second.shop.copy",
        "CREATE TABLE shop.further AS SELECT a FROM shop.back",
        "CREATE TABLE shop.other AS SELECT a FROM second.shop.given",
    ):
        session.sql(statement, "duckdb")
    return session


def test_what_was_made_from_a_silent_catalog_is_not_called_sound(shop: Session) -> None:
    damage = damage_of(shop, shop.ref("shop.orders@1"))
    assert damage.silent == ("second",)
    assert damage.unknown == ("snapline.shop.back", "snapline.shop.further")
    assert damage.sound == ("snapline.shop.other",)


@pytest.mark.parametrize("command", ["impact", "recovery plan"])
def test_commands_say_what_they_cannot_tell(shop: Session, command: str) -> None:
    answer = CliRunner().invoke(cli, [*command.split(), "shop.orders@1"])
    assert answer.exit_code == 0
    assert "Nor of what was made from them: shop.back, shop.further." in answer.stderr
    plain = CliRunner().invoke(cli, [*command.split(), "shop.orders@1", "--format", "json"])
    assert "nothing is known" not in plain.stdout


def test_nothing_is_said_where_all_catalogs_record_lineage(session: Session) -> None:
    session.sql("CREATE DATABASE shop", "duckdb")
    session.sql("CREATE TABLE shop.orders AS SELECT 7 AS a", "duckdb")
    assert CliRunner().invoke(cli, ["impact", "shop.orders@1"]).stderr == ""
