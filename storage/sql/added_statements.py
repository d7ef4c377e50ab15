"""Statements that packages add: the words of each, where its values stand, and the procedure that it calls.

A pattern such as `PEEK TABLE table [ROWS rows] [DEEP]`: upper-case words are typed as they are, lower-case ones are parameters of
the procedure, and what stands in brackets may be left out. A bracket of words alone is a flag, named by its last word.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..errors import InvalidRequest

# What the statements of the platform begin with.
FIRST_WORDS = {
    "ALTER",
    "ANALYZE",
    "CALL",
    "COMMENT",
    "COPY",
    "CREATE",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DROP",
    "EXPLAIN",
    "FROM",
    "INSERT",
    "MERGE",
    "REPLACE",
    "RESET",
    "SELECT",
    "SET",
    "SHOW",
    "TABLE",
    "TRUNCATE",
    "UPDATE",
    "USE",
    "VALUES",
    "WITH",
}
_PATTERN = re.compile(r"[A-Z]+|[a-z][a-z0-9_]*|[\[\]]")


@dataclass(frozen=True)
class Clause:
    """Words that are typed, and the parameter whose value follows them; `is_flag`: the words are the value."""

    words: tuple[str, ...]
    parameter: str
    is_optional: bool = False
    is_flag: bool = False


@dataclass(frozen=True)
class AddedStatement:
    """A statement and the procedure that it calls, by its name."""

    procedure: str
    clauses: tuple[Clause, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """What it begins with."""
        return self.clauses[0].words


ADDED: dict[tuple[str, ...], AddedStatement] = {}


def know_statements(statements: Iterable[AddedStatement]) -> None:
    """Let the parser know statements, and forget those of before."""
    ADDED.clear()
    ADDED.update({statement.words: statement for statement in statements})


def read_pattern(pattern: str, procedure: str, required: Mapping[str, bool], flags: Collection[str]) -> AddedStatement:
    """A statement from its pattern. `required`: the parameters of the procedure, and whether each has to be given; `flags`: those
    that are one. Raises InvalidRequest for a pattern that is none, or does not fit the parameters.
    """
    where = f"The statement {pattern!r} of {procedure!r}"
    parts = _PATTERN.findall(pattern)
    if "".join(parts) != "".join(pattern.split()):
        raise InvalidRequest(
            f"{where}: upper-case words, lower-case names of parameters and brackets make a statement."
        )
    clauses = list(_clauses(parts, where))
    if not clauses or not clauses[0].words or clauses[0].is_optional:
        raise InvalidRequest(f"{where} has to begin with an upper-case word, and a parameter has to follow.")
    if clauses[0].words[0] in FIRST_WORDS:
        raise InvalidRequest(
            f"{where}: {clauses[0].words[0]} begins statements of the platform. Begin with another word."
        )
    named = [clause.parameter for clause in clauses]
    for clause in clauses:
        if clause.parameter not in required or named.count(clause.parameter) > 1:
            raise InvalidRequest(
                f"{where}: {clause.parameter!r} is no parameter, or is there twice. Parameters: {list(required)}."
            )
        if clause.is_flag != (clause.parameter in flags):
            raise InvalidRequest(f"{where}: {clause.parameter!r} is {'no' if clause.is_flag else 'a'} flag.")
        if clause.is_optional and required[clause.parameter]:
            raise InvalidRequest(f"{where}: {clause.parameter!r} has to be given; it cannot stand in brackets.")
    if missing := [name for name, is_needed in required.items() if is_needed and name not in named]:
        raise InvalidRequest(f"{where}: {missing} have to be given and are left out.")
    return AddedStatement(procedure, tuple(clauses))


def _clauses(parts: list[str], where: str) -> Iterable[Clause]:
    words: list[str] = []
    inside = False
    for part in parts:
        if part == "[" and not inside and not words:
            inside = True
        elif part == "]" and inside:
            if words:
                yield Clause(tuple(words), words[-1].lower(), True, True)
            words, inside = [], False
        elif part.isupper():
            words.append(part)
        elif part in "[]" or (inside and not words):
            raise InvalidRequest(f"{where}: a bracket holds words, and behind them one parameter at most.")
        else:
            yield Clause(tuple(words), part, inside)
            words = []
    if inside or words:
        raise InvalidRequest(f"{where}: {'a bracket is not closed' if inside else f'no parameter follows {words}'}.")
