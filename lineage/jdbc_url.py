"""What can be told of a lineage database from its options alone: its kind, its driver, and what to call it in a message."""

from collections.abc import Mapping
from importlib.util import find_spec

from storage import InvalidRequest, hidden

# SQLAlchemy's name of each kind, the module that talks to it, and the extra that brings the module.
DIALECTS = {
    "postgresql": ("postgresql+psycopg", "psycopg", "postgres"),
    "mysql": ("mysql+pymysql", "pymysql", "mysql"),
    "mariadb": ("mysql+pymysql", "pymysql", "mysql"),
    "sqlite": ("sqlite", "sqlite3", ""),
}


def kind_of(options: Mapping[str, str]) -> str:
    """The kind of database that `jdbc.url` names: a key of DIALECTS. Raises InvalidRequest for any other, or without its
    driver.
    """
    text = options.get("jdbc.url", "")
    if not text:
        raise InvalidRequest("Lineage needs a database: set 'jdbc.url', for example jdbc:sqlite:/data/lineage.db.")
    kind = text.removeprefix("jdbc:").split(":", 1)[0].split("+")[0]
    if kind not in DIALECTS:
        raise InvalidRequest(
            f"'jdbc.url' = {named(text)!r}: databases of kind {kind!r} are not supported. "
            f"Supported: {', '.join(sorted(DIALECTS))}."
        )
    _, module, extra = DIALECTS[kind]
    if find_spec(module) is None:
        raise InvalidRequest(
            f"A lineage database of kind {kind} needs the package {module}: install the extra {extra!r}."
        )
    return kind


def named(url: str) -> str:
    """A URL without what may be secret: passwords and parameters."""
    # First what a password may hide in: a question mark can be part of it.
    return hidden(url).split("?")[0]
