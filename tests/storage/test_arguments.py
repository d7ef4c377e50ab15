"""Wrong arguments of public calls end in errors of the store, whatever they are."""

import datetime as dt
import inspect
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import storage
from storage import (
    Basis,
    Catalog,
    CommitId,
    FixedClock,
    InvalidRequest,
    Notes,
    Overwrite,
    SchemaChange,
    SetOptions,
    StorageError,
    Table,
    TakenNewest,
)
from storage.branch_set import BranchSet
from storage.branches import Branches
from storage.consumers import Consumers
from storage.journal import Publication
from storage.log.read import LogStream
from storage.read.predicate import Comparison
from storage.read.scan import Scan
from storage.snapshots import Snapshots
from storage.tags import Tags
from storage.write.commit import TableCommit
from storage.write.table_write import TableWrite

SCHEMA = pa.schema([("id", pa.int64()), ("item", pa.string())])
ROWS = pa.table({"id": [1], "item": ["x"]}, SCHEMA)
WRONG: list[Any] = [
    None,
    1.5,
    "",
    "a",
    " ",
    "\0",
    "x\0y",
    "\ud800",
    "../x",
    "a" * 300,
    object(),
    {},
    {"a": 1},
    {None: None},
    [],
    [None],
    ["\0"],
    [object()],
    (),
    set(),
    0,
    -1,
    10**30,
    -(10**30),
    10**5000,
    2**63 - 1,
    float("nan"),
    float("inf"),
    True,
    b"x",
    dt.datetime(1, 1, 1),
    dt.datetime.max,
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.date(2024, 1, 1),
    dt.timedelta.max,
    dt.timedelta(-1),
    dt.timedelta.min,
    ROWS,
    pa.table({}),
    Exception(),
    iter([1]),
]


