"""Parameters of a database URL: carried out in the driver's own words, or refused by name."""

import socket
import subprocess
import sys

import pytest

from lineage import LineageUnavailable, check_jdbc_url, check_libpq_parameters
from lineage.database_url import database_url
from lineage.guarded_store import GuardedStore
from storage import InvalidRequest

pytest.importorskip("psycopg")
pytest.importorskip("pymysql")

POSTGRESQL = "jdbc:postgresql://host/db?"
MYSQL = "jdbc:mysql://host/db?"

REFUSED = [
    ("user=u&password=p&ssl_mode=require", "'ssl_mode'.*Did you mean 'sslmode'"),
    ("user=u&pasword=s3cretword", "'pasword'.*Did you mean 'password'"),
    ("user=u&nosuch=1", "'nosuch'"),
    ("SSLMODE=require", "'SSLMODE'.*Did you mean 'sslmode'"),
    ("sslmode=requre", "sslmode.*requre"),
    ("sslmode=", "sslmode"),
    ("sslmode=require&sslmode=disable", "'sslmode' more than once"),
    ("ssl=true&sslmode=prefer", "ssl=true.*sslmode=prefer"),
    ("ssl=yes", "ssl = 'yes'"),
    ("ssl_min_protocol_version=TLS9", "ssl_min_protocol_version"),
    ("channelBinding=always", "channel_binding"),
    ("connect_timeout=abc", "connect_timeout = 'abc'"),
    ("loginTimeout=3&connectTimeout=4", "connect_timeout"),
    ("targetServerType=preferPrimary", "targetServerType = 'preferPrimary'"),
    ("tcpKeepAlive=1", "tcpKeepAlive"),
    ("prepareThreshold=0", "'prepareThreshold'"),
    ("replication=database", "'replication'"),
    ("host=other", "'host'.*before the question mark"),
    ("password=a&s3cretword", "password.*%26"),
]
REFUSED_BY_MYSQL = [
    ("useSSL=true", "useSSL"),
    ("useSSL", "useSSL"),
    ("sslMode=VERIFY_CA", "sslMode"),
    ("sslmode=require", "sslmode"),
    ("ssl_ca=/ca.pem", "ssl_ca"),
    ("ssl_key_password=s3cretword", "ssl_key_password"),
    ("verifyServerCertificate=true", "verifyServerCertificate"),
    ("trustServerCertificate=false", "trustServerCertificate"),
    ("pasword=s3cretword", "'pasword'.*Did you mean 'password'"),
    ("serverTimezone=UTC", "'serverTimezone'"),
    ("autocommit=true", "'autocommit'.*driver's"),
    ("charset=nosuch", "charset = 'nosuch'"),
    ("read_timeout=0", "read_timeout = '0'"),
    ("socketTimeout=1s", "socketTimeout = '1s'"),
    ("useUnicode=false", "useUnicode"),
    ("connectTimeout=1000&connect_timeout=1", "connect_timeout"),
    ("db=other", "'db'"),
]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        *((POSTGRESQL + query, message) for query, message in REFUSED),
        *((MYSQL + query, message) for query, message in REFUSED_BY_MYSQL),
        *(("jdbc:mariadb://host/db?" + query, message) for query, message in REFUSED_BY_MYSQL[:2]),
        ("jdbc:sqlite:/data/lineage.db?cache=shared", "parameters"),
    ],
)
def test_a_parameter_that_cannot_be_carried_out_is_refused_by_name(url: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=f"SETTING.*{message}") as caught:
        check_jdbc_url("SETTING", url)
    assert "s3cretword" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("query", "carried_out"),
    [
        ("", {}),
        ("user=u&password=p", {}),
        ("ssl", {"sslmode": "verify-full"}),
        ("ssl=true", {"sslmode": "verify-full"}),
        ("ssl=true&sslNegotiation=direct", {"sslmode": "verify-full", "sslnegotiation": "direct"}),
        ("ssl=true&sslrootcert=system", {"sslmode": "verify-full", "sslrootcert": "system"}),
        ("ssl=true&sslmode=verify-full&sslrootcert=/a%20b", {"sslmode": "verify-full", "sslrootcert": "/a b"}),
        ("ssl=false&sslmode=require", {"sslmode": "require"}),
        ("gssEncMode=require", {"gssencmode": "require"}),
        ("connectTimeout=4&tcpKeepAlive=true", {"connect_timeout": "4", "keepalives": "1"}),
        ("targetServerType=master&ApplicationName=x", {"target_session_attrs": "primary", "application_name": "x"}),
        ("currentSchema=a, b", {"options": "-c search_path=a,\\ b"}),
    ],
)
def test_parameters_of_postgresql_reach_the_driver_in_its_own_words(query: str, carried_out: dict[str, str]) -> None:
    assert dict(database_url({"jdbc.url": POSTGRESQL + query}).query) == carried_out


