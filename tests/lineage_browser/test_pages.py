"""Pages: what is asked wrongly is refused by name, names are text whatever they hold, and nothing needs JavaScript."""

import csv
import datetime as dt
import io
import re
import time
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from lineage import sources_property
from resources import Session
from resources.browser.alone import alone_page
from resources.browser.spoilt import damage_of
from resources.cli import cli
from resources.links.address import text_of
from resources.links.shown_text import visible
from storage import CommitId, SnapshotRef

SCHEMA = pa.schema([("id", pa.int64()), ("said", pa.string())])
HOSTILE = [
    "<script>alert(1)</script>",
    '"onload="alert(1)',
    "'><img src=x onerror=alert(1)>",
    "{{7*7}}",
    "${7*7}",
    "\u202eevil",
    "a" * 190,
    "=HYPERLINK(1)",
    "&amp;",
    "%3Cscript%3E",
    "]]>",
    "--",
    "ä ö\u0301",
]


def made(session: Session, name: str, *sources: SnapshotRef, job: str = "", said: str = "x") -> SnapshotRef:
    table = session.catalog.create_table(name, SCHEMA, if_not_exists=True)
    number = len(table.history().snapshots)
    rows = pa.table({"id": [number], "said": [said]})
    table.write(rows, commit_id=CommitId(job or name, number), properties=sources_property(sources))
    ref = table.ref()
    assert ref is not None
    return ref


