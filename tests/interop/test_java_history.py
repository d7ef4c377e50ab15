"""Random histories in which this store and Java change a table in turn: after each step both read all versions alike."""

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, Table
from tests import scale
from tests.interop.java_paimon import VERSION, JavaPaimon
from tests.interop.second_reader import JavaReader, read_alike

SEEDS = scale.seeds(4, 400, full=40)
STEPS = 12
NAME = "both.t"
COLUMNS = {
    "day": "STRING NOT NULL",
    "id": "INT NOT NULL",
    "n": "BIGINT",
    "price": "DECIMAL(12, 2)",
    "at": "TIMESTAMP(6)",
    "text": "STRING",
}
ENGINES = {
    "deduplicate": {},
    "partial-update": {},
    "first-row": {"changelog-producer": "lookup"},
    "aggregation": {
        "fields.n.aggregate-function": "sum",
        "fields.price.aggregate-function": "max",
        "fields.at.aggregate-function": "min",
        "fields.text.aggregate-function": "last_non_null_value",
    },
}


class History:
    """A table, and random changes of it."""

    def __init__(self, seed: int, directory: Path, java: JavaPaimon) -> None:
        self.random = random.Random(seed)
        self.java = java
        self.reader = JavaReader(java)
        self.warehouse = str(directory)
        self.catalog = Catalog(self.warehouse)
        self.keyed = self.random.random() < 0.75
        self.engine = self.random.choice(list(ENGINES)) if self.keyed else None
        self.partitioned = self.random.random() < 0.4
        self.tags = 0
        self.steps: list[str] = []
        self._create()

    @property
    def ours(self) -> Table:
        return self.catalog.table(NAME)

    def _create(self) -> None:
        file_format = self.random.choice(["parquet", "parquet", "orc", "avro"])
        options = {"file.format": file_format}
        if self.keyed:
            assert self.engine is not None
            bucket = self.random.choice([1, 2, -1])
            options |= {"bucket": str(bucket), "merge-engine": self.engine, **ENGINES[self.engine]}
            if bucket < 0:
                options["dynamic-bucket.target-row-num"] = "7"
            if self.engine != "first-row":
                options["changelog-producer"] = self.random.choice(["none", "input", "lookup", "full-compaction"])
                if options["changelog-producer"] != "full-compaction":
                    options["force-lookup"] = str(self.random.random() < 0.3).lower()
                    options |= self._deletion_vectors(0.4)
        else:
            options |= self._deletion_vectors(0.5)
        key = (["day", "id"] if self.partitioned else ["id"]) if self.keyed else []
        partition_by = ["day"] if self.partitioned else []
        self.steps.append(f"create {options} key {key} partitions {partition_by}")
        # Java's statement makes the schema in either case, so that the columns have the types of the format.
        self.java.create(self.warehouse, NAME, COLUMNS, partition_by=partition_by, primary_key=key, options=options)

    def _deletion_vectors(self, share: float) -> dict[str, str]:
        """Options by which a share of the tables has deletion vectors."""
        if self.random.random() >= share:
            return {}
        return {
            "deletion-vectors.enabled": "true",
            # 1.0 knows those of 32 bits.
            "deletion-vectors.bitmap64": str(self.random.random() < 0.5 and not VERSION.startswith("1.0")).lower(),
        }

    # --- steps

    def rows(self) -> pa.Table:
        """New rows, with nulls where the columns allow them. A key occurs once: their order is then of no account."""
        count = self.random.randint(1, 12)
        ids = self.random.sample(range(30), count)
        maybe = self._maybe
        values = [
            {
                "day": self.random.choice("ab"),
                "id": number,
                "n": maybe(self.random.randint(-5, 5)),
                "price": maybe(Decimal(self.random.randint(-999, 999)) / 4),
                "at": maybe(dt.datetime(2024, 1, 1, 0, 0, self.random.randrange(60), self.random.randrange(10**6))),
                "text": maybe(self.random.choice(["", "a", "longer than sixteen characters", "é"])),
            }
            for number in ids
        ]
        return pa.Table.from_pylist(values, self.ours.schema.to_arrow())

    def _maybe(self, value: Any) -> Any:
        return None if self.random.random() < 0.2 else value

    def write(self, by_java: bool, branch: str | None) -> None:
        rows = self.rows()
        if by_java:
            name = NAME if branch is None else f"{NAME}$branch_{branch}"
            self.java.write(self.warehouse, name, rows, self.ours.schema.fields)
        else:
            (self.ours if branch is None else self.ours.on_branch(branch)).write(rows)

    def delete(self, by_java: bool, branch: str | None) -> None:
        table = self.ours if branch is None else self.ours.on_branch(branch)
        if not by_java or self.engine != "deduplicate":
            if self.engine in (None, "deduplicate"):
                table.delete(self._some())
            return
        rows = table.to_arrow(where=self._some())
        name = NAME if branch is None else f"{NAME}$branch_{branch}"
        self.java.write(self.warehouse, name, rows, table.schema.fields, kinds=["-D"] * rows.num_rows)

    def _some(self) -> str:
        return f"id IN ({', '.join(map(str, self.random.sample(range(30), 8)))})"

    def overwrite(self, by_java: bool, branch: str | None) -> None:
        table = self.ours if branch is None else self.ours.on_branch(branch)
        rows = self.rows()
        if not by_java:
            table.overwrite(rows)
        else:
            name = NAME if branch is None else f"{NAME}$branch_{branch}"
            self.java.write(self.warehouse, name, rows, table.schema.fields, overwrite={})

    def compact(self, by_java: bool, branch: str | None) -> None:
        if self.ours.snapshot() is None:
            # Java's compaction of an empty table without buckets fails.
            return
        if by_java:
            name = NAME if branch is None else f"{NAME}$branch_{branch}"
            self.java.ask(self.warehouse, name, "compact", full=True)
        else:
            (self.ours if branch is None else self.ours.on_branch(branch)).compact()

    def tag(self, by_java: bool, branch: str | None) -> None:
        self.tags += 1
        name = f"t{self.tags}"
        if self.ours.snapshot() is None:
            return
        if by_java:
            self.java.ask(self.warehouse, NAME, "create tag", tag=name)
        else:
            self.ours.tags.create(name)

    def delete_tag(self, by_java: bool, branch: str | None) -> None:
        # A branch's tag keeps its files from Java.
        held = {f"of_{name}" for name in self.ours.branches.names()}
        names = [tag.name for tag in self.ours.tags.list() if tag.name not in held]
        if not names:
            return
        if by_java:
            self.java.ask(self.warehouse, NAME, "delete tag", tag=self.random.choice(names))
        else:
            self.ours.tags.delete(self.random.choice(names))

    def branch(self, by_java: bool, branch: str | None) -> None:
        self.tags += 1
        name = f"b{self.tags}"
        if self.ours.snapshot() is None or len(self.ours.branches.names()) > 1:
            return
        self.ours.tags.create(f"of_{name}")
        if by_java:
            self.java.ask(self.warehouse, NAME, "create branch", branch=name, tag=f"of_{name}")
        else:
            self.ours.branches.create(name, tag=f"of_{name}")

    def expire(self, by_java: bool, branch: str | None) -> None:
        retain = self.random.randint(1, 4)
        if by_java:
            self.java.ask(self.warehouse, NAME, "expire", retain=retain)
        else:
            self.ours.expire(retain_last=retain)

    def clean(self, by_java: bool, branch: str | None) -> None:
        if by_java:
            before = int(dt.datetime(2100, 1, 1, tzinfo=dt.UTC).timestamp() * 1000)
            self.java.ask(self.warehouse, NAME, "clean orphans", before_ms=before)
        else:
            self.ours.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)

    def rollback(self, by_java: bool, branch: str | None) -> None:
        latest = self.ours.snapshot()
        earlier = None if latest is None else latest.id - self.random.randint(1, 3)
        if earlier is None or earlier not in self.ours.store.snapshots.ids():
            return
        # Java's own deletes snapshots: tags on them go with it.
        if by_java:
            self.java.ask(self.warehouse, NAME, "rollback", snapshot=earlier)
        else:
            self.ours.rollback_to(earlier)

    # --- what is compared

    def compare(self) -> int:
        """Fail unless both read main, every branch, every tag and every snapshot alike; returns how many that were."""
        table = self.ours
        count = 0
        versions: list[tuple[str, Table, dict[str, str], Any]] = [(NAME, table, {}, None)]
        versions += [(f"{NAME}$branch_{name}", table.on_branch(name), {}, None) for name in table.branches.names()]
        versions += [(NAME, table, {"scan.tag-name": tag.name}, tag.name) for tag in table.tags.list()]
        snapshots = table.store.snapshots.ids()
        versions += [
            (NAME, table, {"scan.snapshot-id": str(snapshot_id)}, snapshot_id) for snapshot_id in snapshots[-3:]
        ]
        for name, part, options, version in versions:
            rows = part.to_arrow(version=version)
            assert rows.num_rows < 1 or self.engine is None or len(set(self._keys(rows))) == rows.num_rows
            read_alike(self.reader, self.warehouse, name, rows, options)
            count += 1
        assert not table.check(deep=True)
        return count

    def _keys(self, rows: pa.Table) -> list[Any]:
        return [tuple(row[name] for name in self.ours.schema.primary_keys) for row in rows.to_pylist()]

    def run(self) -> int:
        """Take steps; returns the number of comparisons."""
        actions: dict[Callable[[bool, str | None], None], int] = {
            self.write: 10,
            self.delete: 3,
            self.overwrite: 1,
            self.compact: 3,
            self.tag: 2,
            self.delete_tag: 1,
            self.branch: 2,
            self.expire: 2,
            self.clean: 1,
            self.rollback: 1,
        }
        compared = 0
        try:
            for _ in range(STEPS):
                action = self.random.choices(list(actions), list(actions.values()))[0]
                by_java = self.random.random() < 0.5
                branch = self.random.choice([None, None, *self.ours.branches.names()])
                self.steps.append(f"{'Java' if by_java else 'ours'} {action.__name__} on {branch or 'main'}")
                action(by_java, branch)
                compared += self.compare()
        except BaseException as error:
            error.add_note("\n".join(self.steps))
            raise
        return compared


@pytest.mark.parametrize("chosen", scale.blocks(SEEDS, 2), ids=str)
def test_both_change_a_table_in_turn_and_read_the_same(chosen: list[int], java: JavaPaimon, tmp_path: Path) -> None:
    scale.try_seeds(lambda seed, directory: History(seed, directory, java).run(), chosen, tmp_path)
