"""Every event of a snapshot in Dagster leads to its page, and pages lead back to where Dagster shows it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import dagster as dg
import pytest

from resources import code_location
from resources.browser.view import ref_of
from resources.links.dagster_links import DagsterLinks
from resources.links.known_assets import KnownAssets
from resources.recovery import Recovery
from resources.recovery.carry_out import publish
from resources.recovery.words import COMMAND_LINE
from storage import SnapshotRef
from tests.lineage_browser.bad_day import bad_day, client_of
from tests.resources.quick_shop import KEYS
from tests.resources.test_recovery_refusals import MENDED, Shop

pytestmark = pytest.mark.dagster
TABLES = ("raw.orders", "raw.weather", "core.days", "mart.rainy", "mart.totals")


@pytest.fixture
def shop(spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    opened_shop = bad_day(tmp_path / "home", monkeypatch)
    yield opened_shop
    opened_shop.instance.dispose()


def page_of(metadata: object, label: str) -> str:
    value = metadata.get(label)  # type: ignore[attr-defined]
    assert isinstance(value, dg.UrlMetadataValue), (label, metadata)
    assert value.url is not None
    return value.url


def test_every_event_of_a_snapshot_leads_to_its_page(shop: Shop) -> None:
    done = shop.job("recovery_start", bad="raw.orders@2", branch="fix", mode="incremental")
    recovery = Recovery.open(shop.session, "fix")
    recovery.correct(MENDED)
    shop.backfill("fix")
    publish(shop.session, recovery, COMMAND_LINE)
    browser = client_of(shop.session)
    seen = 0
    for name in TABLES:
        for prefix in ([], ["recovery"]):
            key = dg.AssetKey([*prefix, *name.split(".")])
            for record in shop.instance.fetch_materializations(key, limit=100).records:
                event = record.asset_materialization
                assert event is not None
                ref = ref_of(unquote(urlsplit(page_of(event.metadata, "snapshot_page")).query.removeprefix("ref=")))
                number, branch = event.metadata["snapshot"].value, event.metadata["branch"].value
                assert (ref.database, ref.table) == tuple(name.split("."))
                assert (ref.snapshot_id, ref.branch) == (number, branch)
                page = browser.get(page_of(event.metadata, "snapshot_page").removeprefix("/snapline"))
                assert page.status_code == 200
                if "recovery" in event.metadata:
                    assert page_of(event.metadata, "recovery_page") == "/snapline/recoveries/fix"
                seen += 1
    # Production's, the twins', and what the publication told.
    assert seen > 15
    outputs = [event.step_output_data for event in done.all_events if event.is_successful_output]
    assert page_of(outputs[0].metadata, "recovery_page") == "/snapline/recoveries/fix"


def test_checks_lead_to_the_snapshot_that_they_have_read(shop: Shop) -> None:
    made = shop.make("core.days", tags={"dagster/partition": KEYS[0]})
    checks = made.get_asset_check_evaluations()
    assert len(checks) == 2
    for check in checks:
        read = str(check.metadata["read_at"].value)
        assert unquote(page_of(check.metadata, "snapshot_page")) == f"/snapline/snapshot?ref=snapline.{read}"


def test_a_browser_elsewhere_is_linked_to_by_its_address(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPLINE_BROWSER_URL", "https://data.example.com/lineage/")
    shop.session.sql("UPDATE raw.orders SET price = price + 1", "duckdb")
    assert shop.make("core.days", tags={"dagster/partition": KEYS[0]}).success
    (record,) = shop.instance.fetch_materializations(dg.AssetKey(["core", "days"]), limit=1).records
    assert record.asset_materialization is not None
    address = page_of(record.asset_materialization.metadata, "snapshot_page")
    assert address.startswith("https://data.example.com/lineage/snapshot?ref=snapline.core.days@")


def test_links_hold_whatever_names_hold() -> None:
    keys = [("a b", "x/y?z#<script>"), ("core", "days"), ("recovery", "core", "days")]
    links = DagsterLinks("https://dagster.example.com/prefix", "platform", KnownAssets(lambda: keys))
    ref = SnapshotRef("snapline", "a b", "x/y?z#<script>", "main", 1)
    assert links.asset(ref) == "https://dagster.example.com/prefix/assets/a%20b/x%2Fy%3Fz%23%3Cscript%3E"
    on_branch = SnapshotRef("snapline", "core", "days", "fix", 1)
    assert links.asset(on_branch) == links.twin("core.days")
    assert links.partition(on_branch, "2024-01").endswith("?view=partitions&partition=fix%7C2024-01")
    # Nothing leads to an asset that there is not.
    assert [
        links.asset(replace(ref, table="z")),
        links.partition(replace(ref, database="b"), "1"),
        links.twin("a.b"),
    ] == [""] * 3
    assert links.asset(replace(ref, catalog="other")) == links.asset(replace(on_branch, branch="fix~1")) == ""
    assert links.run("../../x").endswith("/runs/..%2F..%2Fx")
    assert "tag%3Asnapline%2Frecovery%3Da%26b" in links.runs_of_recovery("a&b")
    address = links.launchpad("recovery_correct", "correct_the_source", {"branch": '"}\nops: evil', "sql": ""})
    config = unquote(urlsplit(address).query.removeprefix("config="))
    # A name is a value of the configuration, whatever it holds.
    assert config.splitlines()[3] == r'      branch: "\"}\nops: evil"'
    assert DagsterLinks("https://x", "").launchpad("a", "b", {}) == ""


def test_tables_that_no_asset_makes_are_not_linked_to_dagster(shop: Shop) -> None:
    browser = client_of(shop.session)
    shop.session.sql("CREATE TABLE mart.by_hand AS SELECT * FROM core.days", "duckdb")
    assert "/assets/core/days" in browser.get("/snapshot?ref=snapline.core.days@1").text
    assert "/assets/" not in browser.get("/snapshot?ref=snapline.mart.by_hand@1").text
    spoilt = browser.get("/spoilt?ref=snapline.raw.orders@2").text
    assert "/assets/core/days" in spoilt and "mart.by_hand" in spoilt and "/assets/mart/by_hand" not in spoilt


def test_definitions_that_cannot_be_loaded_are_no_reason_to_leave_links_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(code_location, "_MODULE", "tests.no_such_module")
    assert KnownAssets().has("core", "days")
    assert "no_such_module" in caplog.text
