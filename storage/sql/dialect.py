"""The SQL of the platform: Spark's, with the table definitions, hints and commands of the source documents.

A dialect of sqlglot. Queries become sqlglot's own trees, so that they can be written as Spark's or DuckDB's SQL; what
sqlglot has no tree for becomes one of the classes here. In table definitions types have the names of the format: TIMESTAMP
is without a time zone, TIMESTAMP_LTZ with the local one.
"""

import logging
import re
from functools import partial
from typing import Any, ClassVar

from sqlglot import exp, parser
from sqlglot.dialects.databricks import Databricks
from sqlglot.parsers.databricks import DatabricksParser
from sqlglot.tokens import Token, TokenType

from .added_statements import ADDED
from .called import AS_TYPED, PLAIN, as_typed
from .commands import (
    AnalyzeTable,
    Call,
    CreateCatalog,
    DropCatalog,
    Explain,
    MetadataConstraint,
    ResetOption,
    SetOption,
    UseCatalog,
    WatermarkConstraint,
)
from .not_known import FUNCTIONS_NOT_KNOWN, NOT_KNOWN
from .others_parser import OthersParser
from .parser_base import joined
from .tokenizer import SnaplineTokenizer

# What sqlglot would only warn of, before it leaves a statement unparsed, is refused here.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

# Key of a table's meta data in a tree: the options of its hint.
HINT_OPTIONS = "hint-options"
# Key of the meta data of a number that was written with a suffix, such as 7L: a cast, in a tree.
SUFFIX = "suffix"
_SUFFIXES = set(Databricks.Tokenizer.NUMERIC_LITERALS)
_LONGEST_SHOWN = 60
# What binds less comes first.
_BITWISE = (
    (TokenType.PIPE, exp.BitwiseOr),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.AMP, exp.BitwiseAnd),
)


