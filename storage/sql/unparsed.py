"""What sqlglot leaves unparsed, or stops at: refused at the word that is not known, by the clause that it begins."""

import re
from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from .not_known import CLAUSES_NOT_KNOWN
from .parser_base import BaseParser

# What the parser says of whatever it did not expect: no clause is named by it.
_STOPPED = re.compile(r"(Invalid expression|Expecting|Required|Expected)\b")
# A clause may have begun so many words before the one at which the parser stops.
_WORDS_BEFORE = 4
# How many words "…" stands for at the most.
_LONGEST_GAP = 12

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
            written = self.sql[stopped.start : stopped.end + 1]
            if start is not None:
                said = " ".join(word for word in clause if word.isupper() or word in ("?", "@"))
                message, token = f"{said} is not known here: {CLAUSES_NOT_KNOWN[clause]}", start
            elif message.startswith("Invalid expression"):
                message = f"{written!r} is no part of a statement that is known here"
            elif message.startswith("Expecting"):
                message = f"{message.replace('Expecting', 'Expected')}, and not {written!r}"
            elif message.startswith("Required") and written.isalpha() and stopped.token_type != TokenType.VAR:
                message = f"{written.upper()} is a word of SQL, and no value: as a name it stands in back quotes"
        if token is None:
            super().raise_error(message)
        else:
            super().raise_error(message, token)

    def _stopped_in(self) -> tuple[tuple[str, ...], Token | None]:
        """The clause at which the parser stopped, in the midst of which, or right behind which, and its first word."""
        for start in range(self._index, max(-1, self._index - _WORDS_BEFORE - 1), -1):
            for clause in CLAUSES_NOT_KNOWN:
                end = self._end_of(clause, start)
                if end is not None and end >= self._index:
                    return clause, self._tokens[start + (clause[0] == ")")]
        return (), None

    def _end_of(self, clause: Sequence[str], place: int) -> int | None:
        """Behind which token a clause ends that begins at one, None if none does. "…" stands for some tokens, "'" for a text, "$"
        for the end of the statement.
        """
        for word in clause:
            token = self._tokens[place] if place < len(self._tokens) else None
            kind = token.token_type if token else TokenType.SEMICOLON
            if word == "…":
                following = [each.text.upper() for each in self._tokens[place : place + _LONGEST_GAP]]
                if clause[-1] not in following:
                    return None
                place += following.index(clause[-1])
            elif word == "$":
                return place if kind == TokenType.SEMICOLON else None
            elif word == "'":
                if kind != TokenType.STRING:
                    return None
                place += 1
            elif token is None or kind in (TokenType.STRING, TokenType.IDENTIFIER) or token.text.upper() != word:
                return None
            else:
                place += 1
        return place

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
