"""Somebody in a browser, for tests of the Dagster UI: a real Chromium, each click and each typed character counted.

Playwright is installed in an environment of its own (`make browser` does it) and taken from there.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

ROOT = Path(__file__).parent.parent.parent
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_WAIT_MS, _RUN_MS = 120_000, 400_000
WIDTH, HEIGHT = 1280, 800


class Visitor:
    """What a user does and sees. Waiting and looking are free, clicks and characters are counted."""

    def __init__(self, page: "Page", url: str, pictures: Path | None) -> None:
        self.page, self.url = page, url
        self.clicks, self.characters = 0, 0
        self.steps: list[tuple[str, int, int]] = []
        self._pictures = pictures
        page.set_default_timeout(_WAIT_MS)

    def open(self, path: str = "/") -> None:
        """Come to the UI by an address: where a story begins, not in its middle."""
        self.page.goto(self.url + path)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count what is done inside under a name."""
        clicks, characters = self.clicks, self.characters
        yield
        self.steps.append((name, self.clicks - clicks, self.characters - characters))

    def click(self, what: "Locator", **options: Any) -> None:
        self.clicks += 1
        what.click(**options)

    def type(self, text: str) -> None:
        self.characters += len(text)
        self.page.keyboard.type(text)

    def link(self, name: str) -> "Locator":
        """What shows that text alone: a link, or an entry of the navigation."""
        return self.page.get_by_text(name, exact=True).locator("visible=true").first

    def sees(self, *texts: str) -> None:
        """Wait until each text shows."""
        for text in texts:
            self.page.get_by_text(text).locator("visible=true").first.wait_for()

    def text(self) -> str:
        """All that the page shows, with single spaces."""
        return " ".join(self.page.inner_text("body").split())

    def barriers(self) -> list[str]:
        """What keeps people from the page who use keys or a screen reader, or see little, in light and dark, as axe tells it."""
        from axe_playwright_python.sync_playwright import Axe

        said = []
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            violations = Axe().run(self.page).response["violations"]
            said += [f"{scheme}: {each['id']}: {each['nodes'][0]['html']}" for each in violations]
        return said

    def told(self) -> str:
        """What each step took, as the table of docs/recovery.md."""
        rows = [*self.steps, ("in all", self.clicks, self.characters)]
        lines = [f"| {name} | {clicks} | {characters} |" for name, clicks, characters in rows]
        return "\n".join(["| | clicks | characters |", "|---|---|---|", *lines])

    def picture(self, name: str) -> None:
        """Keep what is seen now, for the documentation."""
        if self._pictures is not None:
            # Spinners and clocks have come to rest.
            self.page.wait_for_timeout(1500)
            self.page.screenshot(path=self._pictures / f"{name}.png")

    # --- what the pages of Dagster are made of

    def runs(self, ends: str = "Success", is_asked: bool = False) -> None:
        """Launch what the launchpad holds, wait for the run's end on its page, and open what it says. `is_asked`: whether the
        launchpad may ask for a confirmation, as for a recovery that was typed and not chosen.
        """
        self.launch(is_asked)
        outcome = self.page.locator("text=/^(Success|Failure)$/").locator("visible=true").first
        outcome.wait_for(timeout=_RUN_MS)
        assert outcome.inner_text() == ends, self.text()
        if ends == "Success":
            self.click(self.page.get_by_text("[Show Markdown]").last)

    def launch(self, is_asked: bool = False) -> None:
        button = self.page.get_by_role("button", name="Launch Run")
        button.and_(self.page.locator(":enabled")).wait_for()
        self.click(button)
        if is_asked:
            confirm = self.page.get_by_role("button", name="Confirm")
            self.page.wait_for_timeout(3000)
            # Asked only once Dagster has loaded which recoveries there are to choose from.
            if confirm.is_visible():
                self.click(confirm)
        self.page.wait_for_url(re.compile("/runs/"))

    def goes_on(self, way: str) -> None:
        """Follow a link of the page that a run has shown."""
        self.click(self.page.get_by_role("dialog").get_by_role("link", name=way, exact=True))
        self.page.wait_for_url(re.compile("/playground"))

    def writes_at_the_end(self, text: str) -> None:
        """Type a text at the end of what the launchpad holds."""
        self.click(self.page.locator(".CodeMirror-line").last)
        self.page.keyboard.press("End")
        self.characters += 1
        self.type(text)

    def chooses(self, partition: str) -> None:
        """Choose a partition of the job in the launchpad."""
        self.click(self.page.get_by_placeholder("Partition"))
        self.click(self.page.get_by_text(partition, exact=True).locator("visible=true").last)
        # The configuration of what was chosen is filled in.
        self.page.locator(".CodeMirror-line", has_text=partition).wait_for()

    def replaces_config(self, config: str) -> None:
        """Type a configuration in place of the launchpad's."""
        self.click(self.page.locator(".CodeMirror-lines").first)
        self.page.keyboard.press("Control+A")
        self.characters += 1
        self.type(config)


@contextmanager
def visitor(url: str, pictures: Path | None = None) -> Iterator[Visitor]:
    """A new browser that has never been here. Raises AssertionError that says what to install."""
    chromium = shutil.which("chromium")
    assert chromium, "Chromium is not installed: apt-get install chromium"
    with _playwright()() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_ARGUMENTS)
        try:
            yield Visitor(browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}), url, pictures)
        finally:
            browser.close()


def _playwright() -> Any:
    """Playwright, from the environment beside the one that runs the tests: both have the same Python."""
    site_packages = [*(ROOT / ".venv" / "browser").glob("lib/python*/site-packages")]
    assert site_packages, "Playwright is not installed: `make browser` does it"
    if str(site_packages[0]) not in sys.path:
        # Last: what both have is taken from the tests' own.
        sys.path.append(str(site_packages[0]))
    from playwright.sync_api import sync_playwright

    return sync_playwright
