"""Each action is a command and a procedure, and both take the same values."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest

from resources.actions import ACTIONS, Kind, procedures
from resources.actions.kinds import (
    AGE,
    BRANCH,
    CONSUMER,
    DURATION,
    FLAG,
    MOMENT,
    NAME,
    NUMBER,
    PARTITIONS,
    PATTERN,
    POSITIVE,
    TABLE,
    VERSION,
)
from resources.cli import answer, cli
from resources.session import Session
from storage import CommitId, InvalidRequest

Run = Callable[..., tuple[int, str, str]]
# What is none of a kind.
WRONG: list[tuple[Kind, list[Any]]] = [
    (NUMBER, ["x", "1.5", True, 1.5, "", "²"]),
    (POSITIVE, [0, "0", -1, "x"]),
    (FLAG, ["yes", 1, ""]),
    (DURATION, ["soon", "", 5, "1 parsec", "999999999999 d"]),
    (MOMENT, ["yesterday", True, "0001-01-01", 1.5]),
    (AGE, ["soon", "", "9 parsecs"]),
    (NAME, ["", 5, None]),
    (TABLE, [""]),
    (BRANCH, [""]),
    (CONSUMER, [7]),
    (PATTERN, ["[", ""]),
    (VERSION, ["", 1.5]),
    (PARTITIONS, ["day", "=1", "", "day=1,day=2", 5]),
]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`snapline …` on a warehouse with the table shop.orders of two snapshots."""
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    orders = Session().catalog.create_table(
        "shop.orders", pa.schema([("id", pa.int64())]), primary_key=["id"], options={"bucket": 1}
    )
    for number in (1, 2):
        orders.write(pa.table({"id": [number]}), commit_id=CommitId("load", number))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["snapline", *arguments])
        with pytest.raises(SystemExit) as leaving:
            answer()
        shown = capsys.readouterr()
        return int(leaving.value.code or 0), shown.out, shown.err

    return run


@pytest.mark.parametrize(("kind", "values"), WRONG, ids=lambda value: value.label if isinstance(value, Kind) else "")
def test_what_is_none_of_a_kind_is_refused_in_one_line(kind: Kind, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidRequest, match=r"^the parameter: .*[^\n]$"):
            kind.value("the parameter", value)


@pytest.mark.parametrize("action", ACTIONS.values(), ids=list(ACTIONS))
def test_an_action_is_a_procedure_and_its_commands_take_the_same_parameters(action: Any) -> None:
    assert procedures()[action.function.__name__][0] is action
    assert action.meaning
    commands = [cli.commands[word] for word in action.alias]
    if action.command:
        noun, verb = action.command
        group = cli.commands[noun]
        assert isinstance(group, click.Group)
        commands.append(group.commands[verb])
    for command in commands:
        assert {each.name for each in command.params} == {*(each.name for each in action.parameters), "form"}
        required = {each.name for each in command.params if each.required}
        assert required == {each.name for each in action.parameters if each.required}


def test_every_parameter_of_a_procedure_is_one_of_its_action() -> None:
    for action, procedure in procedures().values():
        names = {each.name for each in action.parameters}
        assert {each.name for each in procedure.parameters} <= names


def test_noun_and_verb_do_what_the_older_spellings_do(run: Run) -> None:
    assert run("tag", "create", "shop.orders", "first", "--snapshot", "1") == (
        0,
        "Tag first of shop.orders names snapshot 1.\n",
        "",
    )
    assert run("create-tag", "shop.orders", "--name", "second", "--snapshot", "2")[0] == 0
    assert run("tag", "rename", "shop.orders", "second", "newest")[0] == 0
    shown = json.loads(run("tag", "list", "shop.orders", "--format", "json")[1])
    assert [(each["tag"], each["snapshot"]) for each in shown] == [("first", 1), ("newest", 2)]
    assert run("tags", "shop.orders")[1] == run("tag", "list", "shop.orders")[1]
    assert run("tag", "delete", "shop.orders", "first,newest")[1] == "Deleted tags first, newest of shop.orders.\n"
    assert run("snapshot", "rollback", "shop.orders", "--snapshot", "1")[0] == 0
    assert run("snapshot", "expire", "shop.orders", "--retain-last", "1")[1].startswith("Deleted 2 snapshots and ")
    assert run("consumer", "reset", "shop.orders", "report", "--snapshot", "3")[0] == 0
    assert run("consumer", "clear", "shop.orders", "--including", "re.*")[1].endswith(
        "1 consumer of shop.orders forgotten.\n"
    )


def test_an_action_answers_in_json(run: Run) -> None:
    assert json.loads(run("table", "check", "shop.orders", "--format", "json")[1]) == []
    assert json.loads(run("table", "compact", "shop.orders", "--format", "json")[1])[0]["result"].startswith(
        "Snapshot 3"
    )
    run("tag", "create", "shop.orders", "held", "--snapshot", "1")
    assert json.loads(run("snapshot", "why-kept", "shop.orders", "1", "--format", "json")[1])[-1] == {
        "holder": "tag held"
    }
    assert (
        run("branch", "create", "--name", "fix", "shop.orders", "--format", "csv")[1].splitlines()[0]
        == "result,branch,tables"
    )
    described = json.loads(run("table", "describe", "shop.orders", "--format", "json")[1])
    assert described[0] == {
        "kind": "column",
        "name": "id",
        "value": "BIGINT NOT NULL",
        "role": "primary key",
        "comment": "",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tag", "create", "shop.orders"], "Missing argument 'TAG'"),
        (["tag", "create", "shop.orders", "x", "--snapshot", "y"], "--snapshot: a whole number is expected, not 'y'"),
        (["tag", "create", "shop.orders", "x", "--snapshot", "1", "--timestamp", "2020-01-01"], "only one"),
        (["table", "rescale", "shop.orders", "--buckets", "0"], "--buckets: a whole number above zero"),
        (["snapshot", "expire", "shop.orders", "--older-than", "soon"], "--older-than: 'soon' is not a duration"),
        (["snapshot", "rollback", "shop.orders"], "Give one of version, snapshot"),
        (["partition", "drop", "shop.orders", "--partition", "day"], "is no partition"),
        (["consumer", "clear", "shop.orders", "--including", "["], "is no regular expression"),
        (["tag", "create", "shop.orders", ""], "tag: a name is expected"),
        (["tag", "nonsense"], "No such command 'nonsense'"),
    ],
)
def test_bad_input_is_one_line(run: Run, arguments: list[str], message: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_shells_complete_the_names_that_there_are(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "_SNAPLINE_COMPLETE=bash_complete" in run("completion", "bash")[1]
    run("tag", "create", "shop.orders", "first")
    run("branch", "create", "--name", "fix", "shop.orders")
    for words, expected in (
        ("snapline table describe sh", "shop.orders"),
        ("snapline tag delete shop.orders f", "first"),
        ("snapline branch merge shop.orders f", "fix"),
        ("snapline tag delete no.table f", ""),
    ):
        monkeypatch.setenv("_SNAPLINE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        shown = run()[1]
        assert shown == (f"plain,{expected}\n" if expected else "\n")
