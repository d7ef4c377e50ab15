"""What the parsers of single statements have in common: names, tables, texts, lists of options."""

from collections.abc import Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.parsers.databricks import DatabricksParser
from sqlglot.tokens import Token, TokenType


class BaseParser(DatabricksParser):
    """sqlglot's parser of Databricks' SQL, with the small parts of which statements are made up."""

    def _name(self) -> exp.Expr:
        name = self._parse_id_var()
        if name is None:
            self.raise_error("Expected a name")
        assert name is not None
        return name

    def _table(self) -> exp.Table:
        table = self._parse_table_parts(schema=True)
        if not isinstance(table, exp.Table):
            self.raise_error("Expected the name of a table")
        assert isinstance(table, exp.Table)
        return table

    def _if(self, *words: str) -> bool:
        return bool(self._match_text_seq("IF", *words))

    def _text(self) -> str:
        """A value: a quoted text, a number, or words up to the end of the statement."""
        if self._curr and self._curr.token_type == TokenType.STRING:
            self._advance()
            return self._prev.text
        words: list[Token] = []
        while self._curr and self._curr.token_type not in (
            TokenType.SEMICOLON,
            TokenType.EQ,
            TokenType.COMMA,
            TokenType.R_PAREN,
        ):
            words.append(self._curr)
            self._advance()
        if not words:
            self.raise_error("Expected a value")
        return joined(words)

    def _value(self, instead: str) -> str:
        """A value that is not NULL, for which `instead` says what to write."""
        if self._is(TokenType.NULL):
            self.raise_error(f"NULL is no value here: {instead}", self._curr)
        return self._text()

    def _options(self) -> list[tuple[str, str]]:
        """('key' = 'value', …)"""
        self._match_l_paren()
        options = []
        while True:
            key = self._text()
            if not self._match(TokenType.EQ):
                self.raise_error("Expected =")
            options.append(
                (key, self._value("leave the option out, or take it away with RESET; a text stands in quotes"))
            )
            self._refuse_twice([each for each, _ in options])
            if not self._match(TokenType.COMMA):
                break
        self._match_r_paren()
        return options

    def _refuse_twice(self, keys: Sequence[str]) -> None:
        """Raise an error if the last of some keys is there before."""
        if keys[-1] in keys[:-1]:
            self.raise_error(f"Option {keys[-1]!r} is given twice. Give it once", self._prev)

    def _keys(self) -> list[str]:
        """('key', …)"""
        self._match_l_paren()
        keys = [self._text()]
        while self._match(TokenType.COMMA):
            keys.append(self._text())
        self._match_r_paren()
        return keys

    def _is(self, kind: TokenType) -> bool:
        return bool(self._curr) and self._curr.token_type == kind


def joined(words: Sequence[Token]) -> str:
    """The text of tokens, with spaces where there were some."""
    text = words[0].text
    for before, after in pairwise(words):
        text += ("" if before.end + 1 == after.start else " ") + after.text
    return text