class Ground:
    """A warehouse in which the right arguments of every call mean something."""

    def __init__(self, directory: Path) -> None:
        self.catalog = Catalog(str(directory), clock=FixedClock())
        self.table = self.catalog.create_table("shop.orders", SCHEMA, primary_key=["id"], options={"bucket": 1})
        self.days = self.catalog.create_table(
            "shop.days",
            pa.schema([("day", pa.string()), ("n", pa.int64())]),
            partition_by=["day"],
            options={"partition.expiration-time": "1 d"},
        )
        self.days.write(pa.table({"day": ["2023-01-01"], "n": [1]}))
        self.catalog.create_database("empty")
        self.catalog.create_table("shop.plain", SCHEMA)
        self.table.write(ROWS)
        self.table.tags.create("t")
        self.table.branches.create("b")
        self.table.on_branch("b").write(ROWS)
        self.table.consumers.reset("c", 1)
        self.catalog.notes("plans").create("n", {"a": 1})

    def subject(self, kind: type, method: str) -> Any:
        subjects: dict[type, Callable[[], Any]] = {
            Table: lambda: self.days if "partition" in method or method == "contributors" else self.table,
            Catalog: lambda: self.catalog,
            Tags: lambda: self.table.tags,
            Branches: lambda: self.table.branches,
            Consumers: lambda: self.table.consumers,
            Notes: lambda: self.catalog.notes("plans"),
            BranchSet: lambda: self.catalog.branch_set("b" if method != "create" else "fresh", ["shop.orders"]),
            Basis: lambda: Basis(self.table.store, self.table.snapshot()),
            Snapshots: lambda: (
                (self.days if "partition" in method or method == "contributors" else self.table).snapshots
            ),
            TableWrite: self.table.new_write,
            TableCommit: self.table.new_commit,
        }
        return subjects[kind]()

    def right(self, kind: type, method: str, parameter: str) -> Any:
        """An argument that a call takes. Who adds a parameter that must be given adds one here."""
        of_one: dict[tuple[type, str, str], Any] = {
            (Notes, "change", "change"): lambda _: {},
            (Tags, "create", "name"): "fresh",
            (Tags, "rename", "new_name"): "fresh",
            (Branches, "create", "name"): "fresh",
            (Notes, "create", "name"): "fresh",
            (Consumers, "reset", "name"): "fresh",
            (Catalog, "rename_table", "new_name"): "shop.other",
            (Catalog, "create_table", "name"): "shop.other",
            (Catalog, "create_table_like", "name"): "shop.other",
            (Catalog, "create_database", "name"): "other",
            (Catalog, "drop_database", "name"): "empty",
            (Catalog, "branch_set", "branch"): "b",
            (Tags, "get", "name"): "t",
            (Tags, "rename", "name"): "t",
            (Tags, "delete", "name"): "t",
            (Tags, "delete_reserved", "name"): "t",
            (Consumers, "get", "name"): "c",
            (Consumers, "delete", "name"): "c",
            (Table, "system_table", "name"): "snapshots",
            (TableCommit, "notify", "snapshot"): self.table.snapshot(),
            (BranchSet, "adopt", "until"): {"shop.orders": 1},
            (BranchSet, "adopt", "properties"): {"shop.orders": {}},
            (Table, "drop_partition", "partitions"): {"day": "2023-01-01"},
            (Table, "mark_partition_done", "partitions"): {"day": "2023-01-01"},
            (TableWrite, "write", "rows"): ROWS,
            (Table, "changes_by_partition", "snapshot"): self.days.snapshot(),
            (Snapshots, "changes_by_partition", "snapshot"): self.days.snapshot(),
            (Snapshots, "hold_the_same", "before"): 1,
            (Snapshots, "holds", "taken"): TakenNewest("b", 1),
            (Table, "refuse_unfit", "rows"): ROWS,
            (Table, "refuse_unfit", "changes"): [SetOptions({"write-only": True})],
            (Table, "only_in_partitions", "partitions"): [{"day": "2023-01-01"}],
            (Table, "redefined", "definition"): self.table.schema,
            (Table, "under_definition", "schema"): self.table.schema,
            (Table, "with_columns_of", "other"): self.table,
            (Catalog, "redefined_table", "name"): "shop.plain",
            (Catalog, "drop_unwritten", "table"): self.table,
            **{(Branches, step, "publication"): 1 for step in ("close_main", "settle_main", "replace_closed_main")},
        }
        of_kind = {(Catalog, "name"): "shop.orders", (Branches, "name"): "b", (Notes, "name"): "n"}
        of_all = {
            "version": 1,
            "branch": "b",
            "snapshot": self.table.snapshot(),
            "snapshot_id": 1,
            "partition": {"day": "2023-01-01"},
            "data": ROWS,
            "rows": ROWS.append_column("k", pa.array(["+I"])),
            "row_kind_column": "k",
            "operation": "MERGE",
            "change": lambda basis: None,
            "where": "id = 1",
            "values": {"item": "y"},
            "bucket_count": 2,
            "what": 1,
            "messages": [],
            "changes": SetOptions({"write-only": True}),
            "name": "t",
            "until": 1,
            "commit_id": CommitId("u", 1),
            "next_snapshot_id": 1,
            "earliest_id": 1,
            "schema": SCHEMA,
            "like": "shop.orders",
            "kind": "plans",
            "after": 1,
            "discard_main": False,
            "gives": False,
            "given": {"table-lineage": "false"},
            "guard": lambda latest: None,
            "tables": ["shop.orders"],
            "document": {"a": 1},
            "listeners": Listener(),
            "moment": 1,
            "warehouse": self.catalog.warehouse,
            "publication": Publication("1", "b", {"shop.orders": 1}, False),
        }
        for known, key in ((of_one, (kind, method, parameter)), (of_kind, (kind, parameter)), (of_all, parameter)):
            if key in known:
                return known[key]  # type: ignore[index]
        raise AssertionError(f"{kind.__name__}.{method}: what is a right {parameter!r}?")


class Listener:
    """Hears nothing."""

    def notify_commit_complete(self, identifier: Any, snapshot: Any) -> None: ...

    def notify_table_renamed(self, identifier: Any, new: Any) -> None: ...


KINDS = (Table, Catalog, Snapshots, Tags, Branches, Consumers, BranchSet, Notes, Basis, TableWrite, TableCommit)
# Steps of a publication, which need those before them.
STEPS = ("settle_main", "replace_closed_main")
CALLS = [
    (kind, name)
    for kind in KINDS
    for name, member in vars(kind).items()
    if inspect.isfunction(member)
    and name not in STEPS
    and not name.startswith("_")
    and len(inspect.signature(member).parameters) > 1
]


@pytest.fixture
def grounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """One warehouse after the other, each as new."""
    directory = tmp_path_factory.mktemp("grounds")
    return (Ground(directory / str(number)) for number in count())


def use(result: Any) -> None:
    """What is only looked at when it is used."""
    if isinstance(result, Table):
        result.count()
    elif isinstance(result, Scan):
        result.to_arrow()
    elif isinstance(result, LogStream):
        result.step()
    elif isinstance(result, Iterator):
        list(result)


def call(ground: Ground, kind: type, method: str, given: dict[str, Any]) -> None:
    """Call a method with these arguments and with right ones for whatever else it needs."""
    positional, named = [], {}
    for parameter in list(inspect.signature(getattr(kind, method)).parameters.values())[1:]:
        if parameter.name in given or parameter.default is parameter.empty:
            value = given[parameter.name] if parameter.name in given else ground.right(kind, method, parameter.name)
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional.append(value)
            else:
                named[parameter.name] = value
    use(getattr(ground.subject(kind, method), method)(*positional, **named))


