"""Everything that changes or reads a table, each by a name: what one process does while others do something else."""

import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from storage import AddColumn, Catalog, CommitId, SetOptions, Table, Unfinished
from storage.consumers import Consumption
from storage.engines.duckdb_merge import merge_rows
from storage.engines.merge_clauses import MergeClause
from storage.read.split_read import ReadRequest
from storage.read.stream_scan import NOTHING_READ, StartUp, first_position, next_position, plan_step
from tests.interleavings.memory_files import Killed, Process, Step

ORDERS, STOCK, BILLS = "shop.orders", "shop.stock", "shop.bills"
OLD_DAY, DAY, NEXT_DAY = "2023-01-01", "2023-11-14", "2023-11-15"
SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("v", pa.int64()), ("w", pa.int64())])
ALL = [ORDERS, STOCK]
DAY_MS = 86_400_000
KEYED, PLAIN, EXPIRING, TOLD, HALF = "keyed", "plain", "expiring", "told", "half published"
COMPACTED, LATE, DYNAMIC = "compacted", "late", "dynamic buckets"
# With deletion vectors, with a key and without.
MARKED, MARKED_PLAIN = "marked", "marked plain"
KEYLESS = (PLAIN, MARKED_PLAIN)
# A compaction tells of each write, in complete changes.
LOOKED_UP = "looked up"
# Their tables have index files, or changelogs, beside the data.
INDEXED = (DYNAMIC, MARKED, MARKED_PLAIN, LOOKED_UP)
# A commit that has landed, and expired.
_LONG_AGO = CommitId("long ago", 1, exact=True)
# Where a writer has left what it is to commit.
_WRITTEN = "/written"
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    KEYED: {"bucket": 1},
    PLAIN: {},
    EXPIRING: {"bucket": 1, "snapshot.num-retained.min": 1, "snapshot.num-retained.max": 2},
    HALF: {"bucket": 1},
    TOLD: {
        "bucket": 1,
        "changelog-producer": "input",
        "changelog.num-retained.min": 3,
        "changelog.num-retained.max": 5,
    },
    COMPACTED: {"bucket": 1},
    LATE: {"bucket": 1},
    DYNAMIC: {"bucket": -1, "dynamic-bucket.target-row-num": 2},
    MARKED: {"bucket": 1, "deletion-vectors.enabled": True},
    MARKED_PLAIN: {"deletion-vectors.enabled": True, "deletion-vectors.bitmap64": True},
    LOOKED_UP: {"bucket": 1, "changelog-producer": "lookup"},
}
SCENARIOS = tuple(_OPTIONS)
Act = Callable[[Catalog], Any]


def rows(*ids: int, day: str = DAY, v: int = 1) -> pa.Table:
    return pa.table({"day": [day] * len(ids), "id": list(ids), "v": [v] * len(ids), "w": [v] * len(ids)}, SCHEMA)


def prepare(catalog: Catalog, scenario: str) -> None:
    """Two tables with a branch `fix`; the first has expired history, tags, a consumer, and partitions, one of them old.

    HALF: a publication of the branch has come as far as the second table. COMPACTED: the first has been compacted since the
    branch was made, so that the branch's files cannot be put on top one by one. LATE: a writer has written files, and two
    days have passed.
    """
    key = {} if scenario in KEYLESS else {"primary_key": ["day", "id"]}
    options = {**_OPTIONS[scenario], "partition.expiration-time": "30 d"}
    orders = catalog.create_table(ORDERS, SCHEMA, partition_by=["day"], options=options, **key)
    orders.write(rows(1, 2, day=OLD_DAY), commit_id=_LONG_AGO)
    orders.tags.create("first")
    orders.write(rows(1, 2))
    orders.overwrite(rows(1, 2, 3, v=2), partition={"day": DAY})
    orders.tags.create("second")
    orders.write(rows(4, v=3))
    if scenario == MARKED_PLAIN:
        orders.delete("id = 1")
    stock = catalog.create_table(STOCK, SCHEMA, primary_key=["id"], options={"bucket": 1})
    stock.write(rows(1, 2))
    catalog.branch_set("fix", ALL).create()
    for table in (orders, stock):
        table.on_branch("fix").write(rows(2, 5, v=50))
    orders.on_branch("fix").overwrite(rows(2, 6, v=60))
    orders.branches.create("old", tag="first")
    if scenario != EXPIRING:
        orders.consumers.reset("feed", 4)
    if scenario == COMPACTED:
        orders.compact()
    orders.expire(retain_last=3)
    if scenario == LATE:
        writer = orders.new_write()
        writer.write(rows(8, v=8))
        orders.store.file_io.write_bytes(_WRITTEN, pickle.dumps(writer.prepare_commit()))
        orders.store.clock.pass_ms(2 * DAY_MS)
    if scenario == HALF:
        catalog.table(STOCK).store.file_io.process.before = _die_on_stock
        with suppress(Killed):
            _publish(catalog)