class _Parser(OthersParser):
    SUPPORTS_TABLE_QUERY = True
    # There is nothing to set in their place, and each engine would do something else with them.
    PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Any]] = {}
    CONSTRAINT_PARSERS: ClassVar[dict[str, Any]] = {
        **DatabricksParser.CONSTRAINT_PARSERS,
        "METADATA": lambda self: self._parse_metadata(),
        "WATERMARK": lambda self: self._parse_watermark(),
    }
    SCHEMA_UNNAMED_CONSTRAINTS: ClassVar[set[str]] = {*DatabricksParser.SCHEMA_UNNAMED_CONSTRAINTS, "WATERMARK"}

    # Texts are joined where numbers are added, from the left.
    TERM: ClassVar[dict[TokenType, Any]] = {**DatabricksParser.TERM, TokenType.DPIPE: partial(exp.DPipe, safe=True)}

    # Whose results sqlglot would change, by what follows them or by parsers of their own: they are written as they are typed.
    FUNCTIONS: ClassVar[dict[str, Any]] = {
        name: build for name, build in DatabricksParser.FUNCTIONS.items() if name not in AS_TYPED
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse for name, parse in DatabricksParser.FUNCTION_PARSERS.items() if name not in PLAIN
    }

    UNARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **DatabricksParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: self._parse_positive(),
    }

    def _parse_positive(self) -> exp.Expr | None:
        """+ before a value, which makes a text a number; before a number it says nothing."""
        this = self._parse_unary()
        inner = this.this if isinstance(this, exp.Neg) else this
        if this is None or (isinstance(inner, exp.Literal) and not inner.is_string):
            return this
        return self.expression(exp.Anonymous(this="positive", expressions=[this]))

    COLUMN_OPERATORS: ClassVar[dict[TokenType, Any]] = {
        **OthersParser.COLUMN_OPERATORS,
        TokenType.DCOLON: lambda self, this, to: self._build_suffixed(this, to),
    }

    def _build_suffixed(self, this: exp.Expr, to: exp.Expr) -> exp.Expr:
        """`x::type`, and a number with a suffix, which the tokenizer makes that of: `7L` has the digits that are written."""
        node = self.build_cast(strict=self.STRICT_CAST, this=this, to=to)
        if isinstance(this, exp.Literal) and not this.is_string and self._prev.text.upper() in _SUFFIXES:
            node.meta[SUFFIX] = self._prev.text.upper()
        return node

    def _parse_at_time_zone(self, this: exp.Expr | None) -> exp.Expr | None:
        if self._match_text_seq("AT", "TIME", "ZONE"):
            self.raise_error(
                "AT TIME ZONE is not known in Spark's SQL: write from_utc_timestamp(t, 'zone') or to_utc_timestamp",
                self._prev,
            )
        return this

    # --- functions

    def _parse_function_call(self, *arguments: Any, **named: Any) -> exp.Expr | None:
        called: list[str] = self.__dict__.setdefault("_called", [])
        name = self._curr.text if self._curr else ""
        instead = FUNCTIONS_NOT_KNOWN.get(name.lower())
        if instead is not None and self._next and self._next.token_type == TokenType.L_PAREN:
            self.raise_error(f"{name} is not known here: {instead}", self._curr)
        called.append(name)
        start = self._curr
        try:
            return super()._parse_function_call(*arguments, **named)
        except (IndexError, KeyError, ValueError, TypeError, AttributeError):
            # Of what makes a tree of a call: it has counted on other arguments.
            self.raise_error(f"{name} does not take these arguments", start)
            return None
        finally:
            called.pop()

    def validate_expression(self, expression: Any, args: Any = None) -> Any:
        """A function as a tree of its own kind if that says what was typed; else by its name and arguments alone."""
        node = super().validate_expression(expression, args)
        if isinstance(node, exp.Distinct) and node.args.get("on") is not None:
            self.raise_error("DISTINCT ON is not known: write QUALIFY row_number() OVER (PARTITION BY …) = 1")
        called = self.__dict__.get("_called")
        if args is None or not called or not isinstance(node, exp.Expr):
            return node
        return as_typed(node, called[-1], args, self.dialect)

    # --- statements

    def _parse_statement(self) -> exp.Expr | None:
        start = self._index
        for words, parse in _STATEMENTS.items():
            if self._match_text_seq(*words):
                parsed: exp.Expr | None = getattr(self, parse)()
                if parsed is not None:
                    return parsed
                self._retreat(start)
        for words, added in ADDED.items():
            if self._match_text_seq(*words):
                return self._parse_added(added)
        for words, advice in NOT_KNOWN.items():
            if self._match_text_seq(*words):
                self.raise_error(f"{' '.join(words)} is not known here: {advice}", self._tokens[start])
        statement = super()._parse_statement()
        if statement is not None and not isinstance(statement, _KNOWN):
            self._refuse_known_to_spark(start)
            self.raise_error(
                f"{self._tokens[start].text!r} begins no statement that is known here", self._tokens[start]
            )
        return statement

    # --- clauses of other systems, which plain Spark does not have

    def _parse_alias(self, this: exp.Expr | None, explicit: bool = False) -> exp.Expr | None:
        start = self._index
        alias = super()._parse_alias(this, explicit)
        self._refuse_bare_as(start)
        if isinstance(alias, exp.Alias) and self._index > start and self._prev.token_type == TokenType.STRING:
            self.raise_error("A name stands in back quotes; in quotes it is a text", self._prev)
        return alias

    def _parse_table_alias(self, *arguments: Any, **named: Any) -> Any:
        start = self._index
        if self._is(TokenType.ALIAS) and self._next and self._next.token_type == TokenType.STRING:
            self.raise_error("A name stands in back quotes; in quotes it is a text", self._next)
        alias = super()._parse_table_alias(*arguments, **named)
        self._refuse_bare_as(start)
        return alias

    def _refuse_bare_as(self, start: int) -> None:
        if self._index > start and self._prev.token_type == TokenType.ALIAS and self._prev.text.upper() == "AS":
            self.raise_error("Expected a name after AS", self._prev)

    def _parse_in(self, *arguments: Any, **named: Any) -> exp.In:
        start = self._curr
        condition = super()._parse_in(*arguments, **named)
        if not any(condition.args.get(key) for key in ("expressions", "query", "unnest", "field")):
            self.raise_error("IN takes one value at the least", start)
        return condition

    def _parse_between(self, *arguments: Any, **named: Any) -> exp.Between:
        condition = super()._parse_between(*arguments, **named)
        if condition.args.get("symmetric") is not None:
            self.raise_error("BETWEEN SYMMETRIC and ASYMMETRIC are not known: write the lower value first", self._prev)
        return condition

    def _parse_limit(self, *arguments: Any, **named: Any) -> exp.Expr | None:
        start = self._curr
        limit = super()._parse_limit(*arguments, **named)
        if isinstance(limit, exp.Fetch):
            self.raise_error("FETCH is not known: write LIMIT n", start)
        if isinstance(limit, exp.Limit):
            if limit.args.get("offset") is not None:
                self.raise_error("LIMIT takes one number: write LIMIT n OFFSET m", start)
            if limit.args.get("limit_options") is not None or limit.expressions:
                self.raise_error("LIMIT takes a number of rows, and nothing else", start)
        return limit

    def _parse_bitwise(self) -> exp.Expr | None:
        """Each operator by its rank in Spark: shifts before &, & before ^, ^ before |."""
        return self._ranked(0)

    def _ranked(self, rank: int) -> exp.Expr | None:
        if rank == len(_BITWISE):
            return self._shifted()
        this = self._ranked(rank + 1)
        token, kind = _BITWISE[rank]
        while self._match(token):
            this = self.expression(kind(this=this, expression=self._ranked(rank + 1)))
        return this

    def _shifted(self) -> exp.Expr | None:
        this = self._parse_term()
        while True:
            if self._match_pair(TokenType.LT, TokenType.LT):
                this = self.expression(exp.BitwiseLeftShift(this=this, expression=self._parse_term()))
            elif (
                self._is(TokenType.GT)
                and [token.token_type for token in self._tokens[self._index : self._index + 3]] == [TokenType.GT] * 3
            ):
                self._advance(3)
                this = exp.Anonymous(this="shiftrightunsigned", expressions=[this, self._parse_term()])
            elif self._match_pair(TokenType.GT, TokenType.GT):
                this = self.expression(exp.BitwiseRightShift(this=this, expression=self._parse_term()))
            else:
                return this

    def _parse_create_catalog(self) -> exp.Expr:
        exists = self._if("NOT", "EXISTS")
        name = self._name()
        options = self._options() if self._match_text_seq("WITH") else []
        return self.expression(CreateCatalog(this=name, exists=exists, options=options))

    def _parse_drop_catalog(self) -> exp.Expr:
        exists = self._if("EXISTS")
        return self.expression(DropCatalog(this=self._name(), exists=exists))

    def _parse_use_catalog(self) -> exp.Expr:
        return self.expression(UseCatalog(this=self._name()))

    def _parse_analyze_statement(self) -> exp.Expr:
        if not self._match_text_seq("TABLE"):
            self.raise_error("ANALYZE takes one table: ANALYZE TABLE t COMPUTE STATISTICS", self._prev)
        table = self._table()
        if self._is(TokenType.PARTITION):
            self.raise_error("ANALYZE TABLE … PARTITION is not known: the format has statistics of whole tables alone")
        if not self._match_text_seq("COMPUTE", "STATISTICS"):
            self.raise_error("Expected COMPUTE STATISTICS")
        if self._match_text_seq("NOSCAN"):
            self.raise_error("ANALYZE TABLE … NOSCAN is not known: the rows are counted. Leave it out", self._prev)
        all_columns, columns = False, None
        if self._match_text_seq("FOR"):
            all_columns = bool(self._match_text_seq("ALL", "COLUMNS"))
            if not all_columns:
                if not self._match_text_seq("COLUMNS"):
                    self.raise_error("Expected COLUMNS a, b or ALL COLUMNS")
                columns = self._parse_csv(self._name)
        return self.expression(AnalyzeTable(this=table, columns=columns, all_columns=all_columns))

    def _parse_replace_table(self) -> exp.Expr | None:
        """REPLACE TABLE …: CREATE OR REPLACE of a table that is there."""
        self._retreat(self._index - 1)
        create: exp.Expr | None = self._parse_create()
        if create is not None:
            create.set("must_exist", True)
        return create

    def _parse_call(self) -> exp.Expr:
        parts = [self._name()]
        while self._match(TokenType.DOT):
            parts.append(self._name())
        self._match_l_paren()
        arguments = []
        while self._curr and self._curr.token_type != TokenType.R_PAREN:
            name = None
            if self._next and self._next.token_type in (TokenType.FARROW, TokenType.COLON_EQ):
                name = self._name().name
                self._advance()
            value = self._parse_disjunction()
            if value is None:
                self.raise_error("Expected a value")
            arguments.append((name, value))
            if not self._match(TokenType.COMMA):
                break
        self._match_r_paren()
        return self.expression(Call(this=".".join(part.name for part in parts), expressions=arguments))

    def _parse_explain(self) -> exp.Expr:
        mode = None
        if not self._match_text_seq("PLAN", "FOR") and self._match_texts(_EXPLAIN_MODES):
            mode = self._prev.text.upper()
        return self.expression(Explain(this=self._parse_statement(), mode=mode))

    def _parse_set_option(self) -> exp.Expr:
        if not self._curr or self._curr.token_type == TokenType.SEMICOLON:
            return self.expression(SetOption())
        start = self._curr
        if len(self._texts_side_by_side()) > 1:
            self.raise_error("SET takes a key and a value with = between them: SET 'key' = 'value'", start)
        key = self._text()
        if " " in key and start.token_type != TokenType.STRING:
            self.raise_error(
                "SET takes a key and a value: SET 'key' = 'value'. Times are UTC, and there are no variables", start
            )
        value = self._value("RESET 'key' takes a setting back") if self._match(TokenType.EQ) else None
        return self.expression(SetOption(this=key, value=value))

    def _parse_reset(self) -> exp.Expr:
        key = self._text() if self._curr and self._curr.token_type != TokenType.SEMICOLON else None
        return self.expression(ResetOption(this=key))

    # --- parts of other statements

    def _parse_create(self, *arguments: Any, **named: Any) -> Any:
        if self._curr and self._curr.token_type == TokenType.COMMA:
            self.raise_error("Expected what is to be created", self._curr)
        return super()._parse_create(*arguments, **named)

    def _parse_csv(self, *arguments: Any, **named: Any) -> Any:
        if self._curr and self._curr.token_type == TokenType.COMMA:
            self.raise_error("Expected something before the comma", self._curr)
        parsed = super()._parse_csv(*arguments, **named)
        # What looked like types may be something else, if they do not end here.
        of_types = self.__dict__.get("_in_types") and not self._is(TokenType.R_PAREN)
        if self._prev and self._prev.token_type == TokenType.COMMA and not of_types:
            self.raise_error("Expected something after the comma", self._prev)
        return parsed

    def _parse_types(self, *arguments: Any, **named: Any) -> Any:
        before = self.__dict__.get("_in_types", False)
        self.__dict__["_in_types"] = True
        try:
            return super()._parse_types(*arguments, **named)
        finally:
            self.__dict__["_in_types"] = before

    def _parse_metadata(self) -> exp.Expr:
        key = self._text() if self._match_text_seq("FROM") else None
        return MetadataConstraint(this=key, virtual=bool(self._match_text_seq("VIRTUAL")))

    def _parse_watermark(self) -> exp.Expr:
        if not self._match_text_seq("FOR"):
            self.raise_error(
                "WATERMARK FOR column AS expression; a column of that name stands in back quotes", self._prev
            )
        column = self._name()
        if not self._match_text_seq("AS"):
            self.raise_error("Expected AS")
        return self.expression(WatermarkConstraint(this=column, expression=self._parse_disjunction()))

    def _parse_primary_key(self, *arguments: Any, **named: Any) -> Any:
        primary_key = super()._parse_primary_key(*arguments, **named)
        self._match_text_seq("NOT", "ENFORCED")
        # Whether the key is enforced has one answer; what stands beside is left for who reads the tree to refuse.
        primary_key.set(
            "options",
            [argument for argument in primary_key.args.get("options") or () if argument != "NOT ENFORCED"] or None,
        )
        if primary_key.args.get("include") is not None and not any(primary_key.args["include"].args.values()):
            primary_key.set("include", None)
        return primary_key

    def _parse_table_parts(self, *arguments: Any, **named: Any) -> Any:
        # Before the table (INSERT INTO /*+ … */ t) or behind it.
        options = self._hint_options()
        table = super()._parse_table_parts(*arguments, **named)
        options += self._hint_options()
        if options and table is not None:
            table.meta[HINT_OPTIONS] = options
        return table

    def _hint_options(self) -> list[tuple[str, str]]:
        if not self._curr or self._curr.token_type != TokenType.HINT:
            return []
        tokens = SnaplineSql().tokenize(self._curr.text.removeprefix("/*+").removesuffix("*/"))
        texts = [token.text for token in tokens if token.token_type == TokenType.STRING]
        kinds = [token.token_type for token in tokens]
        shape = [TokenType.STRING, TokenType.EQ, TokenType.STRING, TokenType.COMMA] * (len(texts) // 2)
        if tokens[0].text.upper() != "OPTIONS" or kinds[1:] != [TokenType.L_PAREN, *shape[:-1], TokenType.R_PAREN]:
            self.raise_error("A hint of a table is OPTIONS('key' = 'value', …)")
        for number in range(len(texts) // 2):
            self._refuse_twice(texts[: 2 * number + 1 : 2])
        self._advance()
        return list(zip(texts[::2], texts[1::2], strict=True))

    def _parse_version(self) -> Any:
        """[FOR] VERSION AS OF 3 | tag | 'tag' | branch.tag | branch-name.tag-name, [FOR] TIMESTAMP AS OF moment"""
        start = self._index
        self._match_text_seq("FOR")
        if self._match_texts(("VERSION", "SYSTEM_VERSION")) and self._match_text_seq("AS", "OF"):
            words: list[Token] = []
            while (
                self._curr
                and (not words or words[-1].end + 1 == self._curr.start)
                and self._curr.token_type in _VERSION_TOKENS
            ):
                words.append(self._curr)
                self._advance()
            if not words or (
                len(words) == 1 and words[0].token_type in (TokenType.NULL, TokenType.TRUE, TokenType.FALSE)
            ):
                self.raise_error("Expected a snapshot id, a tag, or branch.tag")
            version = exp.Literal.string(joined(words))
            return self.expression(exp.Version(this="VERSION", kind="AS OF", expression=version))
        if self._match_texts(("TIMESTAMP", "SYSTEM_TIME")) and self._match_text_seq("AS", "OF"):
            return self.expression(exp.Version(this="TIMESTAMP", kind="AS OF", expression=self._parse_bitwise()))
        self._retreat(start)
        return super()._parse_version()


_STATEMENTS = {
    ("COPY",): "_parse_copy_statement",
    ("INSERT", "OVERWRITE", "DIRECTORY"): "_parse_export_directory",
    ("INSERT", "OVERWRITE", "LOCAL", "DIRECTORY"): "_parse_export_directory",
    ("CREATE", "CATALOG"): "_parse_create_catalog",
    ("DROP", "CATALOG"): "_parse_drop_catalog",
    ("USE", "CATALOG"): "_parse_use_catalog",
    ("REPLACE", "TABLE"): "_parse_replace_table",
    ("ANALYZE",): "_parse_analyze_statement",
    ("COMMENT", "ON", "TABLE"): "_parse_comment_on_table",
    ("SHOW",): "_parse_show_statement",
    ("DESCRIBE",): "_parse_describe_statement",
    ("DESC",): "_parse_describe_statement",
    ("ALTER", "TABLE"): "_parse_alter_table_statement",
    ("ALTER", "VIEW"): "_parse_alter_view_statement",
    ("CALL",): "_parse_call",
    ("EXPLAIN",): "_parse_explain",
    ("SET",): "_parse_set_option",
    ("RESET",): "_parse_reset",
}


_EXPLAIN_MODES = ("EXTENDED", "FORMATTED", "CODEGEN", "COST")
_VERSION_TOKENS = {
    *parser.Parser.ID_VAR_TOKENS,
    TokenType.VAR,
    TokenType.IDENTIFIER,
    TokenType.STRING,
    TokenType.NUMBER,
    TokenType.DOT,
    TokenType.DASH,
}


_KNOWN = (
    # What separates statements is one by itself if a comment follows it.
    exp.Semicolon,
    exp.Query,
    exp.Values,
    exp.Create,
    exp.Drop,
    exp.Use,
    exp.TruncateTable,
    exp.Insert,
    exp.Delete,
    exp.Update,
    exp.Merge,
)


class SnaplineSql(Databricks):
    """The dialect; queries are written as Spark's SQL."""

    Tokenizer = SnaplineTokenizer
    Parser = _Parser


class _HeldParser(_Parser):
    REFUSES_CASTS = False


class HeldSql(SnaplineSql):
    """The dialect of expressions that tables hold, those of other writers too: TIMESTAMP(3) is a type there."""

    Parser = _HeldParser


# What a table is called while a statement runs, beside what it was called in the statement.
_NAMES_OF_VIEWS = re.compile(r"__snapline_\d+_\d+ AS ")


def shown(node: exp.Expr) -> str:
    """The beginning of a part of a statement, as it may have been written."""
    try:
        text = node.sql(SnaplineSql)
    except Exception:
        # What writes SQL fails in any way over a tree that it was not made for.
        text = ""
    text = _NAMES_OF_VIEWS.sub("", text) or node.key.upper()
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
