"""What stands before every page of the browser: who may ask, and what a browser may do with the answer.

Always: a request whose Host is a name that the browser is not served under is refused, so that no page of somebody else's can
read it by pointing a name of his at this machine (DNS rebinding). Answers carry a Content-Security-Policy without inline
script, and are shown in no frame. Whatever is not GET or HEAD is refused in read-only mode, and if it does not come from a
page of the browser itself. What it does is then decided by its token (`tokens`).
"""

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# A picture at an address of its own has its style inside, and nothing that runs.
POLICY_OF_PICTURES = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
# With no-referrer, a browser would not say either where a form of our own comes from.
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_READING = ("GET", "HEAD")
READ_ONLY = (
    "This browser is read-only (SNAPLINE_BROWSER_READ_ONLY): nothing has been done. The page shows the command to copy."
)


class Guard:
    """Middleware. `hosts`: the names, besides localhost and addresses of numbers, under which the browser is served; `url`:
    where it is served, which may be under another name than the one that it sees, behind a proxy.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] = (), url: str = "", read_only: bool = False) -> None:
        self._app = app
        self._read_only = read_only
        own = urlsplit(url)
        self._origin = f"{own.scheme}://{own.netloc}".lower() if own.netloc else ""
        self._hosts = {name.lower() for name in (*hosts, own.hostname or "") if name}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # Nothing here speaks over a web socket.
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if headers.get("content-type", "").startswith("image/svg+xml"):
                    headers["Content-Security-Policy"] = POLICY_OF_PICTURES
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self.refusal(scope["method"], Headers(scope=scope), scope.get("scheme", "http"))
        if refusal is None:
            await self._app(scope, receive, send_guarded)
        else:
            status, why = refusal
            await PlainTextResponse(f"{why}\n", status)(scope, receive, send_guarded)

    def refusal(self, method: str, headers: Headers, scheme: str = "http") -> tuple[int, str] | None:
        """Status and reason for which a request is refused; None if it is let through."""
        hosts = headers.getlist("host")
        host = _host_name(hosts[0]) if len(hosts) == 1 else None
        if host is None or not self._is_own(host):
            return 421, (
                f"The lineage browser is not served as {(hosts or ['nothing'])[0][:200]!r}. If it is, set SNAPLINE_BROWSER_URL "
                "to its address."
            )
        if method in _READING:
            return None
        if self._read_only:
            return 403, READ_ONLY
        if not self._is_from_here(headers, hosts[0], scheme):
            return 403, "This came from another page than one of the lineage browser: nothing has been done."
        return None

    def _is_own(self, host: str) -> bool:
        # A page of somebody else's comes by a name, never by a number.
        return _is_number(host) or host == "localhost" or host.endswith(".localhost") or host in self._hosts

    def _is_from_here(self, headers: Headers, host: str, scheme: str) -> bool:
        """Whether a browser says that a request comes from a page of ours. One that says nothing is none."""
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None and site != "same-origin":
            return False
        if origin is None:
            return site is not None
        parts = urlsplit(origin)
        return origin.lower() == self._origin or (parts.scheme == scheme and parts.netloc.lower() == host.lower())


def _host_name(host: str) -> str | None:
    """The name in a Host header, without its port; None if it is none."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    name = parts.hostname
    is_plain = name and not parts.username and not parts.path and not parts.query and not parts.fragment
    return name.lower().rstrip(".") if name and is_plain else None


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