@pytest.mark.parametrize(("kind", "method"), CALLS, ids=lambda parameter: getattr(parameter, "__name__", parameter))
def test_wrong_arguments_end_in_errors_of_the_store(grounds: Iterator[Ground], kind: type, method: str) -> None:
    ground = next(grounds)
    call(ground, kind, method, {})
    for name in list(inspect.signature(getattr(kind, method)).parameters)[1:]:
        ground = next(grounds)
        for wrong in WRONG:
            try:
                call(ground, kind, method, {name: wrong})
            except StorageError as error:
                assert str(error)
            except Exception as error:
                raise AssertionError(f"{method}({name}: {type(wrong)}) ends in {error!r}") from error
            else:
                # It may have changed anything.
                ground = next(grounds)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda table: table.update(None, {}),
            "Argument 'where' of Table.update is None. It takes text or a storage.Predi",
        ),
        (
            lambda table: table.write({"id": [1]}),
            "Argument 'data' of Table.write is {'id': [1]}. It takes a pyarrow.Table",
        ),
        (lambda table: table.expire(retain_last=1.5), "'retain_last' of Table.expire is 1.5. It takes a whole number"),
        (
            lambda table: table.tags.create("a", time_retained=5),
            "'time_retained' of Tags.create is 5. It takes a datetime.",
        ),
        (lambda table: table.scan(columns="id"), "'columns' of Table.scan is 'id'. It takes a list of: text or None"),
        (lambda table: table.expire(dry_run="no"), "'dry_run' of Table.expire is 'no'. It takes True or False"),
        (lambda table: table.drop_partition({"day": 1}, 5), "'partitions' of Table.drop_partition is 5"),
        (lambda table: table.rollback_to(dt.datetime(1, 1, 1)), "no snapshot or tag at or before 0001-01-01"),
        (lambda table: table.to_arrow(limit=10**5000), "'limit' of Table.to_arrow is a value of type int"),
        (lambda table: table.at("²").count(), "Tag '²' does not exist"),
        (lambda table: Catalog(5), "Argument 'warehouse' of Catalog is 5. It takes text"),  # type: ignore[arg-type]
    ],
)
def test_an_error_names_the_argument_what_was_found_and_what_is_wanted(
    orders: Table, act: Callable[[Table], Any], message: str
) -> None:
    orders.write(ROWS)
    with pytest.raises(StorageError) as refused:
        act(orders)
    assert message in str(refused.value)
    assert orders.count() == 1


def test_a_change_of_the_schema_says_what_it_takes() -> None:
    changes = [getattr(storage, name) for name in storage.__all__]
    kinds = [
        change_type
        for change_type in changes
        if isinstance(change_type, type) and issubclass(change_type, SchemaChange) and change_type is not SchemaChange
    ]
    assert len(kinds) > 5
    for kind in (*kinds, CommitId, Overwrite, storage.ComputedColumn, storage.Watermark):
        with pytest.raises(InvalidRequest, match=f"of {kind.__name__} is <object"):
            kind(object())


def test_a_tag_that_is_kept_for_ever_and_a_partition_too_are_kept(catalog: Catalog, orders: Table) -> None:
    orders.write(ROWS)
    orders.tags.create("kept", time_retained=dt.timedelta.max)
    assert orders.tags.expire() == []
    days = catalog.create_table(
        "shop.days", SCHEMA, partition_by=["item"], options={"partition.expiration-time": f"{2**63 - 1} ms"}
    )
    days.write(pa.table({"id": [1], "item": ["2020-01-01"]}))
    assert days.expire_partitions() == []


@pytest.mark.parametrize("text", ["9" * 30, "9" * 5000, "²", "99999999999999999"])
def test_numbers_in_text_that_mean_no_moment_are_refused(text: str) -> None:
    for act in (
        lambda: storage.moment_of(text),
        lambda: storage.version_of_options({"scan.timestamp-millis": text}),
        lambda: storage.parse_duration_ms(f"{text} d"),
    ):
        with pytest.raises(InvalidRequest):
            act()


@pytest.mark.parametrize("column", ["id", "price", "size"])
def test_whole_numbers_of_thousands_of_digits_are_compared(catalog: Catalog, column: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("price", pa.decimal128(8, 2)), ("size", pa.float64())])
    table = catalog.create_table("shop.numbers", schema)
    table.write(pa.table({"id": [1], "price": [Decimal(1)], "size": [1.0]}, schema))
    assert [table.count(where=Comparison(column, "<", number)) for number in (10**5000, -(10**5000))] == [1, 0]
    with pytest.raises(InvalidRequest, match="a value of type int is not"):
        table.update("id = 1", {"price": 10**5000})
