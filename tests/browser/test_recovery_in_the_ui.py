"""The recovery story and its variants, in a real browser and by what its pages are made from."""

from pathlib import Path
from typing import TYPE_CHECKING

from resources.recovery import Recovery
from tests.browser.shops import BAD_PRICES
from tests.browser.story import repaired
from tests.browser.visitor import visitor
from tests.resources.dagster_server import kill_run, wait
from tests.resources.quick_shop import KEYS
from tests.resources.test_recovery_refusals import GOOD, MENDED

if TYPE_CHECKING:
    from tests.browser.shops import UiShop

# Half of what the same story took by the jobs' launchpads, before there were links from one to the next.
MOST_CLICKS, MOST_CHARACTERS = 25, 325


def test_a_bad_day_is_repaired_by_clicks_from_the_page_of_the_spoilt_asset(
    ui_shop: "UiShop", pictures: Path | None
) -> None:
    with visitor(ui_shop.server.url, pictures) as user:
        repaired(user, BAD_PRICES)
        print(f"\n{user.told()}")
        assert user.clicks <= MOST_CLICKS and user.characters <= MOST_CHARACTERS
        assert ui_shop.shop.rows("mart.totals") == GOOD

        # All runs of it are found by its name.
        user.click(user.page.get_by_role("dialog").get_by_role("link", name="Its runs"))
        user.sees("recovery_start", "recovery_correct", "recovery_backfill", "recovery_compare", "recovery_publish")
        # From the jobs' page a recovery is chosen, not typed.
        user.open(f"/locations/{ui_shop.server.location()}/jobs/recovery_drop/playground")
        user.chooses(BAD_PRICES.recovery)
        user.picture("recovery-chosen")
        user.runs()
        assert ui_shop.session.catalog.table("core.days").branches.names() == []

        # What is refused is one line on the page of the run, and no trace.
        user.open(f"/locations/{ui_shop.server.location()}/jobs/recovery_publish/playground")
        user.replaces_config('ops: {publish_the_branch: {config: {branch: "fix-raw-order"}}}')
        user.runs(ends="Failure", is_asked=True)
        user.sees("There is no recovery 'fix-raw-order'. There is none: start one from a bad snapshot.")
        assert "Traceback" not in user.text() and ".py" not in user.text()
        user.picture("recovery-refused")


def test_a_load_that_is_found_late_and_a_backfill_that_is_killed(ui_shop: "UiShop") -> None:
    def newest() -> int:
        snapshot = ui_shop.session.table(f"core.days$branch_{BAD_PRICES.recovery}").snapshot()
        return 0 if snapshot is None else snapshot.id

    # Right rows have come since, and what was made of them: they stay.
    ui_shop.session.sql(f"INSERT INTO raw.orders VALUES (5, '{KEYS[3]}', 5.0)", "duckdb")
    ui_shop.shop.produce(KEYS[3])
    wait(lambda: ui_shop.knows_of("raw.orders", 3), bool, 120)
    with visitor(ui_shop.server.url) as user:
        user.open("/assets/raw/orders?view=events")
        # The load is not the newest event any more.
        user.click(user.page.locator('[data-index="1"]'))
        user.click(user.link("Plan a recovery from raw.orders@2"))
        user.runs()
        user.sees("what happens", f"{KEYS[2]}, {KEYS[3]}", *BAD_PRICES.spoilt)
        user.goes_on("Start it: compute anew what came after the last good snapshot")
        user.runs()
        user.goes_on("Correct the source by SQL")
        user.writes_at_the_end(MENDED)
        user.runs()
        user.goes_on("Compute what is left")
        begun = newest()
        user.launch()
        run_id = user.page.url.rpartition("/")[2]
        wait(lambda: ui_shop.server.status(run_id), lambda status: status == "STARTED", 120)
        wait(newest, lambda snapshot_id: snapshot_id != begun, 120)
        kill_run(ui_shop.shop.instance, run_id)
        user.sees("Failure")
        # Whoever comes next finds it in the list, with what is left.
        user.open(f"/locations/{ui_shop.server.location()}/jobs/recovery_list/playground")
        user.runs()
        user.sees(BAD_PRICES.recovery, "computed anew")
        user.goes_on("Compute what is left")
        user.runs()
        user.sees("to be published")
        user.goes_on("Compare with main")
        user.runs()
        user.goes_on("Publish it")
        user.runs()
        user.sees("published")
    assert ui_shop.shop.rows("mart.totals") == [*GOOD[:3], (KEYS[3], 9.0)]


