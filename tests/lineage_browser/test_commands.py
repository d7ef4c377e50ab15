"""Commands that pages show mean what they say, whatever names are in them."""

import re
import shlex
from html import unescape

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from resources import Session
from resources.cli import cli
from resources.links.address import command
from resources.recovery import Recovery, plan_recovery
from storage import InvalidRequest
from tests.lineage_browser.test_pages import made


@pytest.mark.parametrize("name", ["-x", "--help", "-", "a b", "$(id)", "it's"])
@pytest.mark.parametrize("words", ["recovery drop", "recovery publish", "recovery backfill", "impact", "reproduce"])
def test_a_name_in_a_command_is_no_option_of_it(session: Session, words: str, name: str) -> None:
    parts = shlex.split(command(words, name))
    assert parts[0] == "snapline" and name in parts
    answer = CliRunner().invoke(cli, parts[1:])
    assert answer.exit_code == 1 and "option" not in answer.output.casefold(), answer.output


def test_options_stand_before_what_begins_with_a_hyphen() -> None:
    assert (
        command("recovery start", "fix", bad="a.b@1", mode="full")
        == "snapline recovery start fix --bad a.b@1 --mode full"
    )
    assert command("recovery start", "-x", bad="-a.b@1") == "snapline recovery start --bad -a.b@1 -- -x"
    assert command("recovery correct", "-x", undo_bad=()) == "snapline recovery correct --undo-bad -- -x"
    assert command("lineage", compare=("-a.b@1", "a.b@2")) == "snapline lineage --compare -a.b@1 a.b@2"


def test_the_command_of_a_page_of_a_database_that_begins_with_a_hyphen_is_carried_out(
    session: Session, client: TestClient
) -> None:
    ref = made(session, "-raw.a")
    page = client.get(f"/spoilt?ref=snapline.{ref}").text
    assert f"snapline impact -- {ref}" in page
    answer = CliRunner().invoke(cli, ["impact", "--", str(ref)])
    assert answer.exit_code == 0, answer.output


def test_a_new_recovery_has_no_name_that_commands_take_for_an_option(session: Session) -> None:
    bad = made(session, "raw.a")
    with pytest.raises(InvalidRequest, match="'-x' cannot name a recovery"):
        Recovery.start(session, "-x", plan_recovery(session, bad))
    assert session.table("raw.a").branches.names() == []


def test_commands_of_names_that_are_read_from_right_to_left_can_be_copied(session: Session, client: TestClient) -> None:
    name = "raw.מכירות"
    made(session, name)
    page = client.get(f"/spoilt?ref=snapline.{name}@1").text
    (shown,) = re.findall(r"<code>(snapline .*?)</code>", page)
    assert "<bdi>מכירות</bdi>" in shown
    assert unescape(re.sub(r"</?bdi>", "", shown)) == f"snapline impact '{name}@1'"
