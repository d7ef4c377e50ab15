"""What sqlglot leaves unparsed, or stops at: refused at the word that is not known, by the clause that it begins."""

import re
from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from .not_known import CLAUSES_NOT_KNOWN
from .parser_base import BaseParser

# What the parser says of whatever it did not expect: no clause is named by it.
_STOPPED = re.compile(r"(Invalid expression|Expecting|Required|Expected)\b")
# A clause may have begun so many words before the one at which the parser stops.
_WORDS_BEFORE = 3

# What there is to be created, dropped and altered.
_PLACES = ("CATALOG", "DATABASE", "SCHEMA", "TABLE", "VIEW")
_KINDS = {"CREATE": _PLACES, "DROP": _PLACES, "ALTER": ("TABLE", "VIEW")}
_BEFORE_KINDS = {"OR", "REPLACE", "TEMPORARY", "TEMP", "GLOBAL"}


class UnparsedParser(BaseParser):
    """Says what is not known of a statement that begins as a known one."""

    def raise_error(self, message: str, token: Any = None) -> None:
        """Raise ParseError. What is said of a token that was not expected names the clause that it belongs to."""
        stopped = self._curr
        if not token and stopped and _STOPPED.match(message):
            clause, start = self._stopped_in()
            if clause:
                message, token = f"{' '.join(clause)} is not known here: {CLAUSES_NOT_KNOWN[clause]}", start
            elif message.startswith("Invalid expression"):
                message = f"{stopped.text!r} is no part of a statement that is known here"
            elif message.startswith("Expecting"):
                message = f"{message.replace('Expecting', 'Expected')}, and not {stopped.text!r}"
            elif message.startswith("Required") and stopped.text.isalpha() and stopped.token_type != TokenType.VAR:
                message = f"{stopped.text.upper()} is a word of SQL, and no value: as a name it stands in back quotes"
        if token is None:
            super().raise_error(message)
        else:
            super().raise_error(message, token)

    def _stopped_in(self) -> tuple[tuple[str, ...], Token | None]:
        """The clause at which the parser stopped, or in the midst of which, and its first word."""
        for start in range(self._index, max(-1, self._index - _WORDS_BEFORE - 1), -1):
            words = tuple(token.text.upper() for token in self._tokens[start : start + 3])
            for length in (3, 2, 1):
                if words[:length] in CLAUSES_NOT_KNOWN and start + length >= self._index:
                    return words[:length], self._tokens[start]
        return (), None

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
