"""Types and casts, as they are written."""

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokens import TokenType

from .unparsed import UnparsedParser
from .written_types import REQUIRED, as_written, refusal

# What takes types without names: fields of structs have NOT NULL among their constraints.
_OF_ELEMENTS = (TokenType.ARRAY, TokenType.MAP)


class TypeParser(UnparsedParser):
    """Parses types; casts to those that cannot be as they are written are refused."""

    REFUSES_CASTS: ClassVar[bool] = True

    def _parse_types(self, *arguments: Any, **named: Any) -> Any:
        start = self._index
        around = self.__dict__.get("_type_around")
        self.__dict__["_type_around"] = self._curr.token_type if self._curr else None
        try:
            kind = super()._parse_types(*arguments, **named)
        finally:
            self.__dict__["_type_around"] = around
        if isinstance(kind, exp.DataType) and self._index > start:
            kind = as_written(kind, self._tokens[start : self._index])
            if around in _OF_ELEMENTS and self._match_text_seq("NOT", "NULL"):
                kind.meta[REQUIRED] = True
        return kind

    def _parse_struct_types(self, *arguments: Any, **named: Any) -> Any:
        around = self.__dict__.get("_type_around")
        self.__dict__["_type_around"] = TokenType.STRUCT
        try:
            return super()._parse_struct_types(*arguments, **named)
        finally:
            self.__dict__["_type_around"] = around

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
