"""A small object store that speaks S3, with answers that fail or get lost on demand.

What the store needs of S3: objects are put whole, on condition that there is none (`If-None-Match: *`) or that they are still
the same (`If-Match`), read whole or in part, listed and deleted, on that condition too. Everything is in memory.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape


@dataclass
class Faults:
    """How often requests fail: with 503 before anything happens, or after it without an answer. `refusal`: all are
    answered by this status and code, `of_conditions`: so many of those with `If-Match`. `requests` counts them all. A page
    of a listing has `page_size` names.
    """

    unavailable: float = 0.0
    lost_reply: float = 0.0
    refusal: tuple[int, str] | None = None
    of_conditions: tuple[int, str] = (501, "NotImplemented")
    conditions_refused: int = 0
    requests: int = 0
    page_size: int = 1000
    chosen: random.Random = field(default_factory=lambda: random.Random(0))
    seen: dict[str, int] = field(default_factory=lambda: {"unavailable": 0, "lost": 0})


class Objects:
    """The objects of all buckets by path."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[bytes, datetime]] = {}
        self.lock = threading.Lock()

    def put(self, path: str, data: bytes, *, only_new: bool, tag: str | None = None) -> bool:
        with self.lock:
            if (only_new and path in self.held) or not self._is_still(path, tag):
                return False
            self.held[path] = (data, datetime.now(UTC))
            return True

    def delete(self, path: str, tag: str | None) -> bool:
        with self.lock:
            if not self._is_still(path, tag):
                return False
            self.held.pop(path, None)
            return True

    def _is_still(self, path: str, tag: str | None) -> bool:
        return tag is None or (path in self.held and tag_of(self.held[path][0]) == tag)


def tag_of(data: bytes) -> str:
    return f'"{md5(data).hexdigest()}"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Without these every answer waits for the network's own pauses.
    wbufsize = -1
    disable_nagle_algorithm = True
    objects: Objects
    faults: Faults

    def handle_expect_100(self) -> bool:
        proceed = super().handle_expect_100()
        self.wfile.flush()
        return proceed

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _path(self) -> tuple[str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        # The name of an object may end in a slash.
        return f"{bucket}/{key}" if key else bucket, parse_qs(parts.query, keep_blank_values=True)

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            body = b"".join(chunks)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return _decoded(body) if "aws-chunked" in self.headers.get("Content-Encoding", "") else body

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        faults = self.faults
        if faults.chosen.random() < faults.lost_reply:
            faults.seen["lost"] += 1
            self.close_connection = True
            self.connection.close()
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _error(self, status: int, code: str) -> None:
        # Stores differ in whether they name the condition: this one does not.
        body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        self._answer(status, body, Content_Type="application/xml")

    def _fails(self) -> bool:
        faults = self.faults
        faults.requests += 1
        if faults.refusal is not None:
            self._body()
            self._error(*faults.refusal)
            return True
        if self.headers.get("If-Match") and faults.conditions_refused:
            faults.conditions_refused -= 1
            self._body()
            self._error(*faults.of_conditions)
            return True
        if faults.chosen.random() >= faults.unavailable:
            return False
        faults.seen["unavailable"] += 1
        self._body()
        self._error(503, "SlowDown")
        return True

    def do_PUT(self) -> None:
        if self._fails():
            return
        path, _ = self._path()
        body = self._body()
        only_new, tag = self.headers.get("If-None-Match") == "*", self.headers.get("If-Match")
        if "/" in path and not self.objects.put(path, body, only_new=only_new, tag=tag):
            self._error(412, "PreconditionFailed")
            return
        self._answer(200, ETag=tag_of(body))

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if self._fails():
            return
        path, query = self._path()
        if "list-type" in query:
            self._list(path, query)
            return
        stored = self.objects.held.get(path)
        if stored is None:
            self._error(404, "NoSuchKey" if "/" in path else "NoSuchBucket")
            return
        data, time = stored
        headers = {
            "ETag": tag_of(data),
            "Last_Modified": f"{time:%a, %d %b %Y %H:%M:%S} GMT",
            "Content_Type": "binary/octet-stream",
        }
        status = 200
        if wanted := self.headers.get("Range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start = int(first) if first else len(data) - int(last)
            end = min(int(last), len(data) - 1) if first and last else len(data) - 1
            headers["Content_Range"] = f"bytes {start}-{end}/{len(data)}"
            data, status = data[start : end + 1], 206
        self._answer(status, data, Content_Length=str(len(data)), **headers)

    def _list(self, bucket: str, query: dict[str, list[str]]) -> None:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        with self.objects.lock:
            held = sorted(self.objects.held.items())
        after = query.get("continuation-token", [""])[0]
        page: dict[str, str] = {}
        for path, (data, time) in held:
            if not path.startswith(f"{bucket}/{prefix}"):
                continue
            key = path.removeprefix(f"{bucket}/")
            head, separator, _ = key.removeprefix(prefix).partition(delimiter) if delimiter else (key, "", "")
            name = f"{prefix}{head}{delimiter}" if separator else key
            if name <= after or name in page:
                continue
            page[name] = (
                f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
                if separator
                else f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size><ETag>x</ETag>"
                f"<LastModified>{time:%Y-%m-%dT%H:%M:%S.000Z}</LastModified></Contents>"
            )
        wanted = min(self.faults.page_size, int(query.get("max-keys", ["1000"])[0]))
        names = sorted(page)[:wanted]
        body = f"<ListBucketResult><KeyCount>{len(names)}</KeyCount>{''.join(page[name] for name in names)}"
        if len(names) < len(page):
            token = f"<NextContinuationToken>{escape(names[-1])}</NextContinuationToken>" if names else ""
            body += f"<IsTruncated>true</IsTruncated>{token}"
        else:
            body += "<IsTruncated>false</IsTruncated>"
        self._answer(200, (body + "</ListBucketResult>").encode(), Content_Type="application/xml")

    def do_DELETE(self) -> None:
        if self._fails():
            return
        path, _ = self._path()
        if self.objects.delete(path, self.headers.get("If-Match")):
            self._answer(204)
        elif path in self.objects.held:
            self._error(412, "PreconditionFailed")
        else:
            self._error(404, "NoSuchKey")

    def do_POST(self) -> None:
        """Delete many."""
        if self._fails():
            return
        bucket, _ = self._path()
        keys = [element.text for element in ElementTree.fromstring(self._body()).iter() if element.tag.endswith("Key")]
        with self.objects.lock:
            for key in keys:
                self.objects.held.pop(f"{bucket}/{key}", None)
        deleted = "".join(f"<Deleted><Key>{escape(key or '')}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode(), Content_Type="application/xml")


def _decoded(body: bytes) -> bytes:
    """The content of a body in signed chunks."""
    content, rest = b"", body
    while rest:
        head, _, rest = rest.partition(b"\r\n")
        size = int(head.split(b";")[0] or b"0", 16)
        if not size:
            break
        content, rest = content + rest[:size], rest[size + 2 :]
    return content


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A connection that was cut on purpose is no error."""


@contextmanager
def object_store(faults: Faults | None = None) -> Iterator[tuple[str, Objects, Faults]]:
    """A running store: its endpoint, what it holds, and how it fails."""
    faults = faults or Faults()
    handler = type("BoundHandler", (Handler,), {"objects": Objects(), "faults": faults})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", handler.objects, faults
    finally:
        server.shutdown()
        server.server_close()
