"""Who is let through to the browser, and what tokens count: every way in is tried, and what was refused has done nothing."""

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from resources.browser.guard import Guard
from resources.browser.tokens import TokenRefused, Tokens
from storage import FixedClock

HOST = "127.0.0.1:3000"
HERE = f"http://{HOST}"


def client(done: list[str], **given: object) -> TestClient:
    async def page(request: Request) -> PlainTextResponse:
        done.append(request.method)
        return PlainTextResponse("done")

    app = Starlette(routes=[Route("/", page, methods=["GET", "POST", "PUT", "DELETE"])])
    return TestClient(Guard(app, **given), base_url=HERE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": HERE},
        {"Origin": HERE.upper().replace("HTTP", "http"), "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Host": "localhost:3000", "Origin": "http://localhost:3000"},
        {"Host": "[::1]:3000", "Origin": "http://[::1]:3000"},
        # Behind a proxy that speaks TLS.
        {"Host": "data.example.com", "Origin": "https://data.example.com"},
        {"Host": "127.0.0.1:3000", "Origin": "https://data.example.com"},
    ],
)
def test_a_form_of_our_own_is_let_through(headers: dict[str, str]) -> None:
    done: list[str] = []
    answer = client(done, url="https://data.example.com/snapline").post("/", headers=headers)
    assert (answer.status_code, done) == (200, ["POST"])


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:3001"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": f"{HERE}.evil.example"},
        {"Origin": f"file://{HOST}"},
        {"Origin": HERE, "Sec-Fetch-Site": "same-site"},
        {"Origin": HERE, "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "none"},
        {"Referer": HERE},
        # The name of our own is one thing, the port of somebody else's another.
        {"Host": "localhost:3000", "Origin": "http://localhost:3001"},
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_what_comes_from_elsewhere_is_refused_and_nothing_happens(headers: dict[str, str], method: str) -> None:
    done: list[str] = []
    answer = client(done).request(method, "/", headers=headers)
    assert (answer.status_code, done) == (403, [])
    assert "nothing has been done" in answer.text


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:3000",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "data.example.com.evil",
        "",
        "user@127.0.0.1",
        "127.0.0.1:x",
        "127.0.0.1/evil",
        "2130706433.evil",
        "[::1",
        "xn--lcalhost-r0a",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
def test_a_name_that_is_not_ours_reads_nothing(host: str, method: str) -> None:
    """A page of somebody else's that has let its own name lead to this machine."""
    done: list[str] = []
    headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    answer = client(done, url="https://data.example.com/snapline").request(method, "/", headers=headers)
    assert (answer.status_code, done) == (421, [])


@pytest.mark.parametrize("host", ["warehouse", "WAREHOUSE:3000", "warehouse."])
def test_the_name_that_it_was_told_to_be_served_under_is_ours(host: str) -> None:
    done: list[str] = []
    assert client(done, hosts=["warehouse"]).get("/", headers={"Host": host}).status_code == 200


def test_a_read_only_browser_shows_and_does_nothing() -> None:
    done: list[str] = []
    browser = client(done, read_only=True)
    assert browser.get("/").status_code == 200
    answer = browser.post("/", headers={"Origin": HERE, "Sec-Fetch-Site": "same-origin"})
    assert (answer.status_code, done) == (403, ["GET"])
    assert "SNAPLINE_BROWSER_READ_ONLY" in answer.text


@pytest.mark.parametrize("path", ["/", "/nowhere"])
@pytest.mark.parametrize("host", [HOST, "evil.example"])
def test_every_answer_forbids_inline_script_frames_and_guesses(path: str, host: str) -> None:
    headers = client([]).get(path, headers={"Host": host}).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    # With no-referrer, a browser says `Origin: null` of our own forms.
    assert headers["referrer-policy"] == "same-origin"


def test_a_token_counts_once_for_what_the_page_has_shown() -> None:
    tokens, shown = Tokens(FixedClock()), {"bad": "raw.a@2", "mode": "full"}
    token = tokens.issue("start", shown)
    for action, values in (
        ("drop", shown),
        ("start", {**shown, "mode": "incremental"}),
        ("start", {**shown, "bad": "raw.a@1"}),
        ("start", {"bad": "raw.a@2"}),
        ("start", {**shown, "more": ""}),
        ("start", {"mode": "raw.a@2", "bad": "full"}),
    ):
        with pytest.raises(TokenRefused, match="was not made by this page"):
            tokens.use(token, action, values)
    tokens.use(token, "start", shown)
    with pytest.raises(TokenRefused, match="was sent before"):
        tokens.use(token, "start", shown)
    tokens.use(tokens.issue("start", shown), "start", shown)


@pytest.mark.parametrize("token", ["", ".", "..", "1.2.3", "٣.٣.٣", "a.b.c", "x" * 10_000, "1.2.\ud800"])
def test_what_is_no_token_is_none(token: str) -> None:
    with pytest.raises(TokenRefused, match="was not made by this page"):
        Tokens().use(token, "start", {})


def test_a_token_of_a_page_of_long_ago_or_of_another_process_is_refused() -> None:
    clock = FixedClock()
    tokens = Tokens(clock)
    token = tokens.issue("start", {})
    clock.time_ms += 31 * 60 * 1000
    with pytest.raises(TokenRefused, match="older than 30 minutes"):
        tokens.use(token, "start", {})
    with pytest.raises(TokenRefused, match="was not made by this page"):
        Tokens(clock).use(tokens.issue("start", {}), "start", {})
    # One that is sent again is refused for as long as it would count.
    token = tokens.issue("start", {})
    tokens.use(token, "start", {})
    clock.time_ms += 29 * 60 * 1000
    with pytest.raises(TokenRefused, match="was sent before"):
        tokens.use(token, "start", {})
