"""Tokens that a page's form carries: bound to the action and to all that the page has shown, good once and for a while.

Nobody who has not read the page, and no page of another process or of yesterday, has one.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from threading import Lock
from urllib.parse import parse_qsl

from starlette.requests import Request

from storage import Clock, InvalidRequest

TOKEN = "token"
_GOOD_MS = 30 * 60 * 1000
_MOST_BYTES = 64 * 1024
_AGAIN = "Nothing has been done. Open the page again and look at what it shows now."


class TokenRefused(InvalidRequest):
    """A form is not one that this browser has just made."""


class Tokens:
    """Makes and checks the tokens of one process."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._secret = secrets.token_bytes(32)
        self._used: dict[str, int] = {}
        self._lock = Lock()

    def issue(self, action: str, values: Mapping[str, str]) -> str:
        """A token for a form of an action with hidden fields of these values."""
        head = f"{self._clock.now_ms()}.{secrets.token_hex(8)}"
        return f"{head}.{self._signature(head, action, values)}"

    def use(self, token: str, action: str, values: Mapping[str, str]) -> None:
        """Let a token count, once. Raises TokenRefused if it was not made for this, is old, or has been used."""
        head, _, signature = token.rpartition(".")
        made, _, _ = head.partition(".")
        if not hmac.compare_digest(signature.encode(errors="replace"), self._signature(head, action, values).encode()):
            raise TokenRefused(f"The form was not made by this page. {_AGAIN}")
        now = self._clock.now_ms()
        if not 0 <= now - int(made) <= _GOOD_MS:
            raise TokenRefused(f"The page is older than {_GOOD_MS // 60_000} minutes. {_AGAIN}")
        with self._lock:
            self._used = {known: at for known, at in self._used.items() if now - at <= _GOOD_MS}
            if head in self._used:
                raise TokenRefused(f"The form was sent before. {_AGAIN}")
            self._used[head] = int(made)

    def _signature(self, head: str, action: str, values: Mapping[str, str]) -> str:
        said = json.dumps([head, action, sorted(values.items())])
        return hmac.new(self._secret, said.encode(), hashlib.sha256).hexdigest()


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form that was sent. Raises TokenRefused for what no form of ours sends."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise TokenRefused(f"Forms of this browser are not sent as {kind[:100] or 'nothing'!r}. Nothing has been done.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise TokenRefused(f"No form of this browser has more than {_MOST_BYTES} bytes. Nothing has been done.")
    try:
        pairs = parse_qsl(bytes(body).decode(), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise TokenRefused("This is no form of this browser. Nothing has been done.") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise TokenRefused("A field is given twice. Nothing has been done.")
    return fields
