"""A recovery from the browser's pages: what it shows is what the command line says, what it refuses has done nothing."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from resources import Session
from resources.browser import recovery_pages
from resources.browser.facts import Facts
from resources.browser.history import read_history
from resources.browser.table_graph import table_graph
from resources.cli.recovery import plan as plan_command
from resources.recovery import Recovery, plan_recovery
from resources.recovery.jobs import StartConfig
from resources.recovery.publish import publish
from resources.recovery.record import names
from tests.lineage_browser.bad_day import ADDRESS, Form, bad_day, client_of
from tests.resources.quick_shop import KEYS
from tests.resources.test_recovery_refusals import GOOD, KNOWN, MENDED, Shop

pytestmark = pytest.mark.dagster
PLAN = "/plan?ref=snapline.raw.orders@2"


@pytest.fixture
def shop(spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    opened_shop = bad_day(tmp_path / "home", monkeypatch)
    yield opened_shop
    opened_shop.instance.dispose()


def text(page: str) -> str:
    """What a page shows, with single spaces."""
    return unescape(" ".join(re.sub(r"<[^>]*>", " ", page).split()))


def state(session: Session) -> tuple[list[str], dict[str, list[str]], dict[str, int | None]]:
    """Everything that an action could change: recoveries, branches, snapshots."""
    tables = {name: session.catalog.table(name) for name in session.catalog.tables()}
    newest = {name: table.snapshot() for name, table in tables.items()}
    return (
        names(session.catalog),
        {name: table.branches.names() for name, table in tables.items()},
        {name: snapshot and snapshot.id for name, snapshot in newest.items()},
    )


def test_a_bad_day_is_repaired_from_the_page_of_what_it_has_spoilt(shop: Shop) -> None:
    session, browser = shop.session, client_of(shop.session, location="shop")
    page = browser.get("/spoilt?ref=snapline.raw.orders@2")
    assert page.status_code == 200
    for ref in session.impact(session.ref("raw.orders@2")):
        assert str(ref) in text(page.text)
    assert f"2: {KEYS[2]}, {KEYS[3]}" in text(page.text)
    assert "tables that it never reached raw.weather" in text(page.text)
    assert PLAN in page.text

    plan = browser.get(PLAN)
    for row in plan_recovery(session, session.ref("raw.orders@2")).rows():
        assert " ".join(map(str, row)) in text(plan.text)
    form = Form(plan.text, "/recoveries")
    assert form.fields["branch"] == "fix-raw-orders-2"
    answer = form.send(browser)
    assert (answer.status_code, answer.headers["location"]) == (303, "/recoveries/fix-raw-orders-2")
    assert shop.instance.get_dynamic_partitions("branch") == ["fix-raw-orders-2"]

    recovery = browser.get("/recoveries/fix-raw-orders-2").text
    assert "To be corrected." in text(recovery)
    assert "jobs/recovery_correct/playground/setup?config=" in recovery
    assert "/assets/recovery/core/days" in recovery
    assert "fix-raw-orders-2" in text(browser.get("/recoveries").text)
    # Publishing too early is refused in one sentence, and nothing is published.
    before = state(session)
    refused = Form(recovery, "/publish").send(browser)
    assert refused.status_code == 400
    assert "not corrected: raw.orders; not computed anew: core.days, mart.rainy, mart.totals" in text(refused.text)
    assert state(session) == before

    Recovery.open(session, "fix-raw-orders-2").correct(MENDED)
    assert "0 of 3 computed anew" in text(browser.get("/recoveries/fix-raw-orders-2").text)
    assert shop.backfill("fix-raw-orders-2")
    recovery = browser.get("/recoveries/fix-raw-orders-2?table=mart.totals").text
    assert "To be published." in text(recovery)
    assert Recovery.open(session, "fix-raw-orders-2").compare("mart.totals").changed == 2
    assert "price_sum: 2" in text(recovery) and "First rows of mart.totals that differ" in text(recovery)
    assert "first rows" not in text(browser.get("/recoveries/fix-raw-orders-2").text).lower()

    answer = Form(recovery, "/publish").send(browser)
    assert (answer.status_code, answer.headers["location"]) == (303, "/recoveries/fix-raw-orders-2")
    assert shop.rows("mart.totals") == GOOD
    published = browser.get("/recoveries/fix-raw-orders-2").text
    assert "Published." in text(published) and "/publish" not in published
    # What it has changed is still to be seen.
    assert "Rows before it was published" in text(published)
    compared = Recovery.open(session, "fix-raw-orders-2").compare("mart.totals")
    assert (compared.changed, dict(compared.changed_columns)) == (2, {"price_sum": 2})
    assert "price_sum: 2" in text(published)
    spoilt = text(browser.get("/spoilt?ref=snapline.raw.orders@2").text)
    assert "0 spoilt now" in spoilt and "Repaired by recovery fix-raw-orders-2." in spoilt
    assert "there is nothing to recover" in text(browser.get(PLAN).text)

    answer = Form(published, "/drop").send(browser)
    assert (answer.status_code, answer.headers["location"]) == (303, "/recoveries")
    assert session.catalog.table("core.days").branches.names() == []
    assert shop.instance.get_dynamic_partitions("branch") == []
    assert browser.get("/recoveries/fix-raw-orders-2").status_code == 404
    # What has just been repaired is behind nothing, also where its branches are gone.
    nodes = table_graph(Facts(Session()).platform()).nodes
    assert {node.shown: node.behind for node in nodes if node.behind} == {}
    session.table("raw.weather").write(session.table("raw.weather").to_arrow().slice(0, 1))
    nodes = table_graph(Facts(Session()).platform()).nodes
    assert {node.shown: node.behind for node in nodes if node.behind} == {"mart.rainy": 1}


def test_a_recovery_whose_main_has_moved_on_says_so_before_its_button_is_pressed(shop: Shop) -> None:
    session, browser = shop.session, client_of(shop.session, location="shop")
    shop.start("fix", "raw.orders@2")
    Recovery.open(session, "fix").correct(MENDED)
    assert shop.backfill("fix")
    assert "moved-on" not in browser.get("/recoveries/fix").text
    session.table("raw.orders").write(session.table("raw.orders").to_arrow().slice(0, 1))
    page = browser.get("/recoveries/fix").text
    assert "main has moved on since it began. raw.orders has 3 by" in text(page)
    assert "snapline recovery publish fix --replay" in text(page)
    assert "jobs/recovery_publish/playground/setup?config=" in page
    assert 'class="quiet">Publish' in page
    # It is what the button would say.
    refused = Form(page, "/publish").send(browser)
    assert refused.status_code == 409
    match = re.search(r'id="moved-on">(.*?) <a ', page, re.DOTALL)
    assert match is not None and text(match[1]) in text(refused.text)


def test_a_recovery_that_was_published_uncorrected_says_so(shop: Shop) -> None:
    session, browser = shop.session, client_of(shop.session, location="shop")
    shop.start("fix", "raw.orders@2")
    session.table("raw.orders").write(session.table("raw.orders").to_arrow().slice(0, 1))
    form = Form(browser.get("/recoveries/fix").text, "/publish")
    assert form.send(browser, discard_main="yes", allow_incomplete="yes").status_code == 303
    page = text(browser.get("/recoveries/fix").text)
    assert "corrected ✗ left out" in page and "computed anew ✗ left out" in page and "published ✓ done" in page
    assert "which was given up" in page and "not corrected: raw.orders" in page
    assert "was not corrected" in page and "is to be" not in page


def test_a_recovery_that_is_needed_no_more_says_so(shop: Shop) -> None:
    browser = client_of(shop.session, location="shop")
    shop.start("fix", "raw.orders@2")
    assert "not needed any more" not in browser.get("/recoveries/fix").text
    for name in ("raw.orders", "core.days", "mart.rainy", "mart.totals"):
        table = shop.session.table(name)
        table.rollback_to(table.history().snapshots[0].id)
    page = text(browser.get("/recoveries/fix").text)
    assert "Nothing comes from raw.orders@2 now: raw.orders stays: taken back by @" in page
    assert "This recovery is not needed any more: drop it." in page


def check_refused(browser: TestClient, session: Session, form: Form, status: int, said: str, **given: object) -> None:
    before = state(session)
    answer = form.send(browser, **given)  # type: ignore[arg-type]
    assert (answer.status_code, said in text(answer.text)) == (status, True), text(answer.text)
    assert state(session) == before


def test_forms_that_a_page_has_not_shown_do_nothing(shop: Shop) -> None:
    session, browser = shop.session, client_of(shop.session)
    plan = browser.get(PLAN).text

    def form() -> Form:
        return Form(plan, "/recoveries")

    elsewhere = "came from another page"
    check_refused(browser, session, form(), 403, elsewhere, headers={"Origin": "http://evil.example"})
    check_refused(browser, session, form(), 403, elsewhere, headers={})
    check_refused(browser, session, form(), 403, elsewhere, headers={"Origin": ADDRESS, "Sec-Fetch-Site": "cross-site"})
    named = {"Host": "evil.example", "Origin": "http://evil.example"}
    check_refused(browser, session, form(), 421, "is not served as", headers=named)
    check_refused(browser, session, form(), 403, "was not made by this page", token="")
    check_refused(browser, session, form(), 403, "was not made by this page", bad="raw.weather@1")
    check_refused(browser, session, form(), 403, "was not made by this page", mode="incremental")
    check_refused(browser, session, form(), 403, "was not made by this page", plan="0")
    check_refused(browser, session, form(), 400, "what the recovery is to be called", branch=" ")
    # What is refused leads back to the plan that was shown.
    refused = Form(browser.get(PLAN + "&mode=incremental").text, "/recoveries").send(browser, branch="a/b")
    assert refused.status_code == 400 and f'href="{PLAN}&amp;mode=incremental"' in refused.text
    # That token is used up; the page of another process has none that counts.
    check_refused(browser, session, form(), 403, "was sent before")
    check_refused(client_of(session), session, form(), 403, "was not made by this page")
    for name in ("main", "a.b", "../x", "<script>"):
        check_refused(browser, session, Form(browser.get(PLAN).text, "/recoveries"), 400, "branch", branch=name)
    headers = {"Origin": ADDRESS}
    before = state(session)
    assert browser.post("/recoveries", json=form().fields, headers=headers).status_code == 403
    body = b"&".join([b"token=x"] * 2)
    kind = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
    assert browser.post("/recoveries", content=body, headers=kind).status_code == 403
    assert browser.post("/recoveries", content=b"a=" + b"x" * 70_000, headers=kind).status_code == 403
    for path in (PLAN, "/spoilt", "/compare", "/history", "/", "/snapshot?ref=snapline.raw.orders@2"):
        assert browser.post(path, headers=headers).status_code == 405
    assert state(session) == before


def test_a_plan_that_has_become_another_one_is_not_carried_out(shop: Shop) -> None:
    browser = client_of(shop.session)
    form = Form(browser.get(PLAN).text, "/recoveries")
    shop.session.sql("UPDATE raw.orders SET price = price + 1 WHERE id = 1", "duckdb")
    shop.produce(KEYS[0])
    check_refused(browser, shop.session, form, 409, "has become another one")
    assert Form(browser.get(PLAN).text, "/recoveries").send(browser).status_code == 303
    # The name is taken now.
    taken = Form(browser.get(PLAN).text, "/recoveries")
    assert taken.fields["branch"] == "fix-raw-orders-2-2"
    shop.session.table("raw.weather").branches.create("mine")
    check_refused(browser, shop.session, taken, 409, "is no recovery", branch="mine")


def test_a_recovery_that_has_changed_since_its_page_was_shown_is_not_published_or_dropped(shop: Shop) -> None:
    session, browser = shop.session, client_of(shop.session)
    assert Form(browser.get(PLAN).text, "/recoveries").send(browser).status_code == 303
    (name,) = names(session.catalog)
    page = browser.get(f"/recoveries/{name}").text
    Recovery.open(session, name).correct("UPDATE raw.orders SET price = 1 WHERE id = 1")
    for action in ("publish", "drop"):
        check_refused(browser, session, Form(page, f"/recoveries/{name}/{action}"), 409, "has changed since the page")
    page = browser.get(f"/recoveries/{name}").text
    assert Form(page, f"/recoveries/{name}/drop").send(browser).status_code == 303
    assert names(session.catalog) == []


def test_an_open_recovery_is_named_where_another_one_would_be_begun(shop: Shop) -> None:
    browser = client_of(shop.session)
    pages = (PLAN, "/spoilt?ref=snapline.raw.orders@2")
    assert not [page for page in pages if "open on this table" in browser.get(page).text]
    shop.start("fix", "raw.orders@2")
    browser = client_of(shop.session)
    for page in pages:
        assert "A recovery is open on this table:" in text(browser.get(page).text)
        assert 'href="/recoveries/fix"' in browser.get(page).text
    assert 'href="/spoilt?ref=snapline.raw.orders%402"' in browser.get("/recoveries/fix").text


def test_rows_are_compared_once_and_of_large_tables_when_asked(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.start("fix", "raw.orders@2")
    browser, compared = client_of(shop.session), []
    compare = Recovery.compare
    monkeypatch.setattr(Recovery, "compare", lambda self, name: compared.append(name) or compare(self, name))
    monkeypatch.setattr(recovery_pages, "_MOST_COMPARED", 0)
    assert "6 records" in browser.get("/recoveries/fix").text and compared == []
    for _ in range(3):
        assert browser.get("/recoveries/fix?table=raw.orders").status_code == 200
    # What is known is shown.
    assert "6 records" not in browser.get("/recoveries/fix").text and compared == ["raw.orders"]
    Recovery.open(shop.session, "fix").correct(MENDED)
    page = browser.get("/recoveries/fix?table=raw.orders").text
    assert compared == ["raw.orders"] * 2 and "price: 2" in text(page)
    assert "Whether one is under way" in text(page)


def test_a_plan_is_of_the_mode_that_commands_plan(shop: Shop) -> None:
    form = Form(client_of(shop.session).get(PLAN).text, "/recoveries")
    by_command = next(option for option in plan_command.params if option.name == "mode")
    by_job = StartConfig.model_fields["mode"]
    by_call = plan_recovery(shop.session, shop.session.ref("raw.orders@2"))
    assert form.fields["mode"] == by_command.default == by_job.default == by_call.mode


def test_a_read_only_browser_shows_commands_in_place_of_forms(shop: Shop) -> None:
    session = shop.session
    form = Form(client_of(session).get(PLAN).text, "/recoveries")
    browser = client_of(session, read_only=True)
    plan = browser.get(PLAN).text
    assert 'method="post"' not in plan
    assert "snapline recovery start fix-raw-orders-2 --bad raw.orders@2 --mode full" in text(plan)
    check_refused(browser, session, form, 403, "read-only")
    shop.start("fix", "raw.orders@2")
    recovery = browser.get("/recoveries/fix").text
    assert 'method="post"' not in recovery and "snapline recovery publish fix" in text(recovery)
    for action in ("publish", "drop"):
        before = state(session)
        answer = browser.post(f"/recoveries/fix/{action}", headers={"Origin": ADDRESS})
        assert answer.status_code == 403 and "read-only" in answer.text
        assert state(session) == before


def test_what_is_not_there_is_said_in_one_sentence(shop: Shop) -> None:
    browser = client_of(shop.session)
    for path, status, said in (
        ("/spoilt?ref=snapline.raw.orders@9", 404, "no snapshot raw.orders@9"),
        ("/spoilt?ref=nowhere.raw.orders@1", 404, "no snapshot nowhere.raw.orders@1"),
        ("/spoilt", 400, "Name a snapshot"),
        ("/plan?ref=snapline.raw.orders@9", 404, "no snapshot"),
        ("/plan?ref=snapline.raw.orders@2&mode=half", 400, "mode = 'half'"),
        ("/recoveries/nope", 404, "There is no recovery 'nope'"),
        ("/compare?left=raw.orders@1&right=raw.orders@9", 404, "9"),
        ("/compare?left=raw.orders@1&right=" + "x" * 2000, 400, "2000 characters"),
    ):
        answer = browser.get(path)
        assert (answer.status_code, said in text(answer.text)) == (status, True), text(answer.text)


def test_two_snapshots_are_compared_on_a_page_as_on_the_command_line(shop: Shop) -> None:
    session, browser = shop.session, client_of(shop.session)
    left, right = session.ref("mart.totals@1"), session.ref("mart.totals@2")
    shown = text(browser.get("/compare?left=mart.totals@1&right=mart.totals@2").text)
    compared = session.compare_ancestries(left, right)
    assert compared.describe() in shown and "They differ first in raw.orders@1 → @2" in shown
    for ref, _ in compared.rows():
        assert str(ref) in shown
    assert f"{len(compared.only_left)} in the ancestry of only mart.totals@1" in shown
    assert "2 rows changed (price_sum: 2)" in shown
    assert "snapline lineage --compare mart.totals@1 mart.totals@2" in shown
    assert "Compare two snapshots" in text(browser.get("/compare?left=mart.totals@1").text)
    assert "these are two tables" in text(browser.get("/compare?left=mart.totals&right=core.days").text)


def test_the_history_shows_where_a_recovery_forked_and_where_it_was_published(shop: Shop) -> None:
    recovery = shop.start("fix", "raw.orders@2")
    recovery.correct(MENDED)
    shop.backfill("fix")
    publish(shop.session, recovery, KNOWN)
    history = read_history(Facts(shop.session).platform(), 1_000)
    forks = {str(history.dots[lane.forks_at].ref) for lane in history.lanes if lane.forks_at is not None}
    joins = {(str(history.dots[source].ref), str(history.dots[sink].ref)) for source, sink in history.joins}
    tables = ("raw.orders", "core.days", "mart.rainy", "mart.totals")
    assert forks == {f"{name}@{2 if name == 'raw.orders' else 1}" for name in tables}
    newest = {name: (shop.session.ref(f"{name}$branch_fix"), shop.session.ref(name)) for name in tables}
    assert joins == {(str(branch), str(main)) for branch, main in newest.values()}
