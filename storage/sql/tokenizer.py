"""From SQL text to tokens, as Spark's own lexer cuts it."""

from typing import ClassVar

from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType


class SnaplineTokenizer(Databricks.Tokenizer):
    # Wherever one stands: a hint that nobody reads is an error, and no comment.
    TOKENS_PRECEDING_HINT: ClassVar[set[TokenType]] = set(TokenType)
    # None is left unparsed.
    COMMANDS: ClassVar[set[TokenType]] = set()
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        **{word: kind for word, kind in Databricks.Tokenizer.KEYWORDS.items() if word not in ("ISNULL", "NOTNULL")},
        "ROW": TokenType.STRUCT,
        "BYTES": TokenType.VARBINARY,
    }
    VAR_SINGLE_TOKENS: ClassVar[set[str]] = {*Databricks.Tokenizer.VAR_SINGLE_TOKENS, "$"}
    # A quote that stands twice is a quote, as in Spark 4; in Databricks it would end a text and begin the next.
    STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    def tokenize(self, sql: str) -> list[Token]:
        """The tokens of a text. Literals that stand side by side are one, and raw ones are plain, wherever they stand."""
        tokens: list[Token] = []
        for token in super().tokenize(sql):
            if token.token_type == TokenType.NATIONAL_STRING:
                raise TokenError(
                    f"N'{token.text}' in line {token.line} is no literal that is known here: leave out the N."
                )
            if token.token_type == TokenType.HEX_STRING and sql[token.start : token.start + 1] == "0":
                raise TokenError(
                    f"0x{token.text} in line {token.line} is no number in Spark's SQL: x'{token.text}' are bytes, and a number "
                    "is written with decimal digits."
                )
            if token.token_type == TokenType.NOT:
                # Where words are compared, `!` is the word too: IF ! EXISTS, SET ! NULL.
                token.text = "NOT"
            if token.token_type == TokenType.L_PAREN and tokens and tokens[-1].token_type == TokenType.WINDOW:
                # The function: the clause goes on with a name.
                tokens[-1].token_type = TokenType.VAR
            if token.token_type == TokenType.RAW_STRING:
                token.token_type = TokenType.STRING
            if token.token_type == TokenType.STRING and tokens and tokens[-1].token_type == TokenType.STRING:
                first = tokens[-1]
                tokens[-1] = Token(
                    TokenType.STRING,
                    first.text + token.text,
                    token.line,
                    token.col,
                    first.start,
                    token.end,
                    [*first.comments, *token.comments],
                )
            else:
                tokens.append(token)
        return tokens
