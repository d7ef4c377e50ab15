"""What can be told of a lineage database from its options alone: its kind, its driver, and what to call it in a message."""

import re
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
_PORTS = 65536


def kind_of(options: Mapping[str, str]) -> str:
    """The kind of database that `jdbc.url` names: a key of DIALECTS. Raises InvalidRequest for any other, or without its
    driver.
    """
    text = options.get("jdbc.url", "")
    if not text:
        raise InvalidRequest("Lineage needs a database: set 'jdbc.url', for example jdbc:sqlite:/data/lineage.db.")
    kind = _kind(text, "'jdbc.url'")
    _, module, extra = DIALECTS[kind]
    if find_spec(module) is None:
        raise InvalidRequest(
            f"A lineage database of kind {kind} needs the package {module}: install the extra {extra!r}."
        )
    return kind


def _kind(text: str, name: str) -> str:
    kind = text.removeprefix("jdbc:").split(":", 1)[0].split("+")[0]
    if kind not in DIALECTS:
        raise InvalidRequest(
            f"{name} = {named(text)!r}: databases of kind {kind!r} are not supported. "
            f"Supported: {', '.join(sorted(DIALECTS))}."
        )
    return kind


def check_jdbc_url(name: str, url: str) -> None:
    """Raise InvalidRequest, which calls the URL `name`, for one that can lead to no database, or to another one wherever a
    program is started. No database is asked.
    """
    if not url.startswith("jdbc:"):
        raise InvalidRequest(
            f"{name} = {named(url)!r} is no JDBC URL: write jdbc:sqlite:/path or jdbc:postgresql://host/db."
        )
    kind = _kind(url, name)
    rest = url.removeprefix("jdbc:").partition(":")[2]
    if kind == "sqlite":
        if not rest.removeprefix("//").startswith("/"):
            raise InvalidRequest(f"{name} = {named(url)!r} names no file by an absolute path: write jdbc:sqlite:/path.")
        return
    # What stands before the last @ may be a password, of any characters.
    match = re.fullmatch(
        r"//(?:.*@)?(?P<host>\[[^]]*\]|[^@:/?]*)(?::(?P<port>[^/?]*))?([/?].*)?", rest.partition("?")[0]
    )
    port = "" if match is None else match["port"] or "1"
    if match is None or not match["host"] or not (port.isdecimal() and 0 < int(port) < _PORTS):
        raise InvalidRequest(f"{name} = {named(url)!r} cannot be read: write jdbc:{kind}://host:port/database.")


def named(url: str) -> str:
    """A URL without what may be secret: passwords and parameters."""
    # First what a password may hide in: a question mark can be part of it.
    return hidden(url).split("?")[0]