class Elements(HTMLParser):
    """What a browser would make of a page: its elements, their attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts: list[dict[str, str | None]] = []
        self.attributes: list[tuple[str, str]] = []
        self.names: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag == "script":
            self.scripts.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


PAGES = [
    "/",
    "/history",
    "/history?arcs=all&compactions=1",
    "/snapshot?ref={}",
    "/ancestry?ref={}",
    "/history?select={}",
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_jobs_branches_tags_and_rows_are_shown_as_text(session: Session, client: TestClient, name: str) -> None:
    source = made(session, "raw.a", job=name, said=name)
    made(session, "core.b", source, job=name)
    table = session.table("raw.a")
    for make in (lambda: table.tags.create(name), lambda: table.branches.create(name)):
        try:
            make()
        except Exception:
            continue
    for path in PAGES:
        answer = client.get(path.format(text_of(source)))
        assert answer.status_code == 200, answer.text
        elements = Elements(answer.text)
        assert elements.names <= KNOWN, elements.names - KNOWN
        assert all(script.get("src") or script.get("type") == "application/json" for script in elements.scripts)
        assert not [each for each in elements.attributes if each[0].startswith("on") or each[0] == "style"]
        assert not [
            each for each in elements.attributes if each[0] == "href" and each[1].lower().startswith("javascript")
        ]
    assert visible(name) in Elements(client.get(f"/snapshot?ref={text_of(source)}").text).text
    alone = Elements(alone_page(Session(), source))
    assert alone.names <= KNOWN | {"style"}
    row = next(csv.DictReader(io.StringIO(client.get("/history.csv").text)))
    assert row["job"].lstrip("'") == name.lstrip("'")
    assert row["job"][:1] not in "=+-@"


KNOWN = {
    "html",
    "head",
    "meta",
    "title",
    "link",
    "script",
    "body",
    "a",
    "header",
    "nav",
    "form",
    "input",
    "main",
    "h1",
    "h2",
    "p",
    "label",
    "select",
    "option",
    "button",
    "output",
    "span",
    "ol",
    "li",
    "div",
    "svg",
    "g",
    "line",
    "path",
    "circle",
    "rect",
    "text",
    "aside",
    "details",
    "summary",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "section",
    "dl",
    "dt",
    "dd",
    "code",
    "ul",
    "strong",
    "pre",
}


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/history?colour=red", 400, "'colour', which no page knows"),
        ("/spoilt?ref=snapline.raw.a@1&hops=1", 400, "'hops', which this page does not know. There are: ref"),
        ("/plan?ref=snapline.raw.a@1&zz=1", 400, "'zz', which this page does not know. There are: mode, ref"),
        ("/compare?a=x", 400, "'a', which this page does not know. There are: left, right, rows, snapshots"),
        ("/compare?rows=some", 400, "it is 'all', or left out"),
        ("/recoveries?table=raw.a", 400, "It takes none"),
        ("/history?hops=0", 400, "hops = '0': it is a number from 1 to"),
        ("/history?hops=-1", 400, "hops = '-1'"),
        ("/history?direction=left", 400, "it is one of up, down, both"),
        ("/history?at=yesterday", 400, "it is a time like"),
        ("/history?at=0001-01-01T00:00:00%2B14:00", 400, "it is a time like"),
        ("/history?until=9999-12-31T23:59:59-14:00", 400, "it is a time like"),
        ("/history?limit=999999999999999999999", 400, "limit"),
        ("/history?branches=yes", 400, "it is 1 or 0"),
        ("/history?select=raw.a", 400, "'raw.a' is no snapshot"),
        ("/history?select=a@b@c", 400, "is no snapshot"),
        ("/snapshot", 400, "Name a snapshot"),
        ("/snapshot?ref=snapline.raw.a@77", 404, "No table and no lineage knows a snapshot raw.a@77"),
        ("/snapshot?ref=snapline.no.such@1", 404, "No table and no lineage knows"),
        ("/snapshot?ref=nowhere.raw.a@1", 404, "catalog &#39;nowhere&#39;"),
        ("/snapshot?ref=snapline.../../etc/passwd@1", 400, ""),
        ("/column?ref=snapline.raw.a@1", 400, "Name a column"),
        ("/column?ref=snapline.raw.a@1&column=nope", 404, "has no column &#39;nope&#39;. It has id, said"),
        ("/?focus=snapline.no.such", 400, "There is no table"),
        ("/history.exe", 404, "there are svg, csv, dot and mmd"),
        ("/ancestry.exe?ref=snapline.raw.a@1", 404, "there are csv, svg, dot and mmd"),
        ("/nope", 404, "There is no such page"),
        (f"/compare?left=snapline.raw.a@{10**30}&right=snapline.raw.a@1", 404, "does not exist"),
        ("/static/../app.py", 404, ""),
        ("/static/%2e%2e/app.py", 404, ""),
    ],
)
def test_what_is_asked_wrongly_is_refused_by_name(
    session: Session, client: TestClient, path: str, status: int, said: str
) -> None:
    made(session, "raw.a")
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    assert said in answer.text.replace("&#39;", "'") or said in answer.text
    assert "Traceback" not in answer.text


def test_the_address_is_the_state(session: Session, client: TestClient) -> None:
    first = made(session, "raw.a")
    second = made(session, "core.b", first)
    made(session, "mart.c", second)
    selected = Elements(client.get(f"/history?select={text_of(second)}&direction=up").text)
    classes = [value.split() for name, value in selected.attributes if name == "class" and value.split()[:1] == ["dot"]]
    assert ["selected" in each for each in classes] == [False, True, False]
    assert ["up" in each for each in classes] == [True, False, False]
    assert not any("down" in each for each in classes)
    # Filters hide, and move nothing.
    plain, filtered = client.get("/history").text, client.get("/history?job=core").text
    assert _places(plain) == _places(filtered)
    assert filtered.count(" off") == 2 > plain.count(" off")


def _places(page: str) -> list[str]:
    return [value for name, value in Elements(page).attributes if name in ("cx", "cy")]


def test_as_it_was_at_a_moment(session: Session, client: TestClient) -> None:
    made(session, "raw.a")
    early = client.get("/?at=2001-01-01T00:00:00")
    assert "0 tables" in early.text
    assert "<h2>1 table</h2>" in client.get("/?at=2999-01-01T00:00:00").text
    assert 'class="later" x="15"' in client.get("/history?at=2001-01-01T00:00:00").text


def test_what_was_taken_back_and_tagged_later_was_not_so_before(session: Session, client: TestClient) -> None:
    for _ in range(3):
        made(session, "raw.a")
    table = session.table("raw.a")
    third = table.history().snapshots[-1].time_ms
    time.sleep(0.05)
    table.tags.create("seal", snapshot_id=1, time_retained=dt.timedelta(days=1))
    table.rollback_to(1)
    now = _listed(client, "")
    assert [(row["state"], row["tags"]) for row in now] == [
        ("", "seal"),
        ("taken back", ""),
        ("taken back", ""),
        ("", ""),
    ]
    moment = dt.datetime.fromtimestamp(third / 1000, dt.UTC).replace(tzinfo=None).isoformat()
    then = _listed(client, f"?at={moment}")
    assert [(row["state"], row["tags"]) for row in then] == [("", "")] * 3
    shown = (
        dt.datetime.fromtimestamp(third / 1000, dt.UTC)
        .replace(tzinfo=None)
        .isoformat(" ", "milliseconds")
        .removesuffix(".000")
    )
    page = client.get(f"/history?at={moment}").text
    assert f'<output id="moment" for="slider">{shown} UTC</output>' in page
    assert 'max="4" value="3"' in page
    assert page.count("ghost") < client.get("/history").text.count("ghost")


def test_only_what_left_the_rows_as_they_were_is_unchanged(session: Session, client: TestClient) -> None:
    for statement in (
        "CREATE TABLE raw.a (id BIGINT, said STRING)",
        "INSERT INTO raw.a VALUES (1, 'a'), (2, 'b')",
        "UPDATE raw.a SET said = 'c' WHERE id = 2",
        "INSERT INTO raw.a VALUES (3, 'd')",
    ):
        session.sql(statement, "duckdb")
    table = session.table("raw.a")
    table.compact(full=True)
    table.new_commit().commit([], even_empty=True)
    kinds = [(row["kind"], row["change"]) for row in _listed(client, "?compactions=1")]
    assert ("UPDATE", "0") in kinds and len(kinds) == 5, kinds
    changed = [row["kind"] for row in _listed(client, "?compactions=1&unchanged=0")]
    assert changed == ["WRITE", "UPDATE", "WRITE"]


def test_partitions_are_found_though_dagster_did_not_write_them(session: Session, client: TestClient) -> None:
    for statement in (
        "CREATE TABLE raw.a (id BIGINT, day STRING) PARTITIONED BY (day)",
        "INSERT INTO raw.a VALUES (1, 'mon'), (2, 'tue')",
        "INSERT INTO raw.a VALUES (3, 'tue')",
        "CREATE TABLE raw.b AS SELECT 'tue' AS day",
    ):
        session.sql(statement, "duckdb")
    for query, expected in (("day=mon", ["raw.a@1"]), ("tue", ["raw.a@1", "raw.a@2"]), ("day=wed", [])):
        assert [row["snapshot"] for row in _listed(client, f"?partition={query}")] == expected


def _listed(client: TestClient, query: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(client.get(f"/history.csv{query}").text)))


def test_of_a_snapshot_that_has_expired_the_commit_stays_known(session: Session, client: TestClient) -> None:
    made(session, "raw.a", job="the loader")
    made(session, "raw.a", job="the loader")
    session.table("raw.a").expire(retain_last=1)
    listed = next(csv.DictReader(io.StringIO(client.get("/history.csv").text)))
    assert (listed["snapshot"], listed["state"], listed["job"]) == ("raw.a@1", "expired", "the loader")
    page = Elements(client.get("/snapshot?ref=snapline.raw.a@1").text).text
    assert f"{listed['committed (UTC)']} UTC" in page
    assert "the loader" in page


def test_commands_to_copy_mean_what_they_say_in_a_shell(session: Session, client: TestClient) -> None:
    session.sql("CREATE TABLE raw.a (id BIGINT); INSERT INTO raw.a VALUES (1)", "duckdb")
    session.table("raw.a").branches.create("fix")
    page = Elements(client.get("/snapshot?ref=snapline.raw.a$branch_fix@1").text).text
    assert "snapline reproduce 'raw.a$branch_fix@1'" in page


def test_no_command_is_offered_that_cannot_work(session: Session, client: TestClient) -> None:
    orders = made(session, "raw.orders")
    assert "It says neither of a statement nor of an asset" in client.get(f"/snapshot?ref={text_of(orders)}").text
    session.sql("CREATE TABLE core.days AS SELECT * FROM raw.orders", "duckdb")
    days = client.get("/snapshot?ref=snapline.core.days@1").text
    assert "snapline reproduce core.days@1" in Elements(days).text
    session.sql("DROP TABLE raw.orders", "duckdb")
    days = client.get("/snapshot?ref=snapline.core.days@1").text
    assert "was made from raw.orders@1, which was dropped with its table" in Elements(days).text
    assert "snapline reproduce" not in Elements(days).text


def test_a_rollback_to_what_was_good_is_not_spoilt(session: Session, client: TestClient) -> None:
    for statement in (
        "CREATE TABLE raw.a (id BIGINT)",
        "INSERT INTO raw.a VALUES (1)",
        "CREATE TABLE core.b AS SELECT * FROM raw.a",
        "INSERT INTO raw.a VALUES (666)",
        "INSERT OVERWRITE core.b SELECT * FROM raw.a",
        "CALL sys.rollback('core.b', '1')",
        "INSERT OVERWRITE core.b SELECT * FROM raw.a",
    ):
        session.sql(statement, "duckdb")
    (affected,) = (
        candidate for candidate in damage_of(Session(), session.ref("raw.a@2")).spoilt if candidate.first.table == "b"
    )
    assert [ref.snapshot_id for ref, _ in affected.snapshots] == [2, 4]


def test_a_catalog_that_records_no_lineage_is_not_said_to_be_sound(
    session: Session, client: TestClient, tmp_path: Path
) -> None:
    bad = made(session, "raw.a")
    session.sql(f"CREATE CATALOG second WITH ('warehouse' = '{tmp_path / 'second'}')", "duckdb")
    session.sql("CREATE TABLE second.core.copied AS SELECT * FROM raw.a", "duckdb")
    damage = damage_of(Session(), bad)
    assert damage.silent == ("second",)
    assert not [name for name in damage.sound if name.startswith("second.")]
    assert "Of catalog second nothing can be said" in client.get(f"/spoilt?ref={text_of(bad)}").text


def places(page: str) -> dict[int, tuple[str, str]]:
    """Where the dots are that a page shows, by number."""
    circles = re.findall(r'<a class="([^"]*)" [^>]*data-index="(\d+)".*?<circle cx="(\d+)" cy="(\d+)"', page)
    return {int(index): (x, y) for classes, index, x, y in circles if "off" not in classes.split()}


def test_positions_never_move_whatever_is_selected_slid_or_filtered(session: Session, client: TestClient) -> None:
    orders = made(session, "raw.orders")
    days = made(session, "core.days", orders, job="nightly")
    session.table("core.days").branches.create("fix")
    session.table("core.days$branch_fix").write(pa.table({"id": [7], "said": ["b"]}))
    made(session, "mart.report", days)
    whole = places(client.get("/history").text)
    assert len(whole) == 4
    for query, count in (
        ("select=snapline.mart.report@1", 4),
        ("at=2020-01-01", 4),
        ("tables=mart", 1),
        ("tables=MART,raw", 2),
        ("branches=0", 3),
        ("job=nightly", 1),
        ("kind=nothing", 0),
        ("tables=report&select=snapline.raw.orders@1", 1),
    ):
        page = client.get(f"/history?{query}").text
        shown = places(page)
        assert (len(shown), shown.items() <= whole.items()) == (count, True), query
        # Lanes keep their place beside their names.
        assert page.count("<li class=") >= 4
        drawn = client.get(f"/history.svg?{query}").text
        assert ("core.days" in drawn) == ("tables" not in query)
        # Files hold what is not shaded on the page.
        held = 0 if "at=" in query else count
        assert len(client.get(f"/history.csv?{query}").text.splitlines()) == held + 1
    # What is left out was still made from it.
    assert "Snapshots that led to it: 2." in client.get("/history?tables=mart&select=snapline.mart.report@1").text
    closed = places(client.get("/history?tables=mart&gaps=0").text)
    (mart,) = closed
    assert closed[mart][0] == whole[mart][0] and int(closed[mart][1]) < int(whole[mart][1])
    assert "No snapshot is left by the filters: “none”" in client.get("/history?tables=none").text


def test_an_empty_platform_says_so(client: TestClient) -> None:
    assert "There is no snapshot here" in client.get("/history").text
    assert "0 tables" in client.get("/").text
    for form in ("svg", "csv", "dot", "mmd"):
        assert client.get(f"/history.{form}").status_code == 200


def test_a_picture_may_have_its_own_style_and_a_page_may_not(client: TestClient) -> None:
    picture, page = (client.get(path).headers["content-security-policy"] for path in ("/history.svg", "/history"))
    assert "style-src 'unsafe-inline'" in picture and "sandbox" in picture and "script-src" not in picture
    assert "unsafe-inline" not in page and "script-src 'self'" in page


def test_a_damaged_table_is_named_and_stops_no_page(session: Session, client: TestClient, tmp_path: Path) -> None:
    ref = made(session, "raw.a")
    made(session, "core.b", ref)
    path = Path(session.catalog.table("raw.a").location.removeprefix("file://")) / "snapshot" / "snapshot-1"
    path.write_text("{")
    page = client.get("/history").text
    assert "raw.a cannot be read" in page
    assert "core.b" in page
    assert client.get("/").status_code == 200
    assert client.get(f"/snapshot?ref={text_of(ref)}").status_code == 200


def test_the_column_of_a_snapshot_leads_to_the_columns_that_it_was_computed_from(
    session: Session, client: TestClient
) -> None:
    session.sql("CREATE TABLE raw.a (id BIGINT, said STRING)", "duckdb")
    session.sql("INSERT INTO raw.a VALUES (1, 'x')", "duckdb")
    session.sql("CREATE TABLE core.b AS SELECT id AS number, upper(said) AS loud, 7 AS seven FROM raw.a", "duckdb")
    page = Elements(client.get("/column?ref=snapline.core.b@1&column=loud").text).text
    assert "said" in page and "raw.a@1" in page
    assert "it was made from no other snapshot" in page
    assert "it is a constant" in Elements(client.get("/column?ref=snapline.core.b@1&column=seven").text).text


def test_one_file_holds_the_same_picture(session: Session, client: TestClient, tmp_path: Path) -> None:
    first = made(session, "raw.a")
    second = made(session, "core.b", first)
    done = CliRunner().invoke(cli, ["lineage", "core.b@1", "--html", str(tmp_path / "out.html")], obj=Session())
    assert done.exit_code == 0, done.output
    page = (tmp_path / "out.html").read_text()
    assert _places(page) == _places(client.get(f"/snapshot?ref={text_of(second)}").text)
    outside = [
        value for name, value in Elements(page).attributes if name in ("src", "href") and not value.startswith("#")
    ]
    assert outside == []
    refused = CliRunner().invoke(cli, ["lineage", "core.b@1", "--html", "x", "--format", "dot"], obj=Session())
    assert refused.exit_code and not Path("x").exists()
