"""The story of docs/browser.md: from a materialization in Dagster's UI to what it has spoilt, and to the published repair, by
clicks; every page is looked at for what it must say, and for what a browser complains of.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .story import BadDay
from .visitor import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Of Dagster's own pages nothing is asked.
_OURS = "/snapline/"

_LEFT = "net::ERR_ABORTED"


class Complaints:
    """What a browser has to say against our pages: errors of scripts, refused resources, answers that failed."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def listen(self, page: "Page") -> None:
        def console(message: Any) -> None:
            if message.type in ("error", "warning") and _OURS in page.url:
                self.said.append(f"{page.url}: {message.text}")

        def failed(error: Any) -> None:
            if _OURS in page.url:
                self.said.append(f"{page.url}: {error}")

        def request_failed(request: Any) -> None:
            # Who leaves a page before its icon is there gives that up himself.
            if _OURS in request.url and request.failure != _LEFT:
                failed(f"{request.url} {request.failure}")

        page.on("console", console)
        page.on("pageerror", failed)
        page.on("requestfailed", request_failed)


@contextmanager
def own_tab(user: Visitor) -> Iterator[None]:
    """What is clicked inside opens a tab of its own, as links of events do: the user goes on there."""
    with user.page.context.expect_page() as opened:
        yield
    user.page = opened.value
    user.page.wait_for_load_state()


def repaired(user: Visitor, day: BadDay) -> None:
    """From the event of a bad load in Dagster to its page, and from page to page until the repair is published."""
    database, _, table = day.table.partition(".")
    spoilt = day.spoilt[0].split(".")
    with user.step("see the bad load"):
        user.open(f"/assets/{database}/{table}?view=events")
        address = user.page.locator(f'a[href$="/snapline/snapshot?ref=snapline.{day.bad}"]').first
        address.wait_for()
        user.sees("snapshot_page")
        user.picture("browser-event")
        with own_tab(user):
            user.click(address)
    with user.step("its page"):
        user.sees(day.bad, "Made from", "Fed", "First rows")
        user.picture("browser-snapshot")
    with user.step("what it has spoilt"):
        user.click(user.page.get_by_role("link", name="What has it spoilt?"))
        user.sees("Spoilt now", *day.spoilt, "Sound")
        user.picture("browser-spoilt")
        # There and back: the asset in Dagster.
        user.click(user.page.get_by_role("rowheader").get_by_role("link", name=day.spoilt[0]).first)
        user.page.wait_for_url(re.compile(f"/assets/{'/'.join(spoilt)}"))
        user.page.go_back()
    with user.step("plan and start"):
        user.click(user.page.get_by_role("link", name="Plan a recovery"))
        user.click(user.page.get_by_role("link", name="incremental", exact=True))
        user.sees("is corrected", day.partitions)
        user.picture("browser-plan")
        user.click(user.page.get_by_role("button", name="Start the recovery"))
        user.page.wait_for_url(re.compile(f"/recoveries/{day.recovery}"))
        user.sees("To be corrected", "Its runs in Dagster")
        user.picture("browser-recovery")
    page = user.page.url
    with user.step("to a twin in Dagster"):
        user.click(user.page.get_by_role("link", name="twin").nth(1))
        user.page.wait_for_url(re.compile("/assets/recovery/"))
        user.sees(spoilt[-1])
        user.page.go_back()
    with user.step("correct"):
        user.click(user.page.get_by_role("link", name="Correct the source by SQL"))
        user.page.wait_for_url(re.compile("/playground"))
        user.writes_at_the_end(day.correction)
        user.runs()
        user.sees("recovery_page")
    with user.step("compute what is left"):
        user.page.goto(page)
        user.sees(f"0 of {len(day.spoilt)} computed anew")
        user.click(user.page.get_by_role("link", name="Compute what is left"))
        user.page.wait_for_url(re.compile("/playground"))
        user.runs()
    with user.step("compare and publish"):
        user.page.goto(page)
        user.sees("To be published", "Rows on main")
        user.click(user.page.get_by_role("link", name=day.table, exact=True))
        user.sees(f"First rows of {day.table} that differ")
        user.picture("browser-comparison")
        user.click(user.page.get_by_role("button", name="Publish all tables, or none"))
        user.sees("Published.")
        user.picture("browser-published")
    with user.step("see that it is good"):
        user.click(user.page.get_by_role("link", name="History"))
        user.page.locator("svg").first.wait_for()
        # The bad load is selected: what it was made from, and what was made from it.
        user.open(f"/snapline/history?select=snapline.{day.bad}")
        user.page.locator("svg .selected").first.wait_for()
        user.picture("browser-history")
