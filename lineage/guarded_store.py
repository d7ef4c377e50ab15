"""A lineage store that may be away: locked, full, read-only, unreadable, or on a server that is down.

Lineage is an index, so that nobody who writes is stopped by it. A guarded store is opened when it is first needed. Whatever
goes wrong in it becomes LineageUnavailable: who writes passes that over, inside of `stopping_nobody`; who asks gets to see
it. What was left out stands in the snapshots, and is read off them once the store is back.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from storage import Clock, Secret, StorageError, Unsupported, guarded_options, revealed

from .entities import moment_of_ms
from .jdbc_url import URL_SETTING, named
from .store import LineageStore, UnreachableStore, UnreadableStore, check_lineage_options, open_lineage_store

_log = logging.getLogger(__name__)
_WRITING = ("store_", "delete_", "rename_", "set_")
# A store that took long to fail is left alone for so many times as long: waiting for it stays a part of the time.
_PAUSE_RATIO = 2
# Files that belong to an SQLite database.
_BESIDE = ("", "-wal", "-shm", "-journal")
_CATCHES_UP = "Tables are written without it, and it catches up when the store is back"
_ADVICE = f"{_CATCHES_UP}; `snapline lineage rebuild` makes it anew."
_warned: set[tuple[str, str]] = set()


class LineageUnavailable(StorageError):
    """The lineage store of a catalog cannot be used now: go on without it, or leave the catalog out of an answer."""

    def __init__(self, message: str, catalog: str = "", store: str = "", advice: str = "") -> None:
        super().__init__(f"{message} {advice}".rstrip())
        self.catalog = catalog
        self.store = store
        self._message = message

    def of_rebuild(self) -> "LineageUnavailable":
        """The same, for those who have just asked to make it anew."""
        return self.advising(f"It is not made anew: see that it can be written. {_CATCHES_UP}.")

    def advising(self, advice: str) -> "LineageUnavailable":
        """The same, with other words of what to do."""
        return LineageUnavailable(self._message, self.catalog, self.store, advice)

    def of_registry(self, name: str = "") -> "LineageUnavailable":
        """The same, for those who have asked for the catalogs that are registered in this database, or for one of them."""
        asked = f"Catalog {name!r} cannot be looked up" if name else "Catalogs that were registered cannot be listed"
        return LineageUnavailable(
            f"{asked}: CREATE CATALOG keeps them in the platform's lineage database. {self._message}",
            name,
            self.store,
            "Whatever names no other catalog goes on without it.",
        )

    def say_once(self) -> None:
        """Warn, once in a process of each store."""
        if (self.catalog, self.store) not in _warned:
            _warned.add((self.catalog, self.store))
            _log.warning("%s", self)


@contextmanager
def stopping_nobody() -> Iterator[None]:
    """Go on after this block when a lineage store is unavailable in it. A process says so once of each store."""
    try:
        yield
    except LineageUnavailable as error:
        error.say_once()


# What a store is asked for; the last ones it need not have of its own.
_OF_SQL = {"catalogs", "store_catalog", "delete_catalog"}
_CALLS = LineageStore.__abstractmethods__ | {"newest", "store_offsets", "offsets"} | _OF_SQL


class GuardedStore:
    """Stands for a LineageStore, all methods of which it has. They raise LineageUnavailable."""

    def __init__(
        self, catalog: str, options: Mapping[str, Any], clock: Clock | None = None, *, url_setting: str = ""
    ) -> None:
        """`url_setting`: what gave `jdbc.url`, for messages; by default the catalog's own option."""
        self._catalog = catalog
        if options.get("lineage-meta", "jdbc") == "jdbc":
            options = {**options, URL_SETTING: url_setting or f"'jdbc.url' of catalog {catalog!r}"}
        # Secrets are texts again in the hands of the store's factory alone.
        self._options = guarded_options(options)
        self._clock = clock or Clock()
        self._store: LineageStore | None = None
        # Reading and writing fail apart: a full disk can be read.
        self._paused: dict[bool, tuple[int, LineageUnavailable]] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _CALLS:
            raise AttributeError(name)
        return partial(self._call, name)

    def _call(self, name: str, *given: Any, **named_: Any) -> Any:
        writes = name.startswith(_WRITING)
        began_ms = self._clock.now_ms()
        until_ms, failure = self._paused.get(writes, (0, None))
        if failure is not None and began_ms < until_ms:
            raise failure
        store = None
        try:
            store = self._opened()
            return getattr(store, name)(*given, **named_)
        except Exception as error:
            if store is not None and isinstance(error, StorageError):
                # Not the store is wrong, but what it was to keep.
                raise
            # A file that has been replaced is to be opened anew.
            self.close()
            failure, now_ms = self._unavailable(error), self._clock.now_ms()
            self._paused[writes] = (now_ms + _PAUSE_RATIO * (now_ms - began_ms), failure)
            raise failure from None

    def check_options(self) -> None:
        """Raise LineageUnavailable if the options alone tell that there can be no such store; nothing is opened."""
        try:
            check_lineage_options(revealed(self._options))
        except StorageError as error:
            raise self._unavailable(error) from None

    @property
    def files(self) -> list[str]:
        """The files of the database, if it is one of files; what a store of somebody's own keeps is not known."""
        url = str(revealed(self._options).get("jdbc.url", "")).removeprefix("jdbc:")
        if self._options.get("lineage-meta", "jdbc") != "jdbc" or not url.startswith("sqlite:"):
            return []
        file = url.removeprefix("sqlite:").removeprefix("//")
        return [f"{file}{end}" for end in _BESIDE] if file else []

    def replace_unreadable(self) -> Path | None:
        """Make room for a new file if the store's own cannot be read; returns where the old one lies now.

        Raises LineageUnavailable if the store can be neither read nor replaced.
        """
        self._paused.clear()
        try:
            self._opened().check()
            return None
        except UnreadableStore as error:
            self.close()
            try:
                return self._set_aside(Path(error.path))
            except OSError as refused:
                raise self._unavailable(refused) from None
        except Exception as error:
            self.close()
            raise self._unavailable(error) from None

    def _set_aside(self, file: Path) -> Path:
        # The database goes first: what lies beside a database that is not there is deleted by SQLite itself.
        moment = moment_of_ms(self._clock.now_ms())
        aside = file.with_name(f"{file.name}.unreadable-{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03d}")
        for end in _BESIDE:
            part = file.with_name(file.name + end)
            if part.exists():
                part.rename(aside.with_name(aside.name + end))
        return aside

    def close(self) -> None:
        """Release connections."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _opened(self) -> LineageStore:
        if self._store is None:
            self._store = open_lineage_store(revealed(self._options))
        return self._store

    def _shown_url(self) -> str:
        url = self._options.get("jdbc.url", "")
        # One whose reference leads nowhere is shown as it was given.
        return named(url.written() if isinstance(url, Secret) else url)

    def _unavailable(self, error: BaseException) -> LineageUnavailable:
        # SQLAlchemy tells of statement and parameters at length; what the driver said is enough.
        reason = " ".join(str(getattr(error, "orig", None) or error).split()) or type(error).__name__
        kind = self._options.get("lineage-meta", "jdbc")
        store = self._shown_url() if kind == "jdbc" else kind
        # What could not be opened says itself what it is.
        where = "" if isinstance(error, UnreachableStore) else f" ({store})"
        # What a later program wrote is sound, and what does not answer is not to be replaced.
        is_away = isinstance(error, UnreachableStore) and not isinstance(error, UnreadableStore)
        advice = f"{_CATCHES_UP}." if is_away or isinstance(error, Unsupported) else _ADVICE
        message = f"The lineage of catalog {self._catalog!r} is out of reach{where}: {reason.rstrip('.')}."
        return LineageUnavailable(message, self._catalog, store, advice)