@pytest.mark.parametrize(
    ("query", "carried_out"),
    [
        ("useSSL=false&sslMode=DISABLED&ssl_disabled=true", {"ssl_disabled": "true"}),
        ("characterEncoding=UTF-8&useUnicode=true", {"charset": "utf8mb4"}),
        ("connectTimeout=1500&socketTimeout=2000", {"connect_timeout": "2", "read_timeout": "2", "write_timeout": "2"}),
        ("sql_mode=STRICT_ALL_TABLES", {"sql_mode": "STRICT_ALL_TABLES"}),
    ],
)
def test_parameters_of_mysql_reach_the_driver_in_its_own_words(query: str, carried_out: dict[str, str]) -> None:
    assert dict(database_url({"jdbc.url": MYSQL + query}).query) == carried_out


def test_a_password_may_have_any_characters() -> None:
    url = database_url({"jdbc.url": "jdbc:postgresql://me:a@b/c%3F@host:1/db?application_name=x"})
    assert (url.username, url.password, url.host, url.port, url.database) == ("me", "a@b/c?", "host", 1, "db")
    assert database_url({"jdbc.url": POSTGRESQL + "password=a%26b#c"}).password == "a&b#c"


@pytest.mark.parametrize("query", ["ssl_mode=require", "ssl=true", "sslmode=requre", "ApplicationName=x", "dbname=d"])
def test_a_url_of_libpq_has_the_words_of_libpq_alone(query: str) -> None:
    with pytest.raises(InvalidRequest, match="SETTING"):
        check_libpq_parameters("SETTING", query)
    check_libpq_parameters("SETTING", "sslmode=verify-full&user=u&password=p")


def test_looking_at_parameters_asks_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where sockets and addresses are, libpq's URLs may say."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        check_libpq_parameters("SETTING", "host=/var/run/postgresql&hostaddr=127.0.0.1")
        monkeypatch.setenv("PGHOSTADDR", "127.0.0.1")
        monkeypatch.setenv("PGPORT", str(port))
        check_libpq_parameters("SETTING", "hostaddr=127.0.0.1&sslmode=require")
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    ("setting", "named"), [("SNAPLINE_LINEAGE_URL", "SNAPLINE_LINEAGE_URL"), ("", "catalog 'far'")]
)
@pytest.mark.parametrize("query", ["", "?sslmode=requre", "?pasword=x"])
def test_a_store_that_cannot_be_opened_names_what_gave_its_url(setting: str, named: str, query: str) -> None:
    store = GuardedStore("far", {"jdbc.url": f"jdbc:postgresql://127.0.0.1:1/db{query}"}, url_setting=setting)
    with pytest.raises(LineageUnavailable, match=named) as caught:
        store.tables("sink")
    assert ("'jdbc.url'" in str(caught.value)) is (setting == "")


def test_parameters_are_not_shown_where_a_database_cannot_be_opened() -> None:
    store = GuardedStore("far", {"jdbc.url": "jdbc:postgresql://127.0.0.1:1/db?sslpassword=s3cretword"})
    with pytest.raises(LineageUnavailable) as caught:
        store.tables("sink")
    assert "s3cretword" not in str(caught.value)


def test_no_driver_is_loaded_for_a_file() -> None:
    program = (
        "import sys, lineage; lineage.check_jdbc_url('x', 'jdbc:sqlite:/a/b.db'); "
        "lineage.check_jdbc_url('x', 'jdbc:postgresql://h/db?user=u&password=p'); "
        "print([name for name in ('psycopg', 'pymysql', 'sqlalchemy') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