def test_what_cannot_be_done_is_said_in_one_line_and_two_recoveries_and_production_lose_nothing(
    ui_shop: "UiShop",
) -> None:
    start = {"bad": "raw.orders@2", "mode": "incremental"}
    for name, config, said in (
        ("recovery_plan", {"bad": "raw.order@2"}, "Table raw.order does not exist"),
        ("recovery_plan", {"bad": "raw.orders@7"}, "7"),
        ("recovery_start", {**start, "branch": "main"}, "cannot name a branch"),
        ("recovery_start", {**start, "branch": "a.b"}, "cannot name a branch"),
        ("recovery_correct", {"branch": "fox", "sql": MENDED}, "There is no recovery 'fox'. There is none"),
    ):
        done = ui_shop.job(name, **config)
        assert (done.status, done.frames) == ("FAILURE", 0), done
        assert said in done.refusal and "\n" not in done.refusal, done.refusal

    # Published before anything is computed anew.
    assert ui_shop.job("recovery_start", **start, branch="fix").status == "SUCCESS"
    done = ui_shop.job("recovery_publish", branch="fix")
    assert (done.status, done.frames, done.tags["snapline/recovery"]) == ("FAILURE", 0, "fix")
    assert "not corrected: raw.orders; not computed anew: core.days, mart.rainy, mart.totals" in done.refusal
    assert "allow_incomplete: true" in done.refusal and "--" not in done.refusal and "\n" not in done.refusal
    # The list leads to each recovery's next job, with its name.
    page = ui_shop.job("recovery_list").pages["recoveries"]
    assert "**fix**" in page and "/jobs/recovery_correct/playground/setup?config=" in page and "%22fix%22" in page

    # Another recovery, of the weather, on a table that both make anew.
    ui_shop.session.sql("UPDATE raw.weather SET rain = 1000.0", "duckdb")
    assert ui_shop.shop.make("mart.rainy").success
    weather = {"bad": "raw.weather@2", "mode": "incremental", "branch": "fix-weather"}
    assert "mart.rainy" in ui_shop.job("recovery_start", **weather).pages["started"]
    for branch, config in (("fix", {"sql": MENDED}), ("fix-weather", {"undo_bad": True})):
        assert ui_shop.job("recovery_correct", branch=branch, **config).status == "SUCCESS"
        assert ui_shop.job("recovery_backfill", branch=branch).status == "SUCCESS"
    page = ui_shop.job("recovery_list").pages["recoveries"]
    assert page.count("to be published") == 2
    # Production has made a table of the first since it began: nothing of that is lost in silence.
    done = ui_shop.job("recovery_publish", branch="fix")
    assert (done.status, done.frames) == ("FAILURE", 0)
    assert "mart.rainy has 3 by mart/rainy" in done.refusal and "replay: true" in done.refusal
    assert ui_shop.job("recovery_publish", branch="fix-weather").status == "SUCCESS"
    assert "not computed anew: mart.rainy" in ui_shop.job("recovery_publish", branch="fix", replay=True).refusal
    assert ui_shop.job("recovery_backfill", branch="fix").status == "SUCCESS"
    done = ui_shop.job("recovery_publish", branch="fix")
    assert done.status == "SUCCESS", done.refusal
    # Both repairs hold: the right prices, and the right weather.
    assert ui_shop.shop.rows("mart.rainy") == [(day, price, 0.0) for day, price in GOOD]
    assert Recovery.open(ui_shop.session, "fix").record.overrides == []
