"""Ways between pages, and what a page says of what it does not show."""

import re
import shlex
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from resources import Session
from resources.browser.actions import start
from resources.browser.alone import alone_page
from resources.browser.app import browser_app
from resources.browser.server import below
from resources.cli import cli
from resources.recovery import Recovery, plan_recovery
from storage import InvalidRequest

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


def test_a_snapshot_is_compared_with_the_change_before_by_a_click(session: Session, client: TestClient) -> None:
    two(session)
    session.table("shop.orders").compact(full=True)
    page = client.get("/snapshot?ref=snapline.shop.orders@2").text
    (link,) = re.findall(r'href="([^"]*)">Compare with the one before', page)
    compared = client.get(link.replace("&amp;", "&"))
    assert compared.status_code == 200 and "1 rows added" in compared.text
    assert "Compare with the one before" not in client.get("/snapshot?ref=snapline.shop.orders@1").text
    assert "a table with a number" in client.get("/compare").text


def test_a_branch_is_not_there_before_it_was_made(session: Session, client: TestClient) -> None:
    two(session)
    session.table("shop.orders").branches.create("fix", snapshot_id=1)
    session.table("shop.orders$branch_fix").write(ROWS)
    newest = session.table("shop.orders").snapshot()
    assert newest is not None
    made_ms = session.table("shop.orders").history().made_ms, session.table("shop.orders$branch_fix").history().made_ms
    assert made_ms[0] is None and made_ms[1] is not None and made_ms[1] >= newest.time_ms
    before, after = (datetime.fromtimestamp((made_ms[1] + later) / 1000, UTC).isoformat() for later in (-1, 1))
    for moment, is_there in ((before, False), (after, True)):
        page = client.get("/history", params={"at": moment}).text
        # The lane, its fork, its name, and its snapshot.
        assert len(re.findall(rf'class="[^"]*unmade" [^>]*data-made="{made_ms[1]}"', page)) == (0 if is_there else 4)
        assert ('class="lane-name unmade"' in client.get("/history.svg", params={"at": moment}).text) != is_there


def test_a_merge_by_a_statement_is_no_branch_taken_over(session: Session, client: TestClient) -> None:
    two(session)
    session.sql(
        "MERGE INTO shop.orders AS t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE", "duckdb"
    )
    orders = session.table("shop.orders")
    orders.branches.create("fix")
    session.table("shop.orders$branch_fix").write(ROWS)
    orders.branches.merge("fix")
    page = client.get("/history").text
    assert re.findall(r'class="dot merge" href="[^"]*select=([^"#]*)#', page) == ["snapline.shop.orders%404"]
    # The last of each lane says its number.
    assert re.findall(r'<text class="number"[^>]*>(\d+)<', page) == ["4", "4"]


def test_nothing_leads_to_what_had_not_been_committed(session: Session, client: TestClient) -> None:
    two(session)
    orders = session.table("shop.orders")
    orders.branches.create("fix")
    session.table("shop.orders$branch_fix").write(ROWS)
    begun = session.table("shop.orders$branch_fix").snapshot()
    orders.branches.merge("fix")
    orders.branches.delete("fix")
    merged = session.table("shop.orders").snapshot()
    assert begun is not None and merged is not None and merged.time_ms > begun.time_ms
    moments = [datetime.fromtimestamp(each / 1000, UTC).isoformat() for each in (begun.time_ms - 1, merged.time_ms)]
    pages = [client.get("/history", params={"at": moment, "arcs": "all"}).text for moment in moments]
    # A branch that is gone, and never said when it was made, is there from its first snapshot on; what main took over of it, and
    # what was made from anything, from when main had it.
    for name in ("join", "fork", "lane branch gone"):
        assert [f'class="{name} unmade"' in page for page in pages] == [True, False], name
    later = re.findall(r'<path class="arc[^"]*?( unmade)?" [^>]*data-made="(\d+)"', pages[0])
    assert later and all(bool(hidden) == (int(made) > begun.time_ms - 1) for hidden, made in later)


def test_the_name_of_a_recovery_is_no_longer_than_lineage_keeps(session: Session, client: TestClient) -> None:
    two(session)
    page = client.get("/plan?ref=snapline.shop.orders@2").text
    assert 'maxlength="190"' in page
    with pytest.raises(InvalidRequest, match="at most 190"):
        start(session, "x" * 191, {})


def test_a_table_that_no_asset_makes_is_written_by_a_command_of_the_page(session: Session, client: TestClient) -> None:
    session.sql(
        "CREATE TABLE d.raw AS SELECT 1 AS a; INSERT INTO d.raw VALUES (2); CREATE TABLE d.t AS SELECT a FROM d.raw",
        "duckdb",
    )
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref("d.raw@2")))
    recovery.correct("DELETE FROM d.raw WHERE a = 2")
    page = unescape(client.get("/recoveries/fix").text)
    assert "no asset: to be written by SQL" in page and "Compute what is left" not in page
    (command,) = re.findall(r"Write d\.t by SQL: no asset makes it: <code>(.*?)</code>", page)
    assert shlex.split(command) == [
        "snapline",
        "recovery",
        "correct",
        "fix",
        "--sql",
        "INSERT OVERWRITE d.t SELECT a FROM d.raw",
    ]
    answer = CliRunner().invoke(cli, shlex.split(command)[1:])
    assert answer.exit_code == 0, answer.output
    assert "no asset: to be written by SQL" not in client.get("/recoveries/fix").text


def test_a_file_of_its_own_says_what_it_shows_and_as_of_when(session: Session) -> None:
    two(session)
    page = alone_page(session, session.ref("shop.orders@2"), "up", 1)
    assert "What it was made from, over one hop: 1 snapshot of 1 table, committed from 2" in page
    assert "What has come since is not in this file." in page
