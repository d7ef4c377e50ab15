"""From the lineage document's `jdbc.*` options to a database that can be reached from here."""

from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from storage import InvalidRequest, Unsupported

from .jdbc_url import DIALECTS, kind_of, named

DEFAULT_DATABASE = "paimon"
# Java's drivers are told by these to encrypt; to leave them unheard would send rows in the clear.
_MYSQL_ENCRYPTION = ("useSSL", "sslMode", "requireSSL")
_NO_ENCRYPTION = ("false", "disabled", "disable", "preferred")


def database_url(options: Mapping[str, str]) -> URL:
    """The SQLAlchemy URL that `jdbc.url`, `jdbc.username`, `jdbc.password` and `jdbc.database` mean.

    `jdbc.driver` is not needed: the URL tells. User, password and `sslmode` may also stand in the URL; parameters of
    Java's drivers that have no meaning here are passed over. Raises InvalidRequest for what is not understood.
    """
    kind = kind_of(options)
    text = options["jdbc.url"].removeprefix("jdbc:")
    if kind == "sqlite":
        return URL.create("sqlite", database=text.removeprefix("sqlite:").removeprefix("//"))
    parts = urlsplit(text)
    parameters = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    try:
        url = make_url(text.split("?")[0]).set(drivername=DIALECTS[kind][0])
    except (ArgumentError, ValueError):
        raise InvalidRequest(
            f"'jdbc.url' = {named(options['jdbc.url'])!r} cannot be read: write jdbc:{kind}://host:port/database."
        ) from None
    return url.set(
        database=parts.path.strip("/") or options.get("jdbc.database", DEFAULT_DATABASE),
        username=options.get("jdbc.username", parameters.get("user", url.username)),
        password=options.get("jdbc.password", parameters.get("password", url.password)),
        query=_encryption(kind, parameters),
    )


def _encryption(kind: str, parameters: Mapping[str, str]) -> dict[str, str]:
    if kind == "postgresql":
        if "sslmode" in parameters:
            return {"sslmode": parameters["sslmode"]}
        return {"sslmode": "require"} if parameters.get("ssl", "false").lower() == "true" else {}
    for key in _MYSQL_ENCRYPTION:
        if parameters.get(key, "false").lower() not in _NO_ENCRYPTION:
            raise Unsupported(
                f"'jdbc.url' asks for {key}={parameters[key]}: encrypted connections to MySQL are not supported. "
                "Use PostgreSQL with sslmode=require, or leave the parameter out."
            )
    return {}
