"""What the pages say of tables and histories that are larger, older or named otherwise than usual."""

import csv
import io
import re
import subprocess
import threading
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from lineage import sources_property
from resources import Session
from resources.actions.sentences import partition_text, short_partition
from resources.browser.app import browser_app
from resources.browser.facts import Facts
from resources.browser.history import read_history
from resources.browser.lanes import lay_out
from resources.browser.spoilt import damage_of
from resources.browser.table_graph import TableNode
from resources.browser.table_svg import _said
from resources.browser.view import View
from resources.links.address import command
from resources.links.shown_text import visible
from storage import InvalidRequest, SnapshotRef
from tests.lineage_browser.test_compactions import text_at

SCHEMA = pa.schema([("id", pa.int64())])
ROWS = pa.table({"id": [1]})


def rows_of(client: TestClient, query: str) -> list[str]:
    return [row["snapshot"] for row in csv.DictReader(io.StringIO(client.get(f"/history.csv{query}").text))]


@pytest.fixture
def busy(session: Session) -> Session:
    """`raw.old` has six snapshots, and `raw.new` twelve that came later."""
    for name, count in (("old", 6), ("new", 12)):
        table = session.catalog.create_table(f"raw.{name}", SCHEMA)
        for _ in range(count):
            table.write(ROWS)
    return session


def test_filters_are_applied_before_the_newest_are_taken(busy: Session, client: TestClient) -> None:
    page = client.get("/history?tables=raw.old&limit=5").text
    assert len(re.findall(r'<a class="dot(?![^"]*off)', page)) == 5
    assert "5 snapshots that the filters leave" in page
    (earlier,) = re.findall(r'href="(/history[^"]*until=[^"]*)">Earlier', page)
    assert "raw.old@1" in client.get(earlier.replace("&amp;", "&")).text
    (every,) = re.findall(r'href="(/history[^"]*)">All', page)
    assert "raw.old@1" in client.get(every.replace("&amp;", "&")).text


def test_the_csv_has_all_that_the_filters_leave(busy: Session, client: TestClient) -> None:
    assert len(rows_of(client, "?limit=5")) == 18
    assert rows_of(client, "?limit=2&tables=raw.old") == [f"raw.old@{number}" for number in range(1, 7)]


def test_snapshots_that_have_expired_or_have_a_tag_are_counted(session: Session, client: TestClient) -> None:
    table = session.catalog.create_table("k.e", SCHEMA)
    for _ in range(4):
        table.write(ROWS)
    table.tags.create("kept", snapshot_id=2)
    table.expire(retain_last=1, older_than=timedelta(0))
    page = text_at(client, "/spoilt", ref="k.e@1")
    assert "4: @1 (expired) @2 @3 (expired) @4" in page


def test_what_was_taken_back_is_said_to_be(session: Session) -> None:
    table = session.catalog.create_table("k.e", SCHEMA)
    table.write(ROWS)
    table.write(ROWS)
    table.rollback_to(1)
    (affected,) = damage_of(session, SnapshotRef("snapline", "k", "e", "main", 2)).good_again
    assert affected.why == "Taken back by @3." and affected.snapshot_count == 1


def test_what_production_has_made_good_does_not_count_as_spoilt(session: Session) -> None:
    session.sql("CREATE TABLE k.raw (id INT PRIMARY KEY NOT ENFORCED, v INT)")
    session.sql("CREATE TABLE k.made (id INT, v INT)")
    for change in ("INTO k.raw VALUES (1, 1)", "INTO k.raw VALUES (2, -2)", "INTO k.made SELECT * FROM k.raw"):
        session.sql(f"INSERT {change}")
    session.sql("INSERT INTO k.made VALUES (7, 7)")
    session.table("k.raw").rollback_to(1)
    session.sql("INSERT OVERWRITE k.made SELECT * FROM k.raw")
    session.sql("INSERT INTO k.made VALUES (8, 8)")
    _, made = damage_of(session, SnapshotRef("snapline", "k", "raw", "main", 2)).good_again
    assert [ref.snapshot_id for ref, _ in made.snapshots] == [1, 2] and made.snapshot_count == 2


