"""From the lineage document's `jdbc.*` options to a database that can be reached from here."""

from collections.abc import Mapping

from sqlalchemy.engine import URL

from .jdbc_url import DEFAULT_DATABASE, DIALECTS, kind_of, server_address, url_setting


def database_url(options: Mapping[str, str]) -> URL:
    """The SQLAlchemy URL that `jdbc.url`, `jdbc.username`, `jdbc.password` and `jdbc.database` mean.

    `jdbc.driver` is not needed: the URL tells. User, password and parameters of the driver may also stand in the URL.
    Raises InvalidRequest for what is not understood, and for encryption that would not come about.
    """
    kind, setting, text = kind_of(options), url_setting(options), options["jdbc.url"]
    if kind == "sqlite":
        return URL.create("sqlite", database=text.removeprefix("jdbc:").removeprefix("sqlite:").removeprefix("//"))
    address = server_address(setting, text)
    return URL.create(
        DIALECTS[kind][0],
        username=options.get("jdbc.username", address.user),
        password=options.get("jdbc.password", address.password),
        host=address.host,
        port=address.port,
        database=address.database or options.get("jdbc.database", DEFAULT_DATABASE),
        query=dict(address.parameters),
    )
