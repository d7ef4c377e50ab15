"""Statements that sqlglot leaves unparsed: refused at the word that is not known."""

from sqlglot import exp
from sqlglot.tokens import Token

from .parser_base import BaseParser

# What there is to be created, dropped and altered.
_PLACES = ("CATALOG", "DATABASE", "SCHEMA", "TABLE", "VIEW")
_KINDS = {"CREATE": _PLACES, "DROP": _PLACES, "ALTER": ("TABLE", "VIEW")}
_BEFORE_KINDS = {"OR", "REPLACE", "TEMPORARY", "TEMP", "GLOBAL"}


class UnparsedParser(BaseParser):
    """Says what is not known of a statement that begins as a known one."""

    def _parse_as_command(self, start: Token) -> exp.Command:
        verb, stopped = start.text.upper(), self._curr
        if verb in _KINDS:
            self._refuse_known_to_spark(next(place for place, token in enumerate(self._tokens) if token is start))
            words = [token.text.upper() for token in self._tokens[self._tokens.index(start) + 1 : self._index]]
            kind = next((word for word in words if word not in _BEFORE_KINDS), "")
            if kind not in _KINDS[verb] or stopped is None:
                self.raise_error(f"{verb} takes one of {', '.join(_KINDS[verb])}", stopped or start)
            else:
                self.raise_error(f"{stopped.text!r} is no part of {verb} {kind} that is known here", stopped)
        return super()._parse_as_command(start)

    def _refuse_known_to_spark(self, start: int) -> None:
        words = [token.text.upper() for token in self._tokens[start:]]
        if words[:1] == ["FROM"] and "INSERT" in words:
            self.raise_error(
                "FROM … INSERT … INSERT is not known here: write one INSERT for each table", self._tokens[start]
            )
        if words[:2] in (["CREATE", "DATABASE"], ["CREATE", "SCHEMA"]):
            self.raise_error("a database has a name and nothing else: leave out what follows it", self._tokens[start])