def _die_on_stock(process: Process, step: Step) -> None:
    if step.name == "create" and "/stock/snapshot/" in step.path:
        raise Killed


@dataclass(frozen=True)
class Operation:
    """`act` is done by one process. `sees`: what it returns is what it saw of the tables.

    `may_remain`: where it fails, its effect may be there, or come by `recover`. `repeat`: what another process does after
    this one has died; by default the same. `only_second`: it is several calls, between which others may come.
    `once`: its commit has an id, so that it lands once, however often it is done. `goes_on`: the repetition ends what has
    begun, which may have been seen before; where that had ended already, it does it again. `takes_away`: what others have
    found before may be gone then, and they may be told so. `begins_with`: the operation that is all that has happened if it
    fails, or nothing has.
    """

    name: str
    act: Act
    sees: bool = False
    may_remain: bool = False
    repeat: Act | None = None
    scenarios: tuple[str, ...] = (KEYED,)
    only_second: bool = False
    once: bool = False
    goes_on: bool = False
    takes_away: bool = False
    begins_with: str | None = None

    def again(self) -> "Operation":
        """What another process does after this one has died."""
        return replace(self, act=self.repeat or self.act)


def orders(act: Callable[[Table], Any]) -> Act:
    return lambda catalog: act(catalog.table(ORDERS))


def held(table: Table, version: Any = None) -> list[tuple[Any, ...]]:
    """The rows, in order."""
    return ordered(table.to_arrow(version=version).select(SCHEMA.names))


def ordered(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=str)


def _merge_into(table: Table) -> Any:
    source = pa.table({"day": [DAY, DAY], "id": [2, 8], "add": [10, 10]})
    clauses = [
        MergeClause("matched", "update", None, {"v": "target.v + source.add"}),
        MergeClause("not matched", "insert", None, {"day": "source.day", "id": "source.id", "v": "1", "w": "1"}),
    ]
    return merge_rows(table, source, ["day", "id"], clauses, commit_id=CommitId("merger", 1, exact=True))


def _drop_and_create(catalog: Catalog) -> None:
    catalog.drop_table(ORDERS)
    made = catalog.create_table(ORDERS, SCHEMA, primary_key=["day", "id"], partition_by=["day"], options={"bucket": 1})
    for id_ in (100, 101, 102, 103):
        made.write(rows(id_))


def _follow(table: Table) -> list[tuple[Any, ...]]:
    """One step of a stream that remembers its place, as Spark makes it: what it read."""
    consumption = Consumption(table.store, "feed")
    known = consumption.position()
    position = first_position(table.store, StartUp()) if known is None else known
    end = next_position(table.store, position, snapshots_at_once=None)
    if end == position:
        table.store.refuse_other_table()
        return []
    consumption.record(position if position != NOTHING_READ else end - 1)
    request = ReadRequest(table.store, tuple(SCHEMA.names), None)
    batches = [batch for split in plan_step(request, position, end) for batch in split.read()]
    consumption.record(end)
    if not batches:
        return []
    return ordered(pa.Table.from_batches(batches).drop_columns(["snapshot_id"]))


def _commit_late(catalog: Catalog) -> None:
    """What was written two days ago."""
    table = catalog.table(ORDERS)
    message = pickle.loads(table.store.file_io.read_bytes(_WRITTEN))
    table.commit_messages([message], commit_id=CommitId("late", 1, exact=True))


def _wait_and_clean(catalog: Catalog) -> None:
    catalog.table(ORDERS).store.clock.pass_ms(2 * DAY_MS)
    catalog.table(ORDERS).remove_orphan_files()


def _rename(catalog: Catalog) -> None:
    catalog.rename_table(ORDERS, BILLS)


def _several_writes(catalog: Catalog) -> None:
    for id_ in (70, 71, 72):
        catalog.table(ORDERS).write(rows(id_, day=NEXT_DAY))


