"""Tables, branches and recoveries may have any name: pages about them show it as text, and their links and forms lead to them."""

import json
import re
import shlex
import subprocess
from html import unescape

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from lineage import dot, mermaid, rows, text_tree, topic_texts
from resources import Session, code_location
from resources.links.address import command, text_of
from resources.links.shown_text import visible
from resources.recovery import Recovery, plan_recovery
from storage import CommitId, InvalidRequest, SnapshotRef
from tests.lineage_browser.bad_day import Form
from tests.lineage_browser.test_pages import HOSTILE, KNOWN, Elements

pytestmark = pytest.mark.dagster
NAMES = [*HOSTILE, "a b", "a;reboot", "`id`", "$(id)", "a'b", "#x?y&z=1", "..", "%2e%2e", "a@b"]
OURS = KNOWN | {"button", "details", "summary", "label", "code", "strong", "ol", "ul", "li", "br", "h3"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_location, "_MODULE", "tests.resources.quick_shop")


def loaded(session: Session, name: str, price: int) -> SnapshotRef:
    schema = pa.schema([("id", pa.int64()), ("said", pa.string())])
    table = session.catalog.create_table(name, schema, primary_key=["id"], options={"bucket": 1}, if_not_exists=True)
    table.write(pa.table({"id": [price], "said": [name]}), commit_id=CommitId(name, price))
    ref = table.ref()
    assert ref is not None
    return ref


def read_by_mermaid(text: str) -> str:
    """Labels as Mermaid shows them: its own codes are those of HTML with # for &."""
    return unescape(re.sub(r"#([a-z]+);", r"&\1;", re.sub(r"#(\d+);", r"&#\1;", text)))


def check_page(client: TestClient, path: str, name: str, **parameters: str) -> str:
    answer = client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    elements = Elements(answer.text)
    assert elements.names <= OURS, elements.names - OURS
    assert all(script.get("src") for script in elements.scripts)
    assert not [each for each in elements.attributes if each[0].startswith("on") or each[0] == "style"]
    assert not [each for each in elements.attributes if each[0] == "href" and not re.match(r"[/?#]", each[1])]
    assert visible(name) in elements.text, name
    return answer.text


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_tables_of_any_name_are_shown_compared_and_recovered(session: Session, client: TestClient, name: str) -> None:
    try:
        good, bad = (loaded(session, f"raw.{name}", number) for number in (1, 2))
    except InvalidRequest as error:
        # Not every name can be that of a table; none that can is left out.
        assert "name" in str(error)
        return
    spoilt = check_page(client, "/spoilt", name, ref=text_of(bad))
    (leads_to,) = re.findall(r'class="button" href="([^"]*)"', spoilt)
    plan = client.get(unescape(leads_to))
    assert plan.status_code == 200 and visible(name) in Elements(plan.text).text
    check_page(client, "/compare", name, left=text_of(good), right=text_of(bad))
    answer = Form(plan.text, "/recoveries").send(
        client, {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}, branch="fix"
    )
    assert answer.status_code in (200, 303), answer.text
    assert Recovery.open(session, "fix").record.bad == str(bad)
    page = check_page(client, "/recoveries/fix", name)
    check_page(client, "/recoveries", name)
    check_page(client, "/recoveries/fix", name, table=f"raw.{name}")
    assert Form(page, "/drop").fields["branch"] == "fix"


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_recoveries_of_any_name_have_a_page_whose_forms_lead_to_them(
    session: Session, client: TestClient, name: str
) -> None:
    loaded(session, "raw.a", 1)
    bad = loaded(session, "raw.a", 2)
    try:
        Recovery.start(session, name, plan_recovery(session, bad, "full"))
    except InvalidRequest as error:
        assert "name" in str(error)
        return
    name = visible(name)
    listed = check_page(client, "/recoveries", name)
    (address,) = {unescape(reference) for reference in re.findall(r'href="(/recoveries/[^"]+)"', listed)}
    page = check_page(client, address, name)
    assert Form(page, "/drop").action == f"{address}/drop"
    answer = Form(page, "/drop").send(client, {"Origin": "http://127.0.0.1"})
    assert answer.status_code in (200, 303), answer.text
    assert client.get(address).status_code == 404


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_command_to_copy_has_one_word_for_each_name(name: str) -> None:
    bad = ["--bad", f"raw.{name}@1"]
    # What begins with a hyphen would be taken for an option.
    words = ["recovery", "start", *([*bad, "--", name] if name.startswith("-") else [name, *bad])]
    said = command("recovery start", name, bad=f"raw.{name}@1")
    if "$'" in said:
        # As bash and zsh read what cannot be seen.
        assert said.isprintable()
        printed = subprocess.run(["bash", "-c", said.replace("snapline", "printf '%s\\n'", 1)], capture_output=True)
        assert printed.stdout.decode().splitlines() == words
    else:
        assert shlex.split(said) == ["snapline", *words]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_topics_that_a_snapshot_was_made_from_are_text(session: Session, client: TestClient, name: str) -> None:
    """Whoever wrote the snapshot wrote its properties: what is no topic's name there is left out."""
    own = session.catalog.name
    ranges = [[own, "raw", name, "flights", 0, 5, 12, "id"], [own, "raw", "t", f"{name} ", 0, 5, 12, "id"]]
    ranges += [[own, "raw", "t", "flights", -1, "5", None, "id"], [own, "raw", "\x1b[2J\n", "flights", 0, 5, 12, "id"]]
    table = session.catalog.create_table("raw.t", pa.schema([("id", pa.int64())]))
    table.write(pa.table({"id": [1]}), properties={"snapline.offsets": json.dumps(ranges)})
    ref = table.ref()
    assert ref is not None
    if not name.isprintable():
        # No table has such a name.
        assert "topic flights" not in check_page(client, "/snapshot", "raw.t", ref=text_of(ref))
        return
    page = check_page(client, "/snapshot", name, ref=text_of(ref))
    assert Elements(page).text.count("topic flights, offsets 0 [5, 12)") == 1
    graph = session.lineage(ref, "up")
    [line] = topic_texts(graph.ranges_of(ref))
    assert text_tree(graph).endswith(f"└── {line}")
    assert [row["source_snapshot_id"] for row in rows(graph)] == [12]
    assert line in read_by_mermaid(mermaid(graph)) and dot(graph).count("shape=cylinder") == 1
