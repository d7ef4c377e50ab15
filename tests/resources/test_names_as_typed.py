"""Errors name what somebody has typed: options on the command line, arguments of CALL; and lengths of time need a unit."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from resources.actions import ACTIONS, Action, Parameter
from resources.actions.kinds import AGE, DURATION
from resources.cli import answer
from resources.cli.action_commands import _command
from resources.session import Session
from storage import InvalidRequest

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(session: Session, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    session.catalog.create_table("shop.orders", pa.schema([("id", pa.int64())])).write(pa.table({"id": [1]}))
    monkeypatch.setenv("SNAPLINE_HOME", str(session.settings.home))
    monkeypatch.setenv("SNAPLINE_WAREHOUSE", session.settings.warehouse)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["snapline", *arguments])
        with pytest.raises(SystemExit) as leaving:
            answer()
        shown = capsys.readouterr()
        return int(leaving.value.code or 0), shown.err

    return run


def texts(parameter: Parameter, *, as_alias: bool) -> list[str]:
    """What stands on the command line for a parameter that has to be given."""
    kind = parameter.given.kind
    value = {"NUMBER": "1", "VERSION": "1", "COLUMN=VALUE": "a=b", "DURATION": "1 d"}.get(kind.metavar, "x")
    option = parameter.given.option or (parameter.given.alias_option if as_alias else "")
    return [option, value] if option else [value]


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("as_alias", [False, True], ids=["command", "alias"])
def test_an_error_names_the_options_of_a_command(session: Session, name: str, as_alias: bool) -> None:
    action = ACTIONS[name]
    named = [each for each in action.parameters if "_" in each.name]

    def fail(*_: Any, **__: Any) -> Any:
        raise InvalidRequest("; ".join(f"'{each.name}' or {each.name} = 1" for each in named))

    given = [text for each in action.parameters if each.required for text in texts(each, as_alias=as_alias)]
    with pytest.raises(InvalidRequest) as caught:
        _command(replace(action, function=fail), name, as_alias=as_alias).main(
            given, standalone_mode=False, obj=session
        )
    for each in named:
        if each.given.option:
            assert not re.search(rf"\b{each.name}\b", str(caught.value)), str(caught.value)
            assert f"{each.given.option} = 1" in str(caught.value)


def test_an_error_names_the_arguments_of_call(session: Session) -> None:
    session.catalog.create_table("default.t", pa.schema([("id", pa.int64())])).write(pa.table({"id": [1]}))
    for text, said in (
        ("CALL sys.rescale(`table` => 't', bucket_num => 0)", "bucket_num: a whole number above zero"),
        ("CALL sys.compact(`table` => 't', compact_strategy => 'x')", "compact_strategy' is full or minor"),
        ("CALL sys.expire_snapshots(`table` => 't', retain_max => 0)", "retain_max = 0"),
        ("CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 2)", "retain_max = 1"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            session.sql(text, "duckdb")


def test_commands_speak_of_their_options(run: Run) -> None:
    for arguments, said in (
        (("table", "compact", "shop.orders", "--strategy", "x"), "--strategy is full or minor"),
        (
            ("snapshot", "expire", "shop.orders", "--retain-max", "3", "--retain-last", "2"),
            "--retain-max and --retain-last",
        ),
        (("snapshot", "expire", "shop.orders", "--retain-max", "0"), "--retain-max = 0"),
        (("table", "remove-orphan-files", "shop.orders", "--older-than", "0 s"), "no writer runs: --no-writers"),
    ):
        code, err = run(*arguments)
        assert (code, err.count("\n")) == (2, 1) and said in err, err


def of_time() -> list[tuple[Action, Parameter]]:
    kinds = (AGE, DURATION)
    return [(action, each) for action in ACTIONS.values() for each in action.parameters if each.given.kind in kinds]


def test_every_length_of_time_needs_a_unit(session: Session) -> None:
    assert len(of_time()) >= 3
    for _, parameter in of_time():
        for given in ("5", 5):
            with pytest.raises(InvalidRequest, match=rf"{parameter.name}: .*(unit|length of time)"):
                parameter.value(given)
