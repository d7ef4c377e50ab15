"""Types and casts, as they are written."""

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokens import TokenType

from .unparsed import UnparsedParser
from .written_types import as_written, refusal


class TypeParser(UnparsedParser):
    """Parses types; casts to those that cannot be as they are written are refused."""

    REFUSES_CASTS: ClassVar[bool] = True

    def _parse_types(self, *arguments: Any, **named: Any) -> Any:
        start = self._index
        kind = super()._parse_types(*arguments, **named)
        if isinstance(kind, exp.DataType) and self._index > start:
            return as_written(kind, self._tokens[start : self._index])
        return kind

    def build_cast(self, strict: bool, **kwargs: Any) -> exp.Expr:
        """A cast. Raises ParseError for a type that cannot be as it is written."""
        to = kwargs.get("to")
        for kind in to.find_all(exp.DataType) if self.REFUSES_CASTS and isinstance(to, exp.DataType) else ():
            is_time = kind.this in exp.DataType.TEMPORAL_TYPES
            if wrong := refusal(kind, stored=is_time and self._defines_columns):
                self.raise_error(wrong, self._prev)
        return super().build_cast(strict, **kwargs)

    @property
    def _defines_columns(self) -> bool:
        """Whether casts are those of computed columns: Flink writes `CAST(t AS TIMESTAMP(3))` there, as of a column."""
        first, *others = self._tokens
        return first.token_type == TokenType.CREATE and all(each.token_type != TokenType.SELECT for each in others)
