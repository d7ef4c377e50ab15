"""What commands print for people is text: names and values of tables are obeyed neither by the terminal nor as markup."""

import logging

import pyarrow as pa
import pytest
from click.testing import CliRunner

from resources import Session
from resources.cli import cli
from resources.links.shown_text import in_terminal

CLEARS = "a\x1b[2J\x1b]0;title\x07\x9b31m\rb\u202ec"
SPELT = r"a\u001b[2J\u001b]0;title\u0007\u009b31m\u000db\u202ec"


def shown(session: Session, *arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments, obj=session)
    assert result.exception is None, result.output
    return result.output


def test_a_terminal_is_given_nothing_to_obey() -> None:
    assert in_terminal(CLEARS) == SPELT
    # Lines, tabs, letters of all scripts and joined emoji stay as they are.
    for text in ("a\tb\nc", "שלום", "👩\u200d🔬", "naïve"):
        assert in_terminal(text) == text


def test_values_comments_and_jobs_of_a_table_reach_the_terminal_as_text(session: Session) -> None:
    table = session.catalog.create_table(
        "d.t", pa.schema([("id", pa.int64()), ("s\x1b[31m", pa.string())]), comment=CLEARS
    )
    table.write(pa.table({"id": [1], "s\x1b[31m": [CLEARS]}))
    session.sql(f"SET 'pipeline.name' = '{CLEARS}'; INSERT INTO d.t SELECT * FROM d.t", "duckdb")
    for arguments in (
        ("sql", "--engine", "duckdb", "SELECT * FROM d.t"),
        ("query", "SELECT * FROM d.t"),
        ("table", "describe", "d.t"),
        ("snapshot", "list", "d.t"),
        ("sql", "--engine", "duckdb", f"SET 'pipeline.name' = '{CLEARS}'"),
        ("sql", "--engine", "duckdb", f"EXPLAIN SELECT * FROM d.t WHERE `s\x1b[31m` = '{CLEARS}'"),
    ):
        output = shown(session, *arguments)
        assert "\\u001b" in output, arguments
        assert not any(each in output for each in "\x1b\x07\x9b\r\u202e"), arguments


@pytest.mark.parametrize("name", ["[/red]", "job [a] of [b]", "x[bold]", "[link]b"])
def test_brackets_are_no_markup(session: Session, name: str) -> None:
    assert name in shown(session, "sql", "--engine", "duckdb", f"SET 'pipeline.name' = '{name}'")
    output = shown(session, "sql", "--engine", "duckdb", f"CREATE TABLE d.`{name}` (`{name}` STRING)".replace("/", ""))
    assert name.replace("/", "") in output
    output = shown(session, "sql", "--engine", "duckdb", f"SELECT '{name}' AS `{name}`")
    assert output.count(name) == 2


def test_warnings_reach_the_terminal_as_text(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    from resources.cli.program import answer

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr("sys.argv", ["snapline", "--version"])
        answer()
    assert logging.lastResort is not None
    record = logging.LogRecord("x", logging.WARNING, "", 0, "Table %s", (CLEARS,), None)
    assert logging.lastResort.format(record) == f"Table {SPELT}"
