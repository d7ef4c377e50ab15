"""The statements that write rows to files: COPY … TO, and INSERT OVERWRITE DIRECTORY."""

from sqlglot import exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.tokens import TokenType

from .alteration_parser import AlterationParser
from .commands import Export
from .tokenizer import SnaplineTokenizer

# A text, or a list of names and texts.
OptionValue = str | tuple[str, ...]
# Some are one token of two words.
_CLAUSES_OF_TABLES = (
    "PARTITIONED",
    "PARTITIONED BY",
    "CLUSTERED",
    "CLUSTERED BY",
    "COMMENT",
    "TBLPROPERTIES",
    "LOCATION",
)


class ExportParser(AlterationParser):
    """Parses exports; the rest is for other parsers."""

    def _parse_copy_statement(self) -> exp.Expr:
        """COPY (query) | table [(column, …)] TO 'path' [[WITH] (key [value], …)]"""
        if self._match(TokenType.L_PAREN):
            query = self._parse_statement()
            self._match_r_paren()
        else:
            query = self._copied_table()
        if not isinstance(query, exp.Query | exp.Values):
            self.raise_error("COPY takes a table, or a SELECT in parentheses", self._prev)
        if self._match_text_seq("FROM"):
            self.raise_error(
                "COPY … FROM is not known here: read the file in an asset, or by `snapline query`", self._prev
            )
        if not self._match_text_seq("TO"):
            self.raise_error("Expected TO 'path'")
        path = self._place_in_quotes()
        self._match_text_seq("WITH")
        options: list[tuple[str, OptionValue | None]] = self._copy_options() if self._is(TokenType.L_PAREN) else []
        forms = [value for key, value in options if key.lower() == "format"]
        if len(forms) > 1 or not all(isinstance(form, str) for form in forms):
            self.raise_error("Expected one format: FORMAT parquet, csv or json", self._prev)
        left = [option for option in options if option[0].lower() != "format"]
        return self.expression(Export(this=query, path=path, form=forms[0] if forms else None, options=left))

    def _copied_table(self) -> exp.Expr:
        table = self._table()
        version = self._parse_version()
        if version is not None:
            table.set("version", version)
        columns: list[exp.Expr] = [exp.Star()]
        if self._match(TokenType.L_PAREN):
            columns = [exp.column(each.copy()) for each in self._parse_csv(self._name)]
            self._match_r_paren()
        return exp.select(*columns).from_(table, copy=False)

    def _parse_export_directory(self) -> exp.Expr:
        """INSERT OVERWRITE [LOCAL] DIRECTORY ['path'] USING format [OPTIONS (key [=] value, …)] query"""
        is_local = self._tokens[self._index - 2].text.upper() == "LOCAL"
        path = self._place_in_quotes() if self._is(TokenType.STRING) else None
        if not self._match_text_seq("USING"):
            self.raise_error(
                "Expected USING parquet, csv or json. ROW FORMAT and STORED AS, which are Hive's, are not known"
            )
        form = self._name().name
        options: list[tuple[str, str | None]] = list(self._spark_options()) if self._match_text_seq("OPTIONS") else []
        named = [value for key, value in options if key.lower() == "path"]
        if bool(named) == (path is not None) or len(named) > 1:
            self.raise_error("The directory is named once: DIRECTORY 'path', or OPTIONS ('path' = '…')", self._prev)
        if self._match_texts(_CLAUSES_OF_TABLES):
            self.raise_error(
                f"{self._prev.text.upper()} is not known here: the rows go into one file. Leave it out", self._prev
            )
        query = self._parse_statement()
        if not isinstance(query, exp.Query | exp.Values):
            self.raise_error("INSERT OVERWRITE DIRECTORY takes a SELECT", self._prev)
        return self.expression(
            Export(
                this=query,
                path=path or named[0],
                form=form,
                options=[option for option in options if option[0].lower() != "path"],
                as_spark=True,
                is_local=is_local,
            )
        )

    def _place_in_quotes(self) -> str:
        if not self._is(TokenType.STRING):
            self.raise_error("Expected a path in quotes")
        return self._text()

    def _copy_options(self) -> list[tuple[str, OptionValue | None]]:
        """(key [value | (value, …) | *], …)"""
        self._match_l_paren()
        options: list[tuple[str, OptionValue | None]] = []
        while True:
            key = self._option_key()
            if self._match(TokenType.L_PAREN):
                options.append((key, tuple(self._parse_csv(self._option_value))))
                self._match_r_paren()
            elif self._match(TokenType.STAR):
                options.append((key, ("*",)))
            else:
                value = None if self._is(TokenType.COMMA) or self._is(TokenType.R_PAREN) else self._option_value()
                options.append((key, value))
            self._refuse_twice([each.lower() for each, _ in options])
            if not self._match(TokenType.COMMA):
                break
        self._match_r_paren()
        return options

    def _spark_options(self) -> list[tuple[str, str]]:
        """(key [=] value, …)"""
        self._match_l_paren()
        options: list[tuple[str, str]] = []
        while True:
            parts = self._texts_side_by_side()
            if len(parts) == 2:
                # A text behind a text is its value.
                self._advance()
                options.append((parts[0], parts[1]))
            else:
                key = self._option_key()
                self._match(TokenType.EQ)
                if len(parts) > 1 or len(self._texts_side_by_side()) > 1:
                    self.raise_error("Expected one text as an option and one as its value")
                options.append((key, self._option_value()))
            self._refuse_twice([each.lower() for each, _ in options])
            if not self._match(TokenType.COMMA):
                break
        self._match_r_paren()
        return options

    def _texts_side_by_side(self) -> list[str]:
        """The literals that the next token, which is one text, was made of."""
        if not self._is(TokenType.STRING) or self._curr is None:
            return []
        cut = Databricks.Tokenizer.tokenize
        tokenizer = SnaplineTokenizer(dialect=self.dialect)
        return [each.text for each in cut(tokenizer, self.sql[self._curr.start : self._curr.end + 1])]

    def _option_key(self) -> str:
        if self._is(TokenType.STRING):
            return self._text()
        return self._name().name

    def _option_value(self) -> str:
        """A text in quotes, a number, or one word."""
        if not self._curr or self._curr.token_type in (
            TokenType.COMMA,
            TokenType.R_PAREN,
            TokenType.L_PAREN,
            TokenType.STAR,
            TokenType.SEMICOLON,
        ):
            self.raise_error("Expected a value of the option: a text in quotes, a number, or a word")
        self._advance()
        return self._prev.text
