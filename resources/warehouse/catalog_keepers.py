"""Where the catalogs that were made by CREATE CATALOG are kept: in a file of the home, or in the platform's lineage database.

The file is one host's own, the database that of all hosts. Whatever several processes or hosts do at once is done one after
the other.
"""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from lineage import CatalogRecords, LineageUnavailable, is_of_server, on_same_server, server_database
from storage import Clock, CorruptData, FileLock, InvalidRequest, plain_secrets, revealed

from ..private_files import keep_private, write_private
from .catalog_options import is_of_jdbc

Written = dict[str, dict[str, str]]
# What was read so long ago is read again: other hosts create and drop catalogs as well.
_AGE_MS = 5_000
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
# PostgreSQL cuts longer names off.
_DATABASE_NAME_BYTES = 63


class HomeCatalogs:
    """Options by name in `catalogs.json`, which only its owner can read: secrets may stand in it."""

    def __init__(self, home: Path) -> None:
        self.file = home / "catalogs.json"
        self._home = home

    def all(self) -> Written:
        """Options by name, as they were given. Raises CorruptData for a file that cannot be read."""
        # Earlier versions have written it for everybody.
        keep_private(self.file)
        try:
            kept = json.loads(self.file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from None
        if not isinstance(kept, dict):
            raise self._damaged("it is no JSON object")
        for name, options in kept.items():
            if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
                raise self._damaged(f"catalog {name!r} has no options that are texts")
            if "warehouse" not in options:
                raise self._damaged(f"catalog {name!r} has no 'warehouse'")
        return kept

    def _damaged(self, why: str) -> CorruptData:
        return CorruptData(
            f"File {self.file}, which keeps the catalogs of this home, is damaged: {why}. Put it back from a backup, or move it "
            "away and create the catalogs again by CREATE CATALOG: what lies in their warehouses is not touched."
        )

    def insert(self, name: str, options: Mapping[str, str]) -> bool:
        """Keep a catalog; false if there is one of that name, which stays."""
        with self._alone():
            known = self.all()
            if name in known:
                return False
            self.write({**known, name: options})
            return True

    def delete(self, name: str) -> bool:
        """Forget a catalog; false if there is none of that name."""
        with self._alone():
            known = self.all()
            if name not in known:
                return False
            self.write({other: options for other, options in known.items() if other != name})
            return True

    def write(self, known: Mapping[str, Mapping[str, str]]) -> None:
        """Keep these catalogs and no others."""
        write_private(self.file, json.dumps(known, indent=2, sort_keys=True))

    def _alone(self) -> AbstractContextManager[None]:
        """Keeps others away from the file while it is read and written over."""
        return FileLock(str(self._home / "locks")).hold(str(self.file))

    def check(self, name: str, options: Mapping[str, Any]) -> None:
        """Raise InvalidRequest for options that cannot be kept here: there are none."""
        return

    def lineage_url(self, name: str, options: Mapping[str, Any]) -> str:
        """Where the lineage of a catalog lies that does not say so: in a file of the home."""
        return f"jdbc:sqlite:{self._home / f'lineage-{name}.db'}"


class PlatformCatalogs:
    """Options by name in the platform's lineage database. It is read when a catalog is asked for that is not the default one,
    and what was read is used for a few seconds, and for as long as the database is away.
    """

    def __init__(self, records: CatalogRecords, url: str, setting: str, clock: Clock | None = None) -> None:
        """`url`: that of the database, a server's, secrets plain; `setting`: what gave it, for messages."""
        self._records = records
        self._url = url
        self._setting = setting
        self._clock = clock or Clock()
        self._read: Written | None = None
        self._read_ms = 0

    @property
    def remembered(self) -> Written | None:
        """What was read last, without asking; None if nothing was."""
        return self._read

    def all(self) -> Written:
        """Options by name, as they were given, of this moment. Raises LineageUnavailable; CorruptData that names a catalog."""
        read = self._records.all()
        self._read, self._read_ms = read, self._clock.now_ms()
        return read

    def known(self, *names: str) -> Written:
        """As `all`, or as it was a moment ago if that has these names. What was read before stays known while the database is
        away, if it has them.
        """
        read, age_ms = self._read, self._clock.now_ms() - self._read_ms
        is_enough = read is not None and all(name in read for name in names)
        if read is not None and is_enough and 0 <= age_ms <= _AGE_MS:
            return read
        try:
            return self.all()
        except LineageUnavailable:
            if read is None or not is_enough:
                raise
            return read

    def insert(self, name: str, options: Mapping[str, str]) -> bool:
        """Register a catalog; false if there is one of that name, which stays. Raises LineageUnavailable."""
        is_new = self._records.insert(name, options)
        self._read = None
        return is_new

    def delete(self, name: str) -> bool:
        """Forget a catalog; false if there is none of that name. Raises LineageUnavailable."""
        is_gone = self._records.delete(name)
        self._read = None
        return is_gone

    def check(self, name: str, options: Mapping[str, Any]) -> None:
        """Raise InvalidRequest for options of a new catalog that others would read, or that mean something else on each host."""
        if plain := sorted(plain_secrets(options)):
            raise InvalidRequest(
                f"Catalog {name!r}: {', '.join(map(repr, plain))} would stand in the database of {self._setting}, where others "
                "read it. Write '${env:NAME}' in place of the secret, and set that variable on every host."
            )
        if not is_of_jdbc(options):
            return
        asked = revealed({key: value for key, value in options.items() if key in ("jdbc.url", "jdbc.database")})
        if not asked.get("jdbc.url"):
            asked["jdbc.url"] = self.lineage_url(name, options)
        elif not is_of_server(asked["jdbc.url"]):
            raise InvalidRequest(
                f"Catalog {name!r}: 'jdbc.url' is a file, which each host would have for itself, while all hosts know the "
                f"catalog. Name a database on a server, or leave it out: lineage then lies beside that of {self._setting}."
            )
        if server_database(asked) == server_database({"jdbc.url": self._url}):
            raise InvalidRequest(
                f"Catalog {name!r}: its lineage would lie in the database of {self._setting}, which tells tables apart by their "
                "names alone. Give 'jdbc.database' another name, or leave it and 'jdbc.url' out."
            )

    def lineage_url(self, name: str, options: Mapping[str, Any]) -> str:
        """Where the lineage of a catalog lies that does not say so: in a database of its own on the server of the platform's.
        Raises InvalidRequest for a name that no database can have.
        """
        if given := revealed(options.get("jdbc.database", "")):
            return on_same_server(self._setting, self._url, given)
        database = f"{server_database({'jdbc.url': self._url})[-1]}_catalog_{name}"
        if not _NAME_CHARACTERS.issuperset(name) or len(database.encode()) > _DATABASE_NAME_BYTES:
            raise InvalidRequest(
                f"Catalog {name!r}: no lineage database can be called {database!r}: a name has letters, digits, _ and -, "
                f"{_DATABASE_NAME_BYTES} at the most. Give 'jdbc.database'."
            )
        return on_same_server(self._setting, self._url, database)