def test_the_rows_of_a_table_are_those_that_it_has_now(session: Session, client: TestClient) -> None:
    options = {"bucket": "1", "write-only": "true"}
    table = session.catalog.create_table("k.e", SCHEMA, primary_key=["id"], options=options)
    for _ in range(3):
        table.write(ROWS)
    # Three records of one row: they are not called rows.
    page = client.get("/").text
    assert "@3 · 3 records" in page and '<td class="n"></td>\n<td class="n">3</td>' in page
    table.compact(full=True)
    latest = table.snapshot()
    assert latest is not None and latest.total_record_count == 1
    client.app.state.browser.facts._read_at = 0  # type: ignore[attr-defined]
    page = client.get("/").text
    assert "@3 · 1 row" in page and '<td class="n">1</td>\n<td class="n">1</td>' in page


def test_a_name_that_turns_the_line_around_is_shown_apart(session: Session, client: TestClient) -> None:
    assert visible("a\u202eb") == "a\\u202eb"
    assert visible("core.\u05d0\u05d1@2") == "core.\u2068\u05d0\u05d1\u2069@2"
    said = command("recovery", "drop", "a\u202e'b")
    assert "\u202e" not in said
    printed = subprocess.run(["bash", "-c", said.replace("snapline recovery drop", "printf %s")], capture_output=True)
    assert printed.stdout.decode() == "a\u202e'b"
    session.catalog.create_table("raw.\u05d0\u05d1", SCHEMA).write(ROWS, properties=sources_property([]))
    for page in ("/", "/history", "/snapshot?ref=raw.\u05d0\u05d1@1", "/spoilt?ref=raw.\u05d0\u05d1@1"):
        text = re.sub('value="[^"]*"', "", client.get(page).text)
        assert not re.search("(?<![\u2068>])\u05d0\u05d1", text), page
    session.catalog.create_table("raw.b", SCHEMA).write(ROWS, commit_id=None)
    assert "\u202e" not in client.get("/history?tables=\u202e").text.replace('value="\u202e"', "").replace(
        "%E2%80%AE", ""
    )


def test_what_a_box_says_fits_into_it() -> None:
    node = TableNode(
        ("snapline", "a", "b"), SnapshotRef("snapline", "a", "b", "main", 100), 1, 12_345_678, None, ("x", "y")
    )
    assert len(_said(node, 36)) <= 36 and "1970" not in _said(node, 36) and "1970" in _said(node)


def test_the_last_time_has_room(session: Session) -> None:
    session.catalog.create_table("raw.a", SCHEMA).write(ROWS)
    history = read_history(Facts(session).platform(), 10)
    layout = lay_out(history, View())
    assert layout.width >= layout.days[-1][0] + 70


def test_lines_of_branches_that_are_gone_and_that_are_main(session: Session) -> None:
    table = session.catalog.create_table("raw.a", SCHEMA)
    table.write(ROWS)
    for name in ("gone", "next"):
        table.branches.create(name)
        table.on_branch(name).write(ROWS)
    table.branches.delete("gone")
    table.branches.replace_main("next")
    history = read_history(Facts(Session()).platform(), 100)
    lanes = {lane.place[3]: lane for lane in history.lanes}
    assert lanes["main"].forks_at is None
    begun = lanes["gone"].forks_at
    assert begun is not None and str(history.dots[begun].ref) == "raw.a@1"


def test_without_scripts_no_button_is_shown_that_does_nothing(session: Session, client: TestClient) -> None:
    session.catalog.create_table("raw.a", SCHEMA).write(ROWS)
    page = client.get("/history").text
    assert not [each for each in re.findall(r'<button type="button"[^>]*>', page) if " hidden" not in each]


