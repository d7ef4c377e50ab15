"""The parameters of a database URL: what the driver does with them, in the driver's own words, or that it does nothing.

The drivers are asked which parameters there are, once a URL has others than a user and a password. JDBC's words for the
same are translated. Whatever else is given is refused by its name: nothing that asks for encryption is passed over.
"""

import difflib
import inspect
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn
from urllib.parse import unquote_plus

from storage import InvalidRequest

_LOGIN = ("user", "password")
_ADDRESS = ("host", "port", "dbname", "database", "db", "PGHOST", "PGPORT", "PGDBNAME")
# Nobody listens there: libpq looks at all values before it finds that out.
_NO_SERVER = "/nonexistent-directory-of-no-server"
_WEAK_SSL_MODES = ("disable", "allow", "prefer")
# Java's words for what libpq has under another name, of the same meaning and unit.
_LIBPQ_NAMES = {
    "ApplicationName": "application_name",
    "channelBinding": "channel_binding",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "gssEncMode": "gssencmode",
    "kerberosServerName": "krbsrvname",
    "requireAuth": "require_auth",
    "sslNegotiation": "sslnegotiation",
}
# And of which the values are others, too.
_LIBPQ_VALUES: dict[str, tuple[str, Mapping[str, str]]] = {
    "tcpKeepAlive": ("keepalives", {"true": "1", "false": "0"}),
    "targetServerType": (
        "target_session_attrs",
        {
            "any": "any",
            "primary": "primary",
            "master": "primary",
            "secondary": "standby",
            "slave": "standby",
            "preferSecondary": "prefer-standby",
            "preferSlave": "prefer-standby",
        },
    ),
}
# Of Java's words those that say something without a value.
_SWITCHES_OF_JAVA = ("ssl", "usessl", "requiressl")
_SWITCHES = ("sslsni", "sslcompression", "gssdelegation", "keepalives")
# The parameters of pymysql that a text or a number says, and that contradict nothing that lineage relies on.
_MYSQL_TEXTS = ("charset", "collation", "sql_mode", "init_command", "unix_socket", "bind_address", "program_name")
_MYSQL_SECONDS = ("connect_timeout", "read_timeout", "write_timeout")
_MYSQL_MILLISECONDS = {"connectTimeout": ("connect_timeout",), "socketTimeout": ("read_timeout", "write_timeout")}
_MYSQL_LONGEST_SECONDS = 31536000
# Java's names of what is UTF-8 to MySQL.
_MYSQL_CHARSETS = {"utf-8": "utf8mb4", "utf8": "utf8mb4"}
# Encryption to MySQL was tried with no server: what asks for it is refused.
_ENCRYPTION = ("ssl", "tls", "verifyservercertificate", "trustservercertificate")
_NO_ENCRYPTION = ("false", "disabled", "disable", "preferred")


def login_and_parameters(setting: str, kind: str, query: str) -> tuple[dict[str, str], dict[str, str]]:
    """Of what stands behind the question mark of a JDBC URL: user and password, and the driver's parameters in its own words.

    `setting`: what gave the URL, for messages. Raises InvalidRequest.
    """
    given = _split(setting, query)
    login = {name: given.pop(name) for name in _LOGIN if name in given}
    return login, _of_mysql(setting, given) if kind in ("mysql", "mariadb") else _of_jdbc_postgresql(setting, given)


def check_libpq_parameters(setting: str, query: str) -> None:
    """Raise InvalidRequest for a parameter of a `postgresql://` URL that libpq does not know, or whose value it does not take."""
    given = _split(setting, query)
    _check_libpq(setting, {name: value for name, value in given.items() if name not in _LOGIN}, jdbc=False)


