"""What can be told of a lineage database from its options alone: its kind, its driver, and what to call it in a message."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import unquote

from storage import InvalidRequest, hidden

from .url_parameters import login_and_parameters

# SQLAlchemy's name of each kind, the module that talks to it, and the extra that brings the module.
DIALECTS = {
    "postgresql": ("postgresql+psycopg", "psycopg", "postgres"),
    "mysql": ("mysql+pymysql", "pymysql", "mysql"),
    "mariadb": ("mysql+pymysql", "pymysql", "mysql"),
    "sqlite": ("sqlite", "sqlite3", ""),
}
_PORTS = 65536
DEFAULT_DATABASE = "paimon"
# Of PostgreSQL, and of the others.
_PORT_OF = {True: 5432, False: 3306}
# The option that says what gave the URL, so that messages can name it. Nobody outside sets it.
URL_SETTING = "jdbc.url.setting"


def url_setting(options: Mapping[str, str]) -> str:
    """What gave the URL, as messages name it."""
    return options.get(URL_SETTING, "'jdbc.url'")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a database server is, and who asks it what. `parameters`: those of the driver, in its own words."""

    host: str
    port: int | None
    database: str
    user: str | None
    password: str | None
    parameters: Mapping[str, str]


def kind_of(options: Mapping[str, str]) -> str:
    """The kind of database that `jdbc.url` names: a key of DIALECTS. Raises InvalidRequest for any other, or without its
    driver.
    """
    text = options.get("jdbc.url", "")
    if not text:
        raise InvalidRequest(
            f"Lineage needs a database: set {url_setting(options)}, for example jdbc:sqlite:/data/lineage.db."
        )
    kind = _kind(text, url_setting(options))
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
    if kind == "sqlite":
        _check_sqlite(name, url, url.removeprefix("jdbc:").partition(":")[2])
    else:
        server_address(name, url)


def _check_sqlite(name: str, url: str, rest: str) -> None:
    if not rest.removeprefix("//").startswith("/"):
        raise InvalidRequest(f"{name} = {named(url)!r} names no file by an absolute path: write jdbc:sqlite:/path.")
    if "?" in rest.rpartition("/")[2]:
        raise InvalidRequest(f"{name} = {named(url)!r} has parameters: a database of SQLite takes none here.")


def server_address(name: str, url: str) -> ServerAddress:
    """What the URL of a database server says. Raises InvalidRequest, which calls the URL `name`."""
    kind, _, rest = url.removeprefix("jdbc:").partition(":")
    address, _, query = rest.partition("?")
    # What stands before the last @ may be a password, of any characters.
    match = re.fullmatch(
        r"//(?:(?P<login>.*)@)?(?P<host>\[[^]]*\]|[^@:/?]*)(?::(?P<port>[^/?]*))?(?P<path>/.*)?", address
    )
    port = "" if match is None else match["port"] or "1"
    if match is None or not match["host"] or not (port.isdecimal() and 0 < int(port) < _PORTS):
        raise InvalidRequest(f"{name} = {named(url)!r} cannot be read: write jdbc:{kind}://host:port/database.")
    login, parameters = login_and_parameters(name, kind.split("+")[0], query)
    user, _, password = (match["login"] or "").partition(":")
    return ServerAddress(
        match["host"].strip("[]"),
        int(match["port"]) if match["port"] else None,
        (match["path"] or "").strip("/"),
        login.get("user", unquote(user) or None),
        login.get("password", unquote(password) or None),
        parameters,
    )


def is_of_server(url: str) -> bool:
    """Whether a checked JDBC URL leads to a database server, which all hosts share, and not to a file of one of them."""
    return _kind(url, "jdbc.url") != "sqlite"


def server_database(options: Mapping[str, str]) -> tuple[str, str, int, str]:
    """What tells the database apart that options lead to, whoever asks it: kind, host, port, name. Raises InvalidRequest."""
    kind, setting = _kind(options["jdbc.url"], url_setting(options)), url_setting(options)
    address = server_address(setting, options["jdbc.url"])
    database = address.database or options.get("jdbc.database", DEFAULT_DATABASE)
    is_postgresql = kind == "postgresql"
    return "postgresql" if is_postgresql else "mysql", address.host, address.port or _PORT_OF[is_postgresql], database


def on_same_server(name: str, url: str, database: str) -> str:
    """The URL of another database on the server of `url`, for the same user, with the same parameters. Raises InvalidRequest,
    which calls the URL `name`.
    """
    address, mark, query = url.partition("?")
    own = server_address(name, url).database
    server = address.rstrip("/").removesuffix(f"/{own}" if own else "")
    return f"{server}/{database}{mark}{query}"


def named(url: str) -> str:
    """A URL without what may be secret: passwords and parameters."""
    # First what a password may hide in: a question mark can be part of it.
    return hidden(url).split("?")[0]
