"""A platform after a random history: renamed tables, numbers given twice, expired snapshots, branches, two catalogs."""

import random
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from lineage import sources_property
from resources import Session
from storage import CommitId, SnapshotRef, StorageError, Table

SCHEMA = pa.schema([("id", pa.int64())])


class RandomPlatform:
    """Makes snapshots, and remembers which it has made."""

    def __init__(self, session: Session, chance: random.Random, directory: Path) -> None:
        self._session = session
        self._chance = chance
        self.refs: list[SnapshotRef] = []
        self._names = ["raw.a", "raw.b", "core.c", "core.d", "mart.e"]
        session.sql(f"CREATE CATALOG other WITH ('warehouse' = '{directory / 'other'}')", "duckdb")

    def live(self, steps: int) -> None:
        """Let so many things happen."""
        happenings = [
            (0.55, self._write),
            (0.63, self._compact),
            (0.70, self._roll_back),
            (0.76, self._expire),
            (0.81, self._rename),
            (0.86, self._make_anew),
            (0.93, self._branch),
            (0.97, self._merge),
            (1.0, self._tag),
        ]
        for _ in range(steps):
            at = self._chance.random()
            happen = next(act for limit, act in happenings if at <= limit)
            try:
                happen()
            except StorageError:
                # Not everything can be done at every moment.
                continue

    def _table(self) -> tuple[str, Table]:
        catalog = self._chance.choice(["snapline", "snapline", "snapline", "other"])
        name = self._chance.choice(self._names)
        opened = self._session.catalog_of(catalog)
        return catalog, opened.create_table(name, SCHEMA, if_not_exists=True)

    def _write(self) -> None:
        catalog, table = self._table()
        branches = [None, *table.branches.names()]
        branch = self._chance.choice(branches)
        self._commit(catalog, table if branch is None else table.on_branch(branch))

    def _commit(self, catalog: str, table: Table) -> None:
        known = [ref for ref in self.refs if (ref.catalog, ref.table) != (catalog, table.identifier.table)]
        sources = self._chance.sample(known, min(len(known), self._chance.randrange(4)))
        barrier = self._chance.getrandbits(40)
        table.write(
            pa.table({"id": [barrier]}),
            commit_id=CommitId(f"job of {table.identifier.table}", barrier, exact=True),
            properties=sources_property(sources),
        )
        ref = table.ref()
        assert ref is not None
        self.refs.append(ref)

    def _compact(self) -> None:
        self._table()[1].compact(full=True)

    def _roll_back(self) -> None:
        table = self._table()[1]
        ids = [snapshot.id for snapshot in table.history().snapshots]
        if len(ids) > 1:
            table.rollback_to(self._chance.choice(ids[:-1]))

    def _expire(self) -> None:
        self._table()[1].expire(retain_last=self._chance.randrange(1, 4), older_than=timedelta(0))

    def _rename(self) -> None:
        index = self._chance.randrange(len(self._names))
        new = f"{self._names[index].rstrip('0123456789')}{self._chance.randrange(100)}"
        if new not in self._names:
            self._session.catalog.rename_table(self._names[index], new)
            self._names[index] = new

    def _make_anew(self) -> None:
        name = self._chance.choice(self._names)
        self._session.catalog.drop_table(name)
        if self._chance.random() < 0.7:
            self._commit("snapline", self._session.catalog.create_table(name, SCHEMA))

    def _branch(self) -> None:
        _, table = self._table()
        ids = [snapshot.id for snapshot in table.history().snapshots]
        if ids:
            table.branches.create(self._chance.choice(["fix", "try"]), snapshot_id=self._chance.choice(ids))

    def _merge(self) -> None:
        _, table = self._table()
        for name in table.branches.names()[:1]:
            table.branches.merge(name, discard_main=self._chance.random() < 0.5)
            if self._chance.random() < 0.5:
                table.branches.delete(name)

    def _tag(self) -> None:
        table = self._table()[1]
        if table.snapshot() is not None:
            table.tags.create(f"tag{self._chance.randrange(1000)}", replace=True)