def _writes_and_expiry(catalog: Catalog) -> None:
    _several_writes(catalog)
    _expire_all(catalog)


def _expire_all(catalog: Catalog) -> None:
    """All that others may have seen expires: the consumer goes on as well."""
    table = catalog.table(ORDERS)
    table.consumers.reset("feed", table.store.snapshots.latest_id() or 1)
    table.expire(retain_last=1)


def _view(catalog: Catalog) -> Any:
    return [held(table) for table in catalog.consistent(ALL).values()]


def _check(table: Table) -> list[str]:
    """What is broken; what others are about is theirs."""
    return [str(problem) for problem in table.check() if not isinstance(problem, Unfinished)]


def _undo(catalog: Catalog) -> None:
    catalog.recover(undo=True)


def _publish(catalog: Catalog) -> None:
    catalog.branch_set("fix", ALL).publish()


def _delete_by_new_name(catalog: Catalog) -> None:
    """Whoever goes on with it calls the table what it is called by then."""
    catalog.branch_set("fix", [BILLS if catalog.exists(BILLS) else ORDERS, STOCK]).delete()


def _recover_and_publish(catalog: Catalog) -> None:
    if not catalog.recover():
        _publish(catalog)


def _write_to_adopt(catalog: Catalog) -> None:
    catalog.table(f"{ORDERS}$branch_fix").write(rows(7, v=7), commit_id=CommitId("job", 1, exact=True))


def _write_and_adopt(catalog: Catalog) -> None:
    """What `write` commits to main lands on the branch under the same id, and comes to main with all the branch holds."""
    until = catalog.table(ORDERS).store.snapshots.latest_id() or 0
    _write_to_adopt(catalog)
    catalog.table(ORDERS).branches.adopt("fix", until=until, commit_id=CommitId("adopter", 1, exact=True))


