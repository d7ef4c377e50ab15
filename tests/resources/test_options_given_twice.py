"""An option of a command is given once, unless it is declared to be repeated: none of two values is left out without a word."""

from pathlib import Path

import click
import pyarrow as pa
import pytest

from resources.cli import cli
from resources.cli.lazy_commands import commands_of
from resources.session import Session
from storage import CommitId

pytestmark = pytest.mark.dagster


def _options(group: click.Group, *words: str) -> list[tuple[tuple[str, ...], click.Option]]:
    """The options of all commands below a group, with the words by which the command is called."""
    options: list[tuple[tuple[str, ...], click.Option]] = []
    for name, command in commands_of(group).items():
        if isinstance(command, click.Group):
            options += _options(command, *words, name)
        else:
            options += [((*words, name), each) for each in command.params if isinstance(each, click.Option)]
    return options


def _given(option: click.Option, spelling: str) -> list[str]:
    value = option.type.choices[0] if isinstance(option.type, click.Choice) else "1"
    return [spelling] if option.is_flag else [spelling, *[str(value)] * option.nargs]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))


def test_no_command_takes_an_option_twice() -> None:
    options = _options(cli)
    assert len(options) > 100
    once = [(words, option) for words, option in options if not option.multiple]
    for words, option in once:
        given = [*_given(option, option.opts[0]), *_given(option, option.opts[-1])]
        with pytest.raises(click.UsageError, match=f"{option.opts[-1]} is given twice. Give it once") as refusal:
            cli.main([*words, *given], standalone_mode=False)
        assert refusal.value.ctx is not None and refusal.value.ctx.command_path.endswith(" ".join(words))


def test_options_that_are_repeated_are_declared_so() -> None:
    repeated = {(*words, option.opts[-1]) for words, option in _options(cli) if option.multiple}
    assert {("recovery", "plan", "--partition"), ("drop-partition", "--partition")} <= repeated
    assert {words[-1] for words in repeated} == {"--partition"}


def test_one_spelling_and_another_are_one_option_and_help_answers_first(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(click.UsageError, match="-f / --file is given twice"):
        cli.main(["sql", "-f", "a.sql", "--file=b.sql"], standalone_mode=False)
    cli.main(["tables", "--help", "--help"], standalone_mode=False)
    assert "Usage:" in capsys.readouterr().out


def test_a_tag_is_made_of_no_snapshot_where_two_are_named_and_partitions_of_two_columns_are() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("v", pa.int64())])
    table = Session().catalog.create_table("shop.days", schema, partition_by=["a", "b"])
    table.write(pa.table({"a": [1, 1], "b": [1, 2], "v": [1, 2]}), commit_id=CommitId("load", 1))
    with pytest.raises(click.UsageError, match="--snapshot is given twice"):
        cli.main(["tag", "create", "shop.days", "b", "--snapshot", "1", "--snapshot", "1"], standalone_mode=False)
    assert not table.tags.list()
    cli.main(["partition", "drop", "shop.days", "--partition", "a=1", "--partition", "b=2"], standalone_mode=False)
    assert table.to_arrow().num_rows == 1
