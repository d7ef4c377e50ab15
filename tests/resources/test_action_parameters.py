"""What is given to commands and procedures is carried out or refused: no parameter is taken and ignored."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pyarrow as pa
import pytest

from resources.cli import answer, cli
from resources.cli.lazy_commands import commands_of
from resources.session import Session
from storage import CommitId

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`snapline …` on a warehouse with the table shop.days of six snapshots."""
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    days = Session().catalog.create_table(
        "shop.days",
        pa.schema([("day", pa.string()), ("id", pa.int64())]),
        primary_key=["day", "id"],
        partition_by=["day"],
        options={"bucket": 1},
    )
    for number, day in enumerate(("a,b", "a;b", "a/b", "a", "b", "a")):
        days.write(pa.table({"day": [day], "id": [number]}), commit_id=CommitId("load", number))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["snapline", *arguments])
        with pytest.raises(SystemExit) as leaving:
            answer()
        shown = capsys.readouterr()
        return int(leaving.value.code or 0), shown.out, shown.err

    return run


def call(run: Run, procedure: str) -> tuple[int, str, str]:
    return run("sql", "--engine", "duckdb", "--format", "csv", f"CALL sys.{procedure}")


def ids() -> list[int]:
    return sorted(Session().table("shop.days").to_arrow()["id"].to_pylist())


def test_a_value_of_a_partition_holds_any_sign_on_the_command_line(run: Run) -> None:
    for number, day in enumerate(("a,b", "a;b", "a/b")):
        assert run("partition", "drop", "shop.days", "--partition", f"day={day}")[0] == 0
        assert ids() == [*range(number + 1, 6)]
    assert "Dropped day=a, day=b of shop.days" in call(run, "drop_partition('shop.days', 'day=a;day=b')")[1]
    assert ids() == []


def test_no_partitions_are_not_all_partitions(run: Run) -> None:
    for procedure in ("compact('shop.days', ';')", "compact('shop.days', '')", "drop_partition('shop.days', ' ; ')"):
        assert "partitions, such as day=2024-05-01 is expected" in call(run, procedure)[2]


def test_a_compaction_is_told_one_way(run: Run) -> None:
    assert "leave one out" in run("compact", "shop.days", "--triggers", "--strategy", "full")[2]
    assert "leave one out" in call(run, "compact('shop.days', NULL, 'full', triggers => TRUE)")[2]
    assert run("compact", "shop.days", "--triggers", "--strategy", "minor")[0] == 0
    assert "'full': everything is merged" in call(run, "compact(`table` => 'shop.days', full => FALSE)")[2]
    # In Paimon's order the third is a strategy, the fourth another one.
    assert "full or minor" in call(run, "compact('shop.days', NULL, 'some')")[2]
    assert "'order_strategy': rows are not sorted" in call(run, "compact('shop.days', NULL, 'full', 'zorder')")[2]
    assert call(run, "compact('shop.days', NULL, 'minor', NULL, NULL, NULL, NULL, NULL, TRUE)")[0] == 0


def test_snapshots_expire_by_paimons_order_of_arguments(run: Run) -> None:
    assert (
        call(run, "expire_snapshots('shop.days', 4, 2, '1 d', NULL, NULL, NULL, TRUE)")[1]
        .splitlines()[-1]
        .startswith("Would delete 2 snapshots")
    )
    assert "'max_deletes'" in call(run, "expire_snapshots('shop.days', 4, 2, '1 d', 1)")[2]
    # The table's own age, an hour, protects what neither number says.
    assert call(run, "expire_snapshots('shop.days', retain_min => 2)")[1].startswith("Deleted 0 snapshots")
    assert (
        "--retain-max = 2 cannot be all"
        in run("expire-snapshots", "shop.days", "--retain-max", "2", "--retain-min", "5")[2]
    )
    assert run("expire-snapshots", "shop.days", "--retain-max", "4", "--retain-min", "2")[1].startswith(
        "Deleted 2 snapshots"
    )
    assert "older_than: " in call(run, "expire_snapshots('shop.days', 4, 2, 'x')")[2]


@pytest.mark.parametrize(
    ("procedure", "message"),
    [
        ("create_tag_from_timestamp('shop.days', 'x')", "needs timestamp"),
        ("create_tag_from_watermark('shop.days', 'x', NULL)", "needs watermark"),
        ("rollback_to_timestamp('shop.days')", "needs timestamp"),
        ("replace_tag('shop.days', 'x')", "Existing tags: none"),
        ("delete_tag('shop.days', 'first,x')", "Existing tags: first"),
        ("expire_partitions('shop.days', '7 d')", "'expiration_time': set the options"),
        ("expire_tags('shop.days', '2024-01-01')", "'older_than'"),
        ("rescale('shop.days', 2, 'day=a', 'day > 1')", "'where': name a partition"),
        ("rescale('shop.days', 2, 'day=a;day=b')", "One partition is rescaled at a time"),
        ("remove_orphan_files('shop.days', '2 d', TRUE, 4, 'local', 'x')", "no_writers: TRUE or FALSE"),
        ("compact_database(mode => 'combined')", "'mode'"),
    ],
)
def test_what_a_procedure_cannot_do_is_refused_by_name(run: Run, procedure: str, message: str) -> None:
    if "first" in procedure:
        run("tag", "create", "shop.days", "first")
    code, _, error = call(run, procedure)
    assert (code, error.count("\n")) == (2, 1)
    assert message in error
    if "first" in procedure:
        assert [tag.name for tag in Session().table("shop.days").tags.list()] == ["first"]