def test_long_statements_are_folded_and_long_addresses_cut(session: Session, client: TestClient) -> None:
    session.sql("CREATE DATABASE k", "duckdb")
    session.sql("CREATE TABLE k.a (id INT)", "duckdb")
    session.sql("INSERT INTO k.a SELECT " + " + ".join(["1"] * 300), "duckdb")
    assert re.search(r"<dt>statement</dt><dd><details><summary>INSERT INTO", client.get("/snapshot?ref=k.a@1").text)
    assert len(client.get(f"/spoilt?ref=a.{'b' * 4000}@1").text) < 4_000


def test_a_page_of_the_other_scheme_is_another_page(session: Session) -> None:
    client = TestClient(browser_app(session), base_url="http://127.0.0.1:3000")
    for scheme, said in (("https", "another page"), ("http", "not sent as")):
        answer = client.post("/recoveries", headers={"Origin": f"{scheme}://127.0.0.1:3000"})
        assert said in answer.text.lower(), answer.text


@pytest.mark.parametrize("path", ["/", "/history"])
def test_a_first_page_shows_what_is_known_while_lineage_catches_up(
    session: Session, client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    session.catalog.create_table("raw.a", SCHEMA).write(ROWS)
    may_go_on = threading.Event()
    ask = Session.stores_to_ask

    def slow(*arguments: object, **named: object) -> object:
        may_go_on.wait(60)
        return ask(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Session, "stores_to_ask", slow)
    facts = client.app.state.browser.facts  # type: ignore[attr-defined]
    facts.read_beside()
    page = client.get(path).text
    assert "This is what is known so far: 1 tables have been read" in page and 'http-equiv="refresh"' in page
    assert "raw.a" in page and "dropped" not in re.sub("<p class=.legend.*", "", page, flags=re.S)
    may_go_on.set()
    facts._reading.join()
    page = client.get(path).text
    assert "so far" not in page and "refresh" not in page and "raw.a" in page


def test_the_page_of_a_recovery_that_is_published(tmp_path: Path) -> None:
    template = (Path("resources/browser/templates") / "recovery.html").read_text()
    assert "In spite of something" not in template and "read-only. On the command line" not in template


@pytest.mark.parametrize("name", ["a\u202eb", "a b", "a\tb", "\u200b"])
def test_branches_are_not_named_by_what_cannot_be_seen(session: Session, name: str) -> None:
    table = session.catalog.create_table("raw.a", SCHEMA)
    table.write(ROWS)
    with pytest.raises(InvalidRequest, match="use letters, digits, underscores and hyphens"):
        table.branches.create(name)


def test_a_table_whose_changes_have_expired_is_not_called_empty(session: Session, client: TestClient) -> None:
    table = session.catalog.create_table("raw.mid", SCHEMA, options={"write-only": True})
    for _ in range(2):
        table.write(ROWS)
    table.compact(full=True)
    table.expire(retain_last=1)
    page = client.get("/").text
    assert "no snapshot yet" not in page
    assert "ref=snapline.raw.mid%403" in page


def test_a_partition_of_null_is_called_null() -> None:
    assert partition_text({"p": None, "q": "None"}) == "p=NULL/q=None"
    # In a list commas stand between partitions alone.
    assert [short_partition(each) for each in ({"p": ""}, {"p": None}, {"p": 1, "q": ""})] == ["''", "NULL", "p=1/q=''"]


def test_a_commit_that_nobody_has_named_has_no_job(session: Session, client: TestClient) -> None:
    session.sql("CREATE TABLE d.t AS SELECT 1 AS a; INSERT INTO d.t VALUES (2)", "duckdb")
    made = session.table("d.t").rollback_to(1)
    assert made is not None
    page = client.get("/snapshot", params={"ref": "snapline.d.t@3"}).text
    assert "ROLLBACK to 1" in page and f"job</dt><dd><code>{made.commit_user}" not in page