ROWS = (KEYED, PLAIN, DYNAMIC, MARKED, MARKED_PLAIN, LOOKED_UP)
OPERATIONS = {
    operation.name: operation
    for operation in [
        Operation(
            "write",
            orders(lambda table: table.write(rows(7, v=7), commit_id=CommitId("job", 1, exact=True))),
            scenarios=SCENARIOS,
            once=True,
        ),
        Operation(
            "write elsewhere",
            orders(lambda table: table.write(rows(1, day=NEXT_DAY))),
            scenarios=(KEYED, HALF, COMPACTED, DYNAMIC),
        ),
        Operation(
            "write without id",
            orders(lambda table: table.write(rows(2, v=17))),
            scenarios=(KEYED, EXPIRING, TOLD, DYNAMIC),
        ),
        # Keys that others have as well, in another order: whoever is alone gives them other buckets.
        Operation(
            "write new keys", orders(lambda table: table.write(rows(12, 11, 10, 7, 6, 5, v=12))), scenarios=(DYNAMIC,)
        ),
        Operation(
            "write what has expired",
            orders(lambda table: table.write(rows(9), commit_id=_LONG_AGO) and None),
            scenarios=(EXPIRING,),
        ),
        Operation("several writes", _several_writes, only_second=True),
        Operation("expire all", _expire_all, scenarios=()),
        Operation("writes and expiry", _writes_and_expiry, only_second=True, takes_away=True, scenarios=SCENARIOS),
        Operation(
            "write to fix",
            lambda catalog: catalog.table(f"{ORDERS}$branch_fix").write(rows(2, v=70)),
            scenarios=(KEYED, COMPACTED, DYNAMIC),
        ),
        Operation(
            "stream write",
            orders(lambda table: table.write(rows(3, v=33), commit_id=CommitId("stream", 7))),
            once=True,
            scenarios=(KEYED, PLAIN, TOLD),
        ),
        Operation(
            "overwrite",
            orders(lambda table: table.overwrite(rows(10, v=10), partition={"day": DAY})),
            scenarios=(*ROWS, TOLD),
        ),
        Operation("delete", orders(lambda table: table.delete("id = 3")), scenarios=ROWS),
        Operation("update", orders(lambda table: table.update("id = 2", {"v": 500})), scenarios=ROWS),
        Operation("update other", orders(lambda table: table.update("id = 2", {"w": 600})), scenarios=ROWS),
        Operation("merge into", orders(_merge_into), once=True, scenarios=ROWS),
        Operation("compact", orders(lambda table: table.compact()), scenarios=SCENARIOS),
        Operation("rescale", orders(lambda table: table.rescale(2)), may_remain=True),
        Operation("add column", orders(lambda table: table.alter(AddColumn("note", pa.string())) and None)),
        Operation("set option", orders(lambda table: table.alter(SetOptions({"write-only": "true"})) and None)),
        Operation("create tag", orders(lambda table: table.tags.create("new", snapshot_id=2)), scenarios=(KEYED, HALF)),
        Operation("replace tag", orders(lambda table: table.tags.create("second", replace=True))),
        Operation("rename tag", orders(lambda table: table.tags.rename("second", "renamed"))),
        Operation("delete tag", orders(lambda table: table.tags.delete("second"))),
        Operation("delete last holder", orders(lambda table: table.tags.delete("first"))),
        Operation("create branch", orders(lambda table: table.branches.create("mine", snapshot_id=2))),
        Operation("branch from latest", orders(lambda table: table.branches.create("mine"))),
        Operation("branch from tag", orders(lambda table: table.branches.create("mine", tag="first"))),
        Operation("delete branch", orders(lambda table: table.branches.delete("fix")), scenarios=(KEYED, HALF)),
        Operation("merge", orders(lambda table: table.branches.merge("fix")), scenarios=(*ROWS, HALF, COMPACTED)),
        Operation(
            "fast forward", orders(lambda table: table.branches.fast_forward("fix")), scenarios=(KEYED, COMPACTED)
        ),
        Operation(
            "replace main",
            orders(lambda table: table.branches.replace_main("fix")),
            takes_away=True,
            scenarios=(KEYED, HALF),
        ),
        Operation(
            "write and adopt",
            _write_and_adopt,
            only_second=True,
            may_remain=True,
            scenarios=ROWS,
            begins_with="write to adopt",
        ),
        Operation("write to adopt", _write_to_adopt, may_remain=True, scenarios=()),
        Operation(
            "publish", _publish, may_remain=True, repeat=_recover_and_publish, goes_on=True, scenarios=(KEYED, HALF)
        ),
        Operation("recover", lambda catalog: catalog.recover() and None, may_remain=True, scenarios=(KEYED, HALF)),
        Operation("undo", _undo, may_remain=True, scenarios=(KEYED, HALF)),
        Operation(
            "insist", lambda catalog: catalog.recover(discard_main=True) and None, may_remain=True, scenarios=(HALF,)
        ),
        Operation(
            "delete branch set",
            lambda catalog: catalog.branch_set("fix", ALL).delete(),
            may_remain=True,
            repeat=_delete_by_new_name,
            scenarios=(KEYED, HALF),
        ),
        Operation("rollback", orders(lambda table: table.rollback_to(2)), scenarios=(*ROWS, TOLD, HALF, COMPACTED)),
        Operation("rollback to tag", orders(lambda table: table.rollback_to("first"))),
        Operation("expire", orders(lambda table: table.expire(retain_last=1)), scenarios=SCENARIOS),
        Operation("expire tags", orders(lambda table: table.tags.expire())),
        Operation("expire partitions", orders(lambda table: table.expire_partitions())),
        Operation("clean", orders(lambda table: table.remove_orphan_files()), scenarios=(*ROWS, LATE)),
        Operation("wait and clean", _wait_and_clean, scenarios=(*ROWS, LATE)),
        Operation("commit late", _commit_late, once=True, scenarios=(LATE,)),
        Operation("drop table", lambda catalog: catalog.drop_table(ORDERS), scenarios=(KEYED, HALF)),
        Operation("drop and create", _drop_and_create, only_second=True, takes_away=True, scenarios=(KEYED, HALF)),
        Operation("rename table", _rename, scenarios=(KEYED, HALF)),
        Operation("create table", lambda catalog: catalog.create_table(BILLS, SCHEMA) and None),
        Operation("stream read", orders(_follow), sees=True, scenarios=(*ROWS, TOLD)),
        Operation("new consumer", orders(lambda table: table.consumers.reset("late", 2))),
        Operation("delete consumer", orders(lambda table: table.consumers.delete("feed"))),
        Operation("read", orders(held), sees=True, scenarios=SCENARIOS),
        Operation("read tag", orders(lambda table: held(table, "second")), sees=True),
        Operation("read fix", lambda catalog: held(catalog.table(f"{ORDERS}$branch_fix")), sees=True),
        Operation("consistent view", _view, sees=True, scenarios=(KEYED, HALF)),
        Operation("check", orders(_check), sees=True),
    ]
}
