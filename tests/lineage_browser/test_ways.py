"""Ways between pages, and what a page says of what it does not show."""

import re
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from click.testing import CliRunner
from starlette.testclient import TestClient

from resources import Session
from resources.browser.app import browser_app
from resources.browser.server import below
from resources.cli import cli
from resources.recovery import Recovery, plan_recovery

SCHEMA = pa.schema([("id", pa.int64())])
ROWS = pa.table({"id": [1]})


def two(session: Session, name: str = "shop.orders", catalog: str = "snapline") -> None:
    table = session.catalog_of(catalog).create_table(name, SCHEMA)
    table.write(ROWS)
    table.write(ROWS)


def test_the_page_of_a_snapshot_names_the_recoveries_that_are_open_on_its_table(
    session: Session, client: TestClient
) -> None:
    two(session)
    two(session, "shop.other")
    Recovery.start(session, "fix", plan_recovery(session, session.known_ref("shop.orders@2")))
    assert '<a href="/recoveries/fix">fix</a>' in client.get("/snapshot?ref=snapline.shop.orders@2").text
    assert "open on this table" not in client.get("/snapshot?ref=snapline.shop.other@2").text


def test_a_recovery_is_dropped_by_a_second_click(session: Session, client: TestClient) -> None:
    two(session)
    Recovery.start(session, "fix", plan_recovery(session, session.known_ref("shop.orders@2")))
    page = client.get("/recoveries/fix").text
    (hidden,) = re.findall(r"<details><summary>Drop its branches</summary>(.*?)</details>", page, re.S)
    assert "is lost; main stays as it is" in hidden and "<button" in hidden
    assert "Drop its branches</button>" not in page


def test_what_is_folded_and_is_not_there_is_told(session: Session, client: TestClient) -> None:
    two(session)
    assert "Nothing is folded as nosuch" in client.get("/?fold=snapline.shop,nosuch").text
    assert "Nothing is folded" not in client.get("/?fold=snapline.shop").text


def test_alone_it_has_the_path_that_it_has_beside_dagster(session: Session) -> None:
    two(session)
    client = TestClient(below(browser_app(session)), base_url="http://127.0.0.1")
    assert client.get("/", follow_redirects=False).headers["location"] == "/snapline/"
    page = client.get("/snapline/snapshot?ref=snapline.shop.orders@2")
    assert page.status_code == 200 and 'href="/snapline/history?' in page.text
    assert client.get("/snapline/", headers={"Host": "evil.example"}).status_code == 421


def test_long_names_are_shortened_in_a_picture_of_its_own(session: Session, client: TestClient) -> None:
    name = "shop." + "long_" * 36
    two(session, name)
    text = client.get("/history.svg").text
    label = re.search(r'class="lane-name"[^>]*><title>(.*?)</title>(.*?)</text>', text)
    assert label is not None and label[1] == name
    assert len(label[2]) < 40 and label[2].startswith("shop.long_")


def test_tables_of_other_catalogs_are_named_with_it_everywhere(
    session: Session, client: TestClient, tmp_path: Path
) -> None:
    session.sql(f"CREATE CATALOG other WITH ('warehouse' = '{tmp_path / 'other'}')", "duckdb")
    two(session, catalog="other")
    two(session)
    page = client.get(f"/spoilt?ref={quote('other.shop.orders@1')}").text
    assert re.search(r"shop\.orders(</a>)? \(other\)", page)


def test_links_to_a_table_that_was_renamed_lead_to_its_name_of_today(session: Session, client: TestClient) -> None:
    two(session, "shop.old")
    two(session, "shop.kept")
    session.catalog.rename_table("shop.old", "shop.older")
    session.catalog.rename_table("shop.older", "shop.new")
    for path in ("snapshot", "ancestry", "spoilt", "plan"):
        page = client.get(f"/{path}?ref=snapline.shop.old@1")
        assert page.status_code == 200 and "shop.new@1" in page.text, path
    page = client.get("/compare?left=shop.kept@1&right=shop.old@2")
    assert page.status_code == 200 and "shop.new@2" in page.text
    page = client.get("/snapshot?ref=snapline.shop.old@7")
    assert page.status_code == 404 and "shop.new@7" in page.text
    assert client.get("/snapshot?ref=snapline.shop.nothing@1").status_code == 404
    answer = CliRunner().invoke(cli, ["lineage", "shop.old@1"])
    assert "It was renamed to shop.new." in str(answer.exception)
    # Another table has the name now: that is what it means.
    two(session, "shop.old")
    assert "shop.old@1" in client.get("/snapshot?ref=snapline.shop.old@1").text
