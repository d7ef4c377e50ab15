"""ALTER TABLE, ALTER VIEW, COMMENT ON TABLE: each action as its word and its values."""

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from .commands import (
    AddedColumn,
    AlterTable,
    AlterView,
)
from .not_known import ALTERATIONS_NOT_KNOWN
from .type_parser import TypeParser


class AlterationParser(TypeParser):
    """Parses the statements that alter what there is."""

    def _parse_comment_on_table(self) -> exp.Expr:
        table = self._table()
        if not self._match_text_seq("IS"):
            self.raise_error("Expected IS 'text', or IS NULL")
        text = None if self._match(TokenType.NULL) else self._text()
        return self.expression(AlterTable(this=table, action="comment", values=(None, text)))

    def _parse_alter_table_statement(self) -> exp.Expr:
        exists = self._if("EXISTS")
        table = self._table()
        partition = self._parse_partition()
        for others, advice in ALTERATIONS_NOT_KNOWN.items():
            if self._match_text_seq(*others):
                clause = " ".join(others).removesuffix(" (")
                self.raise_error(f"ALTER TABLE … {clause} is not known here: {advice}", self._prev)
        for words, parse in ALTERATIONS.items():
            if self._match_text_seq(*words):
                self._of_action = False
                action, values = getattr(self, parse)()
                return self.expression(
                    AlterTable(
                        this=table,
                        action=action,
                        partition=partition,
                        exists=exists,
                        values=values,
                        action_exists=self._of_action,
                    )
                )
        self.raise_error(f"Expected one of {', '.join(' '.join(words) for words in ALTERATIONS)}")
        raise AssertionError

    def _parse_alter_view_statement(self) -> exp.Expr:
        view = self._table()
        exists = False
        values: Any = None
        if self._match_text_seq("AS") or self._match_texts(("SELECT", "TABLE", "VALUES", "FROM"), advance=False):
            action, values = "as", self._parse_statement()
        elif self._match_text_seq("RENAME", "TO"):
            action, values = "rename to", self._table()
        elif self._match_text_seq("SET", "TBLPROPERTIES"):
            action, values = "set", self._options()
        elif self._match_text_seq("UNSET", "TBLPROPERTIES"):
            action, exists = "reset", self._if("EXISTS")
            values = self._keys()
        else:
            self.raise_error("Expected one of AS, RENAME TO, SET TBLPROPERTIES, UNSET TBLPROPERTIES")
        return self.expression(AlterView(this=view, action=action, values=values, action_exists=exists))

    def _alter_compact(self) -> tuple[str, Any]:
        return "compact", None

    def _alter_set(self) -> tuple[str, Any]:
        self._match_text_seq("TBLPROPERTIES")
        return "set", self._options()

    def _alter_reset(self) -> tuple[str, Any]:
        self._match_text_seq("TBLPROPERTIES")
        self._of_action = self._if("EXISTS")
        return "reset", self._keys()

    def _alter_add(self) -> tuple[str, Any]:
        has_word = self._match_texts(("COLUMN", "COLUMNS"))
        self._of_action = self._if("NOT", "EXISTS")
        if not has_word and self._is(TokenType.PARTITION):
            return "add partition", self._parse_csv(self._parse_partition)
        return "add", self._listed(self._added_column)

    def _listed(self, parse: Callable[[], Any]) -> list[Any]:
        """What a comma separates, in parentheses or without."""
        wrapped = self._match(TokenType.L_PAREN)
        parsed = self._parse_csv(parse)
        if wrapped:
            self._match_r_paren()
        return parsed

    def _added_column(self) -> exp.Expr:
        name = self._path()
        column = self._parse_column_def(exp.to_identifier(name))
        if not isinstance(column, exp.ColumnDef):
            self.raise_error("Expected the type of the column")
        assert isinstance(column, exp.ColumnDef)
        after, first = self._placement()
        place = column.args.pop("position", None)
        if place is not None:
            after = place.this.sql(self.dialect).replace("`", "") if place.this is not None else None
            first = after is None
        return self.expression(AddedColumn(this=column, name=name, after=after, first=first))

    def _placement(self) -> tuple[str | None, bool]:
        if self._match_text_seq("FIRST"):
            return None, True
        return (self._path() if self._match_text_seq("AFTER") else None), False

    def _path(self) -> str:
        start = self._curr
        parts = [self._name().name]
        while self._match(TokenType.DOT):
            parts.append(self._name().name)
        dotted = next((part for part in parts if "." in part), None)
        if dotted is not None:
            self.raise_error(
                f"A column whose name has a dot, {dotted!r}, is not altered here: a dot leads into a struct", start
            )
        return ".".join(parts)

    def _alter_drop(self) -> tuple[str, Any]:
        has_word = self._match_texts(("COLUMN", "COLUMNS"))
        self._of_action = self._if("EXISTS")
        if not has_word and self._is(TokenType.PARTITION):
            start = self._curr
            partitions = self._parse_csv(self._parse_partition)
            for node in (value for partition in partitions for value in partition.expressions):
                if not isinstance(node, exp.EQ | exp.Column | exp.Identifier):
                    self.raise_error(
                        f"DROP PARTITION takes values of partition columns, column = value: DELETE FROM … WHERE {node.sql()}",
                        start,
                    )
            return "drop partition", partitions
        return "drop", self._listed(self._path)

    def _alter_rename(self) -> tuple[str, Any]:
        if self._match_text_seq("TO"):
            return "rename to", self._table()
        self._match_text_seq("COLUMN")
        name = self._path()
        if not self._match_text_seq("TO"):
            self.raise_error("Expected TO")
        return "rename", (name, self._name().name)

    def _alter_column(self) -> tuple[str, Any]:
        self._match_text_seq("COLUMN")
        name = self._path()
        action = self._column_action(name)
        if self._is(TokenType.COMMA):
            self.raise_error("ALTER COLUMN changes one column: write an ALTER TABLE for each", self._curr)
        return action

    def _column_action(self, name: str) -> tuple[str, Any]:
        if self._match_text_seq("DROP", "NOT", "NULL"):
            return "drop not null", name
        if self._match_text_seq("SET", "NOT", "NULL"):
            return "set not null", name
        if self._match_text_seq("SET", "DEFAULT"):
            return "set default", (name, self._parse_bitwise())
        if self._match_text_seq("DROP", "DEFAULT"):
            return "set default", (name, exp.Null())
        if self._match_text_seq("COMMENT"):
            return "comment", (name, self._value("a comment is a text in quotes"))
        after, first = self._placement()
        if after or first:
            return "move", (name, after, first)
        self._match_text_seq("SET", "DATA")
        self._match_text_seq("TYPE")
        kind = self._parse_types(schema=True)
        if kind is None:
            self.raise_error("Expected a type, SET or DROP NOT NULL, SET or DROP DEFAULT, COMMENT, FIRST or AFTER")
        return "type", (name, kind)


ALTERATIONS = {
    ("COMPACT",): "_alter_compact",
    ("SET",): "_alter_set",
    ("UNSET",): "_alter_reset",
    ("RESET",): "_alter_reset",
    ("ADD",): "_alter_add",
    ("DROP",): "_alter_drop",
    ("RENAME",): "_alter_rename",
    ("ALTER",): "_alter_column",
    ("MODIFY",): "_alter_column",
}