def test_a_tag_with_a_comma_in_its_name_can_be_deleted(run: Run) -> None:
    run("tag", "create", "shop.days", "a,b")
    run("tag", "create", "shop.days", "a")
    run("tag", "create", "shop.days", "c")
    assert run("tag", "delete", "shop.days", "a,b")[1] == "Deleted tag a,b of shop.days.\n"
    assert run("tag", "delete", "shop.days", "a,c,a")[1] == "Deleted tags a, c of shop.days.\n"


def _commands(group: click.Group, *words: str) -> list[tuple[tuple[str, ...], click.Command]]:
    commands: list[tuple[tuple[str, ...], click.Command]] = []
    for name, command in commands_of(group).items():
        is_group = isinstance(command, click.Group)
        commands += _commands(command, *words, name) if is_group else [((*words, name), command)]  # type: ignore[arg-type]
    return commands


# They start something that goes on, or print what a shell reads.
WITHOUT_FORMAT = {"demo", "ui", "browse", "completion"}


@pytest.mark.parametrize(
    ("words", "command"), _commands(cli), ids=lambda value: " ".join(value) if type(value) is tuple else ""
)
def test_every_command_answers_in_each_format(words: tuple[str, ...], command: click.Command) -> None:
    forms = [
        parameter.type.choices
        for parameter in command.params
        if parameter.name == "form" and isinstance(parameter.type, click.Choice)
    ]
    if words[0] in WITHOUT_FORMAT:
        assert forms == []
    else:
        assert {"table", "json", "csv"} <= set(forms[0])


def test_what_is_shown_to_people_is_told_to_programs(run: Run) -> None:
    shown = json.loads(run("expire-snapshots", "shop.days", "--retain-last", "1", "--dry-run", "--format", "json")[1])
    (answer,) = shown
    assert (answer["table"], answer["snapshots"], answer["deleted"]) == ("shop.days", [1, 2, 3, 4, 5], False)
    assert answer["files"] == len(answer["lines"]) > 0
    assert all("is the last that needs it" in line for line in answer["lines"])
    assert json.loads(run("recovery", "list", "--format", "json")[1]) == []
    assert json.loads(run("lineage", "rebuild", "--format", "json")[1])[0]["result"].startswith("Read the lineage of 6")


@pytest.mark.parametrize("words", [[], ["table"], ["recovery"]])
def test_a_group_without_a_command_shows_its_help(run: Run, words: list[str]) -> None:
    code, out, error = run(*words)
    assert (code, out) == (2, "")
    assert error.startswith(f"Usage: snapline {' '.join([*words, '[OPTIONS]'])}")
    assert "\nCommands:\n" in error


def test_what_is_called_a_tag_is_no_snapshot(run: Run) -> None:
    before = ids()
    for code, _, err in (
        run("snapshot", "rollback", "shop.days", "--tag", "1"),
        run("snapshot", "rollback", "shop.days", "--tag", "main.1"),
        call(run, "rollback_to(table => 'shop.days', tag => '2')"),
        run("sql", "--engine", "duckdb", "SELECT * FROM shop.days /*+ OPTIONS('scan.tag-name' = '1') */"),
    ):
        assert (code, "does not exist. Existing tags: none" in err) == (2, True), err
    assert ids() == before and Session().table("shop.days").snapshot().id == 6
    run("tag", "create", "shop.days", "watermark-7", "--snapshot", "2")
    assert run("snapshot", "rollback", "shop.days", "--tag", "watermark-7")[0] == 0
    assert ids() == [0, 1]


def test_one_partition_is_described(run: Run) -> None:
    code, out, _ = run("table", "describe", "shop.days", "--partition", "day=a")
    assert code == 0 and "day=a" in out and "total-size" in out
    code, out, _ = run("table", "describe", "shop.days", "--partition", "day=a", "--format", "json")
    assert code == 0 and {"property"} == {each["kind"] for each in json.loads(out)}


def test_a_catalog_that_is_misspelt_has_no_lineage_to_rebuild(run: Run) -> None:
    code, _, err = call(run, "rebuild_lineage('nope')")
    assert code == 2 and len(err.splitlines()) == 1 and "'nope'" in err and "snapline" in err
