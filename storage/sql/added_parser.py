"""Statements that packages add, as the calls that they stand for."""

from sqlglot import exp
from sqlglot.tokens import TokenType

from .added_statements import AddedStatement
from .commands import Call
from .show_parser import ShowParser


class AddedParser(ShowParser):
    """The parser with what packages add to it."""

    def _parse_added(self, statement: AddedStatement) -> exp.Expr:
        """The call that a statement of a package stands for, once its first words are read."""
        arguments: list[tuple[str, exp.Expr]] = []
        for place, clause in enumerate(statement.clauses):
            if place and clause.words and not self._match_text_seq(*clause.words):
                if not clause.is_optional:
                    self.raise_error(f"Expected {' '.join(clause.words)}")
            else:
                value = exp.true() if clause.is_flag else self._parse_argument()
                arguments.append((clause.parameter, value))
        return self.expression(Call(this=statement.procedure, expressions=arguments))

    def _parse_argument(self) -> exp.Expr:
        """A constant, or names, which are a text."""
        if not self._curr or self._is(TokenType.SEMICOLON):
            self.raise_error("Expected a value")
        if self._curr.token_type not in self.ID_VAR_TOKENS or self._curr.text.upper() == "ARRAY":
            value = self._parse_unary()
            if value is None:
                self.raise_error("Expected a value")
            assert value is not None
            return value
        names: list[str] = []
        while not names or self._match(TokenType.COMMA):
            parts = [self._name().name]
            while self._match(TokenType.DOT):
                parts.append(self._name().name)
            names.append(".".join(parts))
        return exp.Literal.string(",".join(names))
