"""What the parser would take of other systems' SQL and write as something else: refused, with what Spark has in its place."""

from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.parsers.databricks import DatabricksParser
from sqlglot.tokens import TokenType

from .added_parser import AddedParser

_CONDITIONS = (TokenType.BETWEEN, TokenType.ILIKE, TokenType.IN, TokenType.IS, TokenType.LIKE, TokenType.RLIKE)
_ARROWS = (
    TokenType.ARROW,
    TokenType.DARROW,
    TokenType.HASH_ARROW,
    TokenType.DHASH_ARROW,
    TokenType.PLACEHOLDER,
    TokenType.DOTCOLON,
)
_NO_PART = "look into JSON with get_json_object(s, '$.a'), and into a VARIANT with v:a"
_STARS = {
    "EXCLUDE": "* EXCLUDE is not known in Spark's SQL: write * EXCEPT (a, b)",
    "REPLACE": "* REPLACE is not known in Spark's SQL: write * EXCEPT (a), expression AS a",
    "RENAME": "* RENAME is not known in Spark's SQL: write * EXCEPT (a), a AS b",
}


def _unknown_operator(text: str) -> str:
    return f"{text} is not known in Spark's SQL: {_NO_PART}; for patterns there are LIKE, ILIKE and RLIKE"


class OthersParser(AddedParser):
    """The parser without what Spark's SQL does not have."""

    RANGE_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **dict.fromkeys(
            DatabricksParser.RANGE_PARSERS,
            lambda self, this: self._refuse_before(_unknown_operator(self._prev.text)),
        ),
        **{kind: DatabricksParser.RANGE_PARSERS[kind] for kind in _CONDITIONS},
        TokenType.FOR: lambda self, this: self._refuse_comprehension(this),
    }
    COLUMN_OPERATORS: ClassVar[dict[TokenType, Any]] = {
        **DatabricksParser.COLUMN_OPERATORS,
        **dict.fromkeys(
            _ARROWS, lambda self, this, to: self._refuse_before(f"This is not known in Spark's SQL: {_NO_PART}")
        ),
    }

    # `array[0]` is a part of a column of that name.
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}

    def _refuse_before(self, reason: str) -> NoReturn:
        self.raise_error(reason, self._prev)
        raise AssertionError(reason)

    def _refuse_here(self, reason: str) -> NoReturn:
        self.raise_error(reason, self._curr)
        raise AssertionError(reason)

    def _refuse_comprehension(self, this: exp.Expr | None) -> exp.Expr | None:
        parsed: exp.Expr | None = self._parse_comprehension(this)
        if parsed is not None:
            self._refuse_before(
                "Lists with FOR are not known in Spark's SQL: write transform(a, x -> …) or filter(a, x -> …)"
            )
        return None

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        if self._is(TokenType.L_BRACE):
            self._refuse_here("{…} is not known in Spark's SQL: write named_struct('a', 1), or map('a', 1)")
        if self._is(TokenType.L_BRACKET) and this is None:
            self._refuse_here("[…] is not known in Spark's SQL: write array(1, 2)")
        start = self._curr
        parsed: exp.Expr | None = super()._parse_bracket(this)
        if isinstance(parsed, exp.Bracket) and (
            len(parsed.expressions) != 1 or isinstance(parsed.expressions[0], exp.Slice)
        ):
            self.raise_error("[…] takes one index or key: for a part of an array there is slice(a, 1, 2)", start)
        return parsed

    def _parse_colon_as_variant_extract(self, this: exp.Expr | None) -> exp.Expr | None:
        if self._is(TokenType.COLON) and (this is None or isinstance(this, exp.Literal)):
            self._refuse_here("':' takes a part of a VARIANT, v:a; for a part of an array there is slice(a, 1, 2)")
        return super()._parse_colon_as_variant_extract(this)

    def _parse_types(self, *arguments: Any, **named: Any) -> Any:
        start = self._curr
        parsed = super()._parse_types(*arguments, **named)
        if isinstance(parsed, exp.Cast) and isinstance(parsed.this, exp.Array | exp.Struct):
            self.raise_error("A type takes no values in Spark's SQL: write CAST(array(1) AS ARRAY<INT>)", start)
        return parsed

    def _parse_type(self, *arguments: Any, **named: Any) -> Any:
        """`DATE '2024-05-01'::STRING` is the text of a date, and no date of a text."""
        start = self._index
        parsed = super()._parse_type(*arguments, **named)
        kinds = [token.token_type for token in self._tokens[start + 1 : start + 3]]
        if kinds == [TokenType.STRING, TokenType.DCOLON] and isinstance(parsed, exp.Cast):
            chain = leaf = parsed.this
            while isinstance(leaf, exp.Cast):
                leaf = leaf.this
            if isinstance(leaf, exp.Literal) and leaf is not chain:
                leaf.replace(exp.Cast(this=leaf.copy(), to=parsed.to))
                return chain
        return parsed

    def _negate_range(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """NOT behind a value stands before IN, BETWEEN and the LIKEs; `v NOT NULL` is no condition, and no word of a column."""
        if isinstance(this.this if isinstance(this, exp.Not) else this, exp.Is):
            self._refuse_before(
                "NOT stands behind a value before IN, BETWEEN and LIKE alone: a condition is v IS NOT NULL, and a computed "
                "column takes no NOT NULL"
            )
        negated: exp.Expr | None = super()._negate_range(this)
        return negated

    def _parse_string_as_identifier(self) -> exp.Identifier | None:
        if self._is(TokenType.STRING):
            self._refuse_here("A name stands in back quotes; in quotes it is a text")
        return None

    def _parse_in(self, *arguments: Any, **named: Any) -> exp.In:
        if self._is(TokenType.L_BRACKET):
            self._refuse_here("IN takes values in parentheses, IN (1, 2), or a query")
        condition: exp.In = super()._parse_in(*arguments, **named)
        return condition

    def _parse_star_op(self, *keywords: str) -> list[exp.Expr] | None:
        word = self._curr.text.upper() if self._curr else ""
        if word in keywords and word in _STARS:
            self._refuse_here(_STARS[word])
        parsed: list[exp.Expr] | None = super()._parse_star_op(*keywords)
        return parsed

    def _parse_star_ops(self) -> exp.Expr | None:
        start = self._curr
        star: exp.Expr | None = super()._parse_star_ops()
        if isinstance(star, exp.Star) and star.args.get("ilike") is not None:
            self.raise_error("* ILIKE is not known in Spark's SQL: name the columns", start)
        return star

    def _parse_table_hints(self) -> list[exp.Expr] | None:
        start = self._curr
        hints: list[exp.Expr] | None = super()._parse_table_hints()
        if hints:
            self.raise_error("Hints behind a table are those of other systems: leave it out", start)
        return hints

    def _parse_unnest(self, *arguments: Any, **named: Any) -> Any:
        start = self._curr
        parsed = super()._parse_unnest(*arguments, **named)
        if parsed is not None:
            self.raise_error("UNNEST is not known in Spark's SQL: write LATERAL VIEW explode(a) t AS x", start)
        return parsed

    def _parse_join(self, *arguments: Any, **named: Any) -> Any:
        if self._curr and self._next and self._next.text.upper() == "APPLY":
            word = self._curr.text.upper()
            if word in ("CROSS", "OUTER"):
                instead = "CROSS JOIN LATERAL (…)" if word == "CROSS" else "LEFT JOIN LATERAL (…)"
                self._refuse_here(f"{word} APPLY is not known in Spark's SQL: write {instead}")
        return super()._parse_join(*arguments, **named)

    def _parse_lateral(self) -> exp.Lateral | None:
        """LATERAL VIEW, also without AS before its columns."""
        lateral: exp.Lateral | None = super()._parse_lateral()
        alias = lateral.args.get("alias") if lateral is not None and lateral.args.get("view") else None
        if (
            isinstance(alias, exp.TableAlias)
            and not alias.args.get("columns")
            and (self._is(TokenType.VAR) or self._is(TokenType.IDENTIFIER))
        ):
            alias.set("columns", self._parse_csv(self._parse_id_var))
        return lateral

    def _parse_pipe_syntax_query(self, query: exp.Query) -> exp.Query | None:
        """Each |> works on the rows of the one before, which sqlglot puts into one SELECT."""
        if self._is(TokenType.PIPE_GT):
            self._refuse_here("|> is not known here: write SELECT … FROM (SELECT … FROM t) for each step")
        return query

    def _parse_window(self, *arguments: Any, **named: Any) -> Any:
        words = [token.text.upper() for token in self._tokens[self._index : self._index + 3]]
        if words[:2] == ["FILTER", "("] and words[2:] != ["WHERE"]:
            self._refuse_here("FILTER takes a condition with WHERE: FILTER (WHERE a > 1)")
        return super()._parse_window(*arguments, **named)

    def _parse_table_sample(self, *arguments: Any, **named: Any) -> Any:
        start, first = self._index, self._curr
        sample = super()._parse_table_sample(*arguments, **named)
        if sample is not None:
            words = [token.text.upper() for token in self._tokens[start : self._index]]
            size = sample.args.get("size") is None or "ROWS" in words
            if words[0] == "USING" or sample.args.get("method") is not None or "SEED" in words or not size:
                self.raise_error(
                    "A sample is TABLESAMPLE (10 PERCENT), (10 ROWS) or (BUCKET 1 OUT OF 4), and REPEATABLE (seed) behind it",
                    first,
                )
        return sample

    def validate_expression(self, expression: Any, args: Any = None) -> Any:
        """Raises an error for a node that Spark's SQL cannot say."""
        node = super().validate_expression(expression, args)
        match node:
            case exp.Into():
                self._refuse_before("SELECT … INTO is not known in Spark's SQL: write CREATE TABLE t AS SELECT …")
            case exp.Select() if node.args.get("kind"):
                self._refuse_before(f"SELECT AS {node.args['kind']} is not known in Spark's SQL: write struct(…)")
            case exp.SetOperation() if node.args.get("side") or node.args.get("kind") or node.args.get("on"):
                self._refuse_before("Sets take ALL, DISTINCT and BY NAME in Spark's SQL, and nothing else")
            case exp.CTE() if node.args.get("materialized") is not None:
                self._refuse_before("MATERIALIZED is not known in Spark's SQL: leave it out")
            case exp.Like() | exp.ILike():
                pass
            case exp.Binary() if isinstance(node.args.get("expression"), exp.Any | exp.All):
                self._refuse_before(
                    "ANY and ALL stand behind LIKE alone in Spark's SQL: write x IN (query), or array_contains(a, x)"
                )
        return node
