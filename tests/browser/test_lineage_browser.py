"""The lineage browser in a real browser: the story of a bad day, every link both ways, with scripts and without."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser.lineage_story import Complaints, repaired
from tests.browser.shops import BAD_PRICES
from tests.browser.visitor import visitor
from tests.resources.test_recovery_refusals import GOOD

if TYPE_CHECKING:
    from tests.browser.shops import UiShop


def test_a_bad_day_is_repaired_from_its_event_through_the_lineage_browser(
    ui_shop: "UiShop", pictures: Path | None
) -> None:
    with visitor(ui_shop.server.url, pictures) as user:
        complaints = Complaints()
        user.page.context.on("page", complaints.listen)
        complaints.listen(user.page)
        repaired(user, BAD_PRICES)
        print(f"\n{user.told()}")
        assert ui_shop.shop.rows("mart.totals") == GOOD

        # Each snapshot in the history leads to its page, and that one back to Dagster.
        user.open("/snapline/spoilt?ref=snapline.raw.orders@2")
        user.sees("Repaired by recovery fix-raw-orders-2.", "there is nothing to recover")
        user.open("/snapline/compare?left=mart.totals@1&right=mart.totals@2")
        user.sees("They differ first in raw.orders@1 → @2", "price_sum: 2")
        user.picture("browser-compare")
        # To a partition, and back by its event.
        user.open("/snapline/snapshot?ref=snapline.core.days@2")
        user.click(user.link("2024-03"))
        user.page.wait_for_url(re.compile("/assets/core/days"))
        user.sees("2024-03", "snapshot_page")
        user.picture("browser-partition")
        user.open("/snapline/recoveries")
        user.sees("fix-raw-orders-2", "published")
        # What is clicked is gone back to; a moment that was slid to stays.
        user.open("/snapline/history")
        dots = user.page.locator("a.dot")
        dots.nth(0).click()
        dots.nth(2).click()
        user.page.locator("#slider").fill("3")
        user.sees("core.days", "The marks are those of that moment")
        # Nothing has moved, and the times stay in sight where the picture is scrolled.
        picture = user.page.locator("#lanes")
        where = picture.bounding_box()
        user.page.locator("#slider").fill("4")
        user.page.locator("#slider").fill("3")
        user.page.wait_for_load_state("networkidle")
        assert picture.bounding_box() == where
        picture.evaluate("(each) => { each.style.height = '60px'; each.scrollTop = 40; }")
        user.page.wait_for_function(
            "document.querySelector('svg .axis').getAttribute('transform') === 'translate(0 40)'"
        )
        picture.evaluate("(each) => { each.style.height = ''; each.scrollTop = 0; }")
        drawn = user.page.locator("svg.history")
        before = drawn.bounding_box()
        dot = drawn.locator(".dot circle").first
        shape = dot.bounding_box()
        user.page.locator('[data-zoom="1.25"]').click()
        zoomed = dot.bounding_box()
        assert shape and zoomed and round(zoomed["width"], 1) == round(shape["width"], 1)
        larger = drawn.bounding_box()
        assert (
            before
            and larger
            and (round(larger["width"]), larger["height"])
            == (
                round(before["width"] * 1.25),
                before["height"],
            )
        )
        # What is moved to is as wide as what is drawn.
        assert drawn.evaluate("(each) => each.parentElement.scrollWidth") == round(larger["width"])
        user.page.locator('[data-zoom="0.8"]').click()
        assert drawn.bounding_box() == before
        assert "at=" in str(user.page.locator("#files a").first.get_attribute("href"))
        after = user.page.url
        assert "at=" in after
        user.page.go_back()
        assert user.page.locator("a.dot.selected").get_attribute("data-index") == "0"
        user.page.go_forward()
        assert user.page.locator("a.dot.selected").get_attribute("data-index") == "2"
        assert (user.page.url, user.page.locator("#slider").input_value()) == (after, "3")
        user.page.go_back()
        user.page.go_back()
        assert user.page.url.endswith("/snapline/history") and not user.page.locator("a.dot.selected").count()
        # At 200 % zoom of a small window no page is moved sideways as a whole.
        user.page.set_viewport_size({"width": 640, "height": 500})
        for path in (
            "/",
            "/history",
            "/snapshot?ref=snapline.core.days@2",
            "/spoilt?ref=snapline.raw.orders@2",
            "/recoveries",
            "/recoveries/fix-raw-orders-2?table=mart.totals",
            "/compare?left=mart.totals@1&right=mart.totals@2",
            "/column?ref=snapline.mart.totals@1&column=price_sum",
            "/ancestry?ref=snapline.mart.totals@1",
        ):
            user.open(f"/snapline{path}")
            assert user.page.evaluate("document.documentElement.scrollWidth") <= 640, path
            assert user.barriers() == [], path
        assert complaints.said == []


def test_the_pages_say_the_same_without_scripts(ui_shop: "UiShop") -> None:
    with visitor(ui_shop.server.url) as user:
        browser = user.page.context.browser
        assert browser is not None
        plain = browser.new_context(java_script_enabled=False)
        page = plain.new_page()
        for path, says in (
            ("/", ("raw.orders", "mart.totals")),
            ("/history", ("raw.orders",)),
            ("/snapshot?ref=snapline.raw.orders@2", ("Made from", "Fed", "First rows")),
            ("/spoilt?ref=snapline.raw.orders@2", ("Spoilt now", "core.days")),
            ("/plan?ref=snapline.raw.orders@2", ("is corrected",)),
            ("/compare?left=mart.totals@1&right=mart.totals@2", ("They differ first in",)),
            ("/recoveries", ("There is no recovery",)),
        ):
            page.goto(f"{user.url}/snapline{path}")
            shown = page.inner_text("main")
            assert [text for text in says if text not in shown] == []
        assert page.goto(f"{user.url}/snapline/history")
        assert page.locator("svg").count()
        # A recovery is started without scripts as well: forms are forms.
        page.goto(f"{user.url}/snapline/plan?ref=snapline.raw.orders@2")
        page.get_by_role("button", name="Start the recovery").click()
        page.wait_for_url(re.compile("/snapline/recoveries/fix-raw-orders-2"))
        assert "To be corrected." in page.inner_text("main")
        plain.close()