def _split(setting: str, query: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in query.split("&") if query else ():
        name, equals, value = part.partition("=")
        name = unquote_plus(name)
        if not name.replace("_", "").isalnum() or (not equals and name.lower() not in _SWITCHES_OF_JAVA):
            raise InvalidRequest(
                f"{setting} has a parameter that is no name=value. Its text is not shown: it may be part of a password, in "
                "which & is written as %26."
            )
        if name in given:
            raise InvalidRequest(f"{setting} has the parameter {name!r} more than once: leave all but one out.")
        given[name] = unquote_plus(value)
    return given


def _of_jdbc_postgresql(setting: str, given: Mapping[str, str]) -> dict[str, str]:
    parameters: dict[str, str] = {}

    def add(name: str, value: str, by: str) -> None:
        if name in parameters:
            raise InvalidRequest(f"{setting}: {by!r} and another parameter both mean {name!r}: leave one out.")
        parameters[name] = value

    for name, value in given.items():
        if name in _LIBPQ_VALUES:
            new, values = _LIBPQ_VALUES[name]
            _refuse_unless(value in values, setting, name, value, f"write {', '.join(values)}")
            add(new, values[value], name)
        elif name == "currentSchema":
            add("options", f"-c search_path={_of_options(value)}", name)
        elif name != "ssl":
            add(_LIBPQ_NAMES.get(name, name), value, name)
    parameters |= _ssl_mode(setting, given)
    _check_libpq(setting, parameters, jdbc=True)
    return parameters


def _ssl_mode(setting: str, given: Mapping[str, str]) -> dict[str, str]:
    """What `ssl` asks for: by itself, as in Java, that the server's certificate is known and names the host."""
    if "ssl" not in given:
        return {}
    asked = given["ssl"].lower() or "true"
    _refuse_unless(asked in ("true", "false"), setting, "ssl", given["ssl"], "write true or false")
    if asked == "false":
        return {}
    mode = given.get("sslmode", "verify-full")
    if mode in _WEAK_SSL_MODES:
        raise InvalidRequest(f"{setting}: ssl=true asks for encryption, and sslmode={mode} for none: leave one out.")
    return {"sslmode": mode}


def _check_libpq(setting: str, given: Mapping[str, str], *, jdbc: bool) -> None:
    if not given:
        return
    _refuse_addresses(setting, given, _ADDRESS if jdbc else _ADDRESS[1:])
    if find_spec("psycopg") is None:
        # Who opens the database is told which package is missing.
        return
    pq: Any = import_module("psycopg").pq
    # What libpq shows nowhere is meant for its own tests, and for servers that copy each other.
    known = {each.keyword.decode() for each in pq.Conninfo.get_defaults() if each.dispchar != b"D"}
    words = known | ({"ssl", "currentSchema", *_LIBPQ_NAMES, *_LIBPQ_VALUES} if jdbc else set())
    for name, value in given.items():
        if name not in known:
            _refuse_name(setting, name, words, "PostgreSQL's client")
        _refuse_unless(bool(value), setting, name, value, "give it a value, or leave it out")
        if name.endswith("_timeout") or name.startswith("keepalives_"):
            _refuse_unless(value.isascii() and value.isdecimal(), setting, name, value, "write a whole number")
        if name in _SWITCHES:
            _refuse_unless(value in ("0", "1"), setting, name, value, "write 0 or 1")
    _check_values(setting, given, pq)


def _check_values(setting: str, given: Mapping[str, str], pq: Any) -> None:
    """Let libpq look at the values, as it does before it looks for the server."""
    words = {**given, "host": _NO_SERVER, "hostaddr": ""}
    # Over a local socket there is none.
    words.pop("gssencmode" if given.get("gssencmode") == "require" else "", None)
    written = " ".join(f"{name}='{_escaped(value)}'" for name, value in words.items())
    connection = pq.PGconn.connect_start(written.encode())
    said = " ".join(connection.error_message.decode(errors="replace").split())
    connection.finish()
    if _NO_SERVER not in said:
        raise InvalidRequest(f"{setting} has a parameter that cannot work: {said}.")


def _of_options(value: str) -> str:
    """A value as a part of `options`, in which blanks divide what is said."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")


def _of_mysql(setting: str, given: Mapping[str, str]) -> dict[str, str]:
    _refuse_addresses(setting, given)
    parameters: dict[str, str] = {}
    for name, value in given.items():
        if any(word in name.lower() for word in _ENCRYPTION):
            _refuse_encryption(setting, name, value)
            parameters |= {name: value} if name == "ssl_disabled" else {}
            continue
        for key, text in _of_one_of_mysql(setting, name, value).items():
            if key in parameters:
                raise InvalidRequest(f"{setting}: {name!r} and another parameter both mean {key!r}: leave one out.")
            parameters[key] = text
    return parameters


def _refuse_encryption(setting: str, name: str, value: str) -> None:
    off = ("true",) if name == "ssl_disabled" else _NO_ENCRYPTION
    if name.lower() == "trustservercertificate" or value.lower() not in off:
        # Its value may be the password of a key.
        raise InvalidRequest(
            f"{setting} asks for encryption by {name!r}: encrypted connections to MySQL are not supported. "
            "Use PostgreSQL with sslmode=require, or leave the parameter out."
        )


def _of_one_of_mysql(setting: str, name: str, value: str) -> dict[str, str]:
    if name in _MYSQL_MILLISECONDS:
        seconds = str(-(-int(value) // 1000)) if value.isascii() and value.isdecimal() else ""
        return {key: _seconds(setting, name, seconds, value) for key in _MYSQL_MILLISECONDS[name]}
    if name in _MYSQL_SECONDS:
        return {name: _seconds(setting, name, value, value)}
    if name == "useUnicode":
        _refuse_unless(value == "true", setting, name, value, "texts are Unicode: leave it out")
        return {}
    if name in ("characterEncoding", "charset"):
        return {"charset": _charset(setting, name, _MYSQL_CHARSETS.get(value.lower(), value))}
    if name not in _MYSQL_TEXTS:
        words = {
            *_LOGIN,
            *_MYSQL_TEXTS,
            *_MYSQL_SECONDS,
            *_MYSQL_MILLISECONDS,
            "characterEncoding",
            "useSSL",
            "sslMode",
        }
        _refuse_name(setting, name, words, "lineage in MySQL", _pymysql_names())
    return {name: value}


def _pymysql_names() -> Collection[str]:
    if find_spec("pymysql") is None:
        return ()
    connect: Callable[..., Any] = import_module("pymysql.connections").Connection
    return inspect.signature(connect).parameters


def _charset(setting: str, name: str, value: str) -> str:
    if find_spec("pymysql") is not None:
        is_known = import_module("pymysql.charset").charset_by_name(value) is not None
        _refuse_unless(is_known, setting, name, value, "write utf8mb4, or leave it out")
    return value


def _seconds(setting: str, name: str, seconds: str, given: str) -> str:
    can_be = seconds.isascii() and seconds.isdecimal() and 0 < int(seconds) <= _MYSQL_LONGEST_SECONDS
    _refuse_unless(can_be, setting, name, given, "write a whole number, at least 1, or leave it out")
    return seconds


def _refuse_unless(can_be: bool, setting: str, name: str, value: str, advice: str) -> None:
    if not can_be:
        raise InvalidRequest(f"{setting}: the parameter {name} = {value!r} cannot be: {advice}.")


def _refuse_addresses(setting: str, given: Mapping[str, str], names: Collection[str] = _ADDRESS) -> None:
    for name in given:
        if name in names:
            raise InvalidRequest(
                f"{setting} has the parameter {name!r}: host, port and database stand before the question mark."
            )


def _refuse_name(
    setting: str, name: str, known: Collection[str], whose: str, of_driver: Collection[str] = ()
) -> NoReturn:
    """Raise InvalidRequest with the name that may be meant."""
    by_lower = {word.lower(): word for word in sorted({*known, *_LOGIN}, reverse=True)}
    if "sslmode" in known:
        by_lower.setdefault("ssl", "sslmode")
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    if name in of_driver:
        hint = "It is the driver's, but cannot be given in a URL here: leave it out."
    elif near:
        hint = f"Did you mean {by_lower[near[0]]!r}?"
    else:
        hint = "Leave it out."
    raise InvalidRequest(f"{setting} has the parameter {name!r}, which {whose} does not know. {hint}")
