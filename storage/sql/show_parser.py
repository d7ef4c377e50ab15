"""The statements that show what there is: SHOW, and DESCRIBE."""

from sqlglot import exp
from sqlglot.tokens import TokenType

from .commands import DescribeTable, Show
from .export_parser import ExportParser
from .not_known import DESCRIPTIONS_NOT_KNOWN, SHOWN_NOT_KNOWN

_SHOWN = {
    "CATALOGS",
    "DATABASES",
    "SCHEMAS",
    "TABLES",
    "CREATE",
    "TABLE",
    "PARTITIONS",
    "TAGS",
    "BRANCHES",
    "SNAPSHOTS",
    "CURRENT",
    "CATALOG",
    "DATABASE",
    "PROCEDURES",
    "COLUMNS",
    "TBLPROPERTIES",
    "VIEWS",
    "FUNCTIONS",
}
_SHOWN_OF_TABLES = ("CREATE TABLE", "PARTITIONS", "TAGS", "BRANCHES", "SNAPSHOTS", "TBLPROPERTIES", "COLUMNS")


class ShowParser(ExportParser):
    """Parses SHOW and DESCRIBE; the rest is for other parsers."""

    def _parse_show_statement(self) -> exp.Expr:
        words: list[str] = []
        for others, advice in SHOWN_NOT_KNOWN.items():
            if self._match_text_seq(*others):
                self.raise_error(f"SHOW {' '.join(others)} is not known here: {advice}", self._prev)
        while self._curr and self._curr.text.upper() in _SHOWN and len(words) < 2:
            words.append(self._curr.text.upper())
            self._advance()
        what = " ".join(words)
        if not words:
            self.raise_error(f"Expected one of {', '.join(sorted(_SHOWN))}")
        place = self._table() if self._match_texts(("IN", "FROM")) or what in _SHOWN_OF_TABLES else None
        if what == "COLUMNS" and place is not None and self._match_texts(("IN", "FROM")):
            place.set("db", self._name())
        keys = self._keys() if what == "TBLPROPERTIES" and self._is(TokenType.L_PAREN) else None
        partition = self._parse_partition()
        named = self._match_text_seq("LIKE") or self._is(TokenType.STRING)
        pattern = self._text() if named else None
        return self.expression(Show(this=what, place=place, pattern=pattern, partition=partition, keys=keys))

    def _parse_describe_statement(self) -> exp.Expr:
        extended = bool(self._match_texts(("EXTENDED", "DETAIL", "FORMATTED")))
        self._match_text_seq("TABLE")
        extended = bool(self._match_texts(("EXTENDED", "DETAIL", "FORMATTED"))) or extended
        what = self._curr.text.upper() if self._curr else ""
        is_last = self._next is None or self._next.token_type in (TokenType.SEMICOLON, TokenType.DOT)
        if what in DESCRIPTIONS_NOT_KNOWN and not is_last:
            self.raise_error(f"DESCRIBE {what} is not known here: {DESCRIPTIONS_NOT_KNOWN[what]}")
        table = self._table()
        if self._is(TokenType.VAR) or self._is(TokenType.IDENTIFIER):
            self.raise_error("DESCRIBE shows whole tables: leave out the column")
        return self.expression(DescribeTable(this=table, extended=extended, partition=self._parse_partition()))
