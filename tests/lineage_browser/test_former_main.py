"""A branch that became main: what had been main has a lane of its own, and main goes on with what the branch did."""

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from lineage import sources_property
from resources import Session
from resources.browser.facts import Facts
from resources.browser.history import History, read_history
from resources.browser.spoilt import damage_of
from resources.links.address import text_of
from storage import SnapshotRef, Table

SCHEMA = pa.schema([("id", pa.int64())])


def write(table: Table, *sources: SnapshotRef) -> SnapshotRef:
    table.write(pa.table({"id": [1]}), properties=sources_property(sources))
    ref = table.ref()
    assert ref is not None
    return ref


@pytest.fixture
def table(session: Session) -> Table:
    """Of two snapshots, the first of which two branches began with; `fix` has gone on."""
    new_table = session.catalog.create_table("raw.a", SCHEMA)
    write(new_table)
    for name in ("fix", "other"):
        new_table.branches.create(name, snapshot_id=1)
    write(new_table)
    for _ in range(2):
        write(new_table.on_branch("fix"))
    return new_table


def history_of(session: Session) -> History:
    return read_history(Facts(Session()).platform(), 100)


def lane(history: History, name: str) -> list[str]:
    position = next(index for index, candidate in enumerate(history.lanes) if candidate.name == name)
    return [f"{dot.ref.snapshot_id} {dot.fate}".strip() for dot in history.dots if dot.lane == position]


def test_what_was_main_has_a_lane_that_forks_where_the_branch_began_and_joins_where_it_was_taken_over(
    session: Session, table: Table, client: TestClient
) -> None:
    table.branches.replace_main("fix", discard_main=True)
    write(session.table("raw.a"))
    history = history_of(session)
    assert lane(history, "↳ main until fix became it") == ["2 replaced"]
    assert lane(history, "raw.a") == ["1", "2", "3", "4", "5"]
    former = next(candidate for candidate in history.lanes if candidate.former)
    assert former.forks_at is not None and str(history.dots[former.forks_at].ref) == "raw.a@1"
    ((source, sink),) = history.joins
    assert "~" in history.dots[source].ref.branch and str(history.dots[sink].ref) == "raw.a@4"
    assert "main until fix became it" in client.get("/history").text
    assert "main until fix became it" in client.get("/history.svg").text


def test_a_snapshot_that_main_had_and_the_branch_has_no_number_for_is_in_that_lane(session: Session) -> None:
    table = session.catalog.create_table("raw.a", SCHEMA)
    write(table)
    table.branches.create("fix")
    write(session.catalog.create_table("core.b", SCHEMA), write(table))
    table.branches.replace_main("fix", discard_main=True)
    session.table("raw.a").rollback_to(1)
    history = history_of(session)
    shown = {dot.ref.snapshot_id: history.lanes[dot.lane] for dot in history.dots if dot.ref.table == "a"}
    newest = session.table("raw.a").snapshot()
    assert newest is not None
    for number, shown_lane in shown.items():
        assert bool(shown_lane.former) == (number > newest.id), number


def test_an_earlier_table_of_the_name_was_never_what_main_was(session: Session) -> None:
    earlier = session.catalog.create_table("raw.a", SCHEMA)
    for _ in range(3):
        write(session.catalog.create_table("core.b", SCHEMA, if_not_exists=True), write(earlier))
    session.catalog.drop_table("raw.a")
    table = session.catalog.create_table("raw.a", SCHEMA)
    write(table)
    table.branches.create("fix")
    write(table.on_branch("fix"))
    table.branches.replace_main("fix")
    history = history_of(session)
    assert not [candidate for candidate in history.lanes if candidate.former]
    assert sorted(lane(history, "raw.a")) == ["1", "1 replaced", "2", "2 replaced", "3 replaced"]


def test_what_was_made_from_a_main_that_was_replaced_is_good_again_once_it_is_made_anew(
    session: Session, client: TestClient
) -> None:
    # Rows with a key: main is given up, and nothing of it put on top of the branch.
    table = session.catalog.create_table("raw.a", SCHEMA, primary_key=["id"])
    write(table)
    table.branches.create("other")
    write(table.on_branch("other"))
    write(table)
    bad = session.ref("raw.a@2")
    made, never_anew = (session.catalog.create_table(name, SCHEMA) for name in ("core.b", "core.c"))
    for sink in (made, never_anew):
        write(sink, bad)
    table.branches.replace_main("other", discard_main=True)
    write(session.table("raw.a"))
    made.overwrite(pa.table({"id": [1]}), properties=sources_property([session.ref("raw.a")]))
    session = Session()
    ghost = next(dot.ref for dot in history_of(session).dots if "~" in dot.ref.branch)
    damage = damage_of(session, ghost)
    assert [str(affected.first) for affected in damage.spoilt if affected.first.table != "a"] == ["core.c@1"]
    assert [(str(affected.first), affected.why) for affected in damage.good_again if affected.first.table == "b"] == [
        ("core.b@1", "Production has made it good since.")
    ]
    assert "this warehouse's own tables alone" not in client.get("/spoilt", params={"ref": text_of(ghost)}).text


def test_the_page_of_a_number_that_was_given_twice_leads_to_the_first(
    session: Session, table: Table, client: TestClient
) -> None:
    assert "given again" not in client.get("/snapshot?ref=snapline.raw.a@2").text
    write(session.catalog.create_table("raw.from_a", SCHEMA), SnapshotRef("snapline", "raw", "a", "main", 2))
    table.branches.replace_main("fix", discard_main=True)
    page = client.get("/snapshot?ref=snapline.raw.a@2").text
    assert "The number was given again" in page and "main~" in page
