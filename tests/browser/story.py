"""The story of docs/recovery.md, told by clicks in the Dagster UI: what a user does, and what each page has to show."""

from dataclasses import dataclass

from .visitor import Visitor


@dataclass(frozen=True)
class BadDay:
    """A bad snapshot that the UI knows of, how it is corrected, and what the recovery from it comes to."""

    table: str
    snapshot: int
    correction: str
    spoilt: tuple[str, ...]
    partitions: str
    recovery: str

    @property
    def bad(self) -> str:
        return f"{self.table}@{self.snapshot}"


def repaired(user: Visitor, day: BadDay) -> None:
    """From the first page of the UI to what is published. Every page is looked at for what it must say."""
    user.open()
    with user.step("see the bad load"):
        user.click(user.link("Catalog"))
        user.click(user.link(day.table.replace(".", " / ")))
        plan = user.link(f"Plan a recovery from {day.bad}")
        plan.wait_for()
        user.sees("written_by", "statement", "if_it_is_bad")
        plan.scroll_into_view_if_needed()
        user.picture("recovery-asset")
    with user.step("plan"):
        user.click(plan)
        user.runs()
        user.sees("what happens", "is corrected", day.partitions, *day.spoilt)
        user.picture("recovery-plan")
    with user.step("start"):
        user.goes_on("Start it: compute anew what came after the last good snapshot")
        user.runs()
        user.sees("to be corrected", f"Left: {day.table}")
    with user.step("correct"):
        user.goes_on("Correct the source by SQL")
        user.writes_at_the_end(day.correction)
        user.picture("recovery-correct")
        user.runs()
        user.sees(f"0 of {len(day.spoilt)} computed anew", "Left")
    with user.step("compute what is left"):
        user.goes_on("Compute what is left")
        user.runs()
        user.sees("to be published", *day.spoilt)
        user.picture("recovery-backfill")
    with user.step("compare"):
        user.goes_on("Compare with main")
        user.runs()
        user.sees("rows on main", "columns that differ", f"First rows of {day.table} that differ")
        user.picture("recovery-comparison")
    with user.step("publish"):
        user.goes_on("Publish it")
        user.runs()
        user.sees("main is at snapshot", "published", *day.spoilt)
        user.picture("recovery-published")
