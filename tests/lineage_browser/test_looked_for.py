"""What is looked for on pages, taken along from them, and kept in sight."""

import itertools
import re
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from resources import Session
from resources.browser.facts import Facts
from resources.browser.history import read_history
from resources.browser.lanes import lay_out
from resources.browser.svg import picture
from resources.browser.view import View, is_named
from tests.lineage_browser.test_pages import made

OWN, OTHER = ("snapline", "core", "flights"), ("lake", "core", "flights")


@pytest.mark.parametrize(
    ("text", "own", "other"),
    [
        ("flights", True, True),
        ("core.f", True, True),
        ("CORE", True, True),
        ("a", False, True),
        ("line", False, False),
        ("snap", False, False),
        ("snapline.", True, False),
        ("snapline.core.fl", True, False),
        ("snapline.fl", False, False),
        ("lake", False, True),
        ("lake.core", False, True),
        ("e.core", False, True),
    ],
)
def test_a_table_is_looked_for_by_the_name_that_is_shown(text: str, own: bool, other: bool) -> None:
    assert (is_named(OWN, text), is_named(OTHER, text)) == (own, other)


def test_the_search_and_the_filter_look_in_the_same_names(session: Session, client: TestClient) -> None:
    for name in ("raw.one", "core.two"):
        made(session, name)
    page = client.get("/?find=line").text
    assert not re.search(r'class="box [^"]*found', page)
    assert "No snapshot is left by the filters" in client.get("/history?tables=line").text
    listed = client.get("/history.csv?tables=snapline.raw").text
    assert "raw.one@1" in listed and "core.two@1" not in listed


def test_a_search_says_how_many_of_how_many_tables_it_found(session: Session, client: TestClient) -> None:
    for name in ("raw.orders", "raw.weather", "core.days"):
        made(session, name)
    assert "<h2>3 tables</h2>" in client.get("/").text
    assert "1 of 3 tables has “orders” in the name" in client.get("/?find=orders").text
    assert "2 of 3 tables have “raw” in the name" in client.get("/?find=raw").text
    page = client.get("/?find=ordres").text
    assert "None of the 3 tables has “ordres” in its name" in page and "<tbody>" not in page
    assert re.search(r'Is it <a href="[^"]*find=raw.orders[^"]*">raw.orders</a>', page)


def test_every_file_that_a_page_offers_is_saved(session: Session, client: TestClient) -> None:
    made(session, "raw.a")
    for page in ("/history", "/snapshot?ref=snapline.raw.a@1", "/ancestry?ref=snapline.raw.a@1"):
        links = re.findall(r'<a href="([^"]*\.(?:svg|csv|mmd|dot)[^"]*)"([^>]*)>', client.get(page).text)
        assert links
        assert [rest.strip() for _, rest in links] == ["download"] * len(links), page
        for link, _ in links:
            assert client.get(link.replace("&amp;", "&")).status_code == 200


def test_a_branch_that_has_done_nothing_has_a_lane(session: Session, client: TestClient) -> None:
    made(session, "raw.a")
    made(session, "raw.a")
    session.table("raw.a").branches.create("child", snapshot_id=1)
    session.table("raw.a").branches.create("other")
    history = read_history(Facts(Session()).platform(), 100)
    idle = {lane.place[3]: lane for lane in history.lanes if not lane.is_main}
    begun = {name: str(history.dots[lane.forks_at].ref) for name, lane in idle.items() if lane.forks_at is not None}
    assert begun == {"child": "raw.a@1", "other": "raw.a@2"}
    layout = lay_out(history, View())
    drawn = picture(history, layout, View(), str)
    stub = re.search(r'<line class="lane branch" x1="(\d+)" y1="(\d+)" x2="(\d+)"', drawn)
    assert stub is not None and int(stub[3]) > int(stub[1]) > layout.x[0]
    assert "↳ child" in client.get("/history").text
    # Once it has done something, its lane begins with that.
    session.table("raw.a").on_branch("child").write(session.table("raw.a").to_arrow())
    lanes = [lane.place[3] for lane in read_history(Facts(Session()).platform(), 100).lanes]
    assert lanes == ["main", "child", "other"]


def test_times_are_drawn_above_all_so_that_they_can_be_kept_in_sight(session: Session) -> None:
    made(session, "raw.a")
    history = read_history(Facts(session).platform(), 10)
    drawn = picture(history, lay_out(history, View()), View(), str)
    assert drawn.index('<g class="axis">') > drawn.index('class="later"') > drawn.index('class="dots"')
    assert drawn.index('class="day-name"') > drawn.index('<g class="axis">')


def test_a_time_is_said_wherever_one_looks(session: Session) -> None:
    made(session, "raw.a")
    history = read_history(Facts(session).platform(), 10)
    layout = lay_out(replace(history, dots=history.dots * 300), View())
    places = [left for left, _ in layout.days]
    assert max(after - before for before, after in itertools.pairwise((*places, layout.width))) <= 600
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", said) for _, said in layout.days[2:])


def test_the_note_of_a_moment_stands_below_the_picture_which_it_does_not_move(
    session: Session, client: TestClient
) -> None:
    made(session, "raw.a")
    page = client.get("/history?at=2100-01-01T00:00:00").text
    assert page.index('id="then"') > page.index('id="lanes"')
    assert 'href="#lanes">To the picture' in page


def test_letters_that_cannot_be_seen_are_looked_for_as_they_are_shown() -> None:
    hidden = ("snapline", "raw", "rtl\u202eabc")
    assert all(is_named(hidden, text) for text in ("rtl\u202eabc", "RTL\\u202EABC", "l\\u202e", "abc", "snapline.raw"))
    assert not is_named(hidden, "rtlabc")
    assert not is_named(OWN, "\\u202e")
