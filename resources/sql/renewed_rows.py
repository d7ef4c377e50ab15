"""The rows that a micro-batch changes in a sink: what a query makes of its sources before and after, of what was touched.

Both sides are read at the snapshots that the checkpoint names, so that a batch that is replayed gives the same rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegralType, MapType, StringType, StructType
from sqlglot import exp

from storage import InvalidRequest, Table
from storage.engines.spark_options import SOURCE_NUMBER, TOUCHED_KEYS
from storage.engines.spark_stream import at_position, batch_spans
from storage.engines.spark_types import column_named, spark_schema

from .fill import Fill
from .query import Input
from .renewal import Branch, keys_of
from .renewal_trees import GROUPS
from .spark_engine import SparkEngine

KIND = "__snapline_kind"
_SOURCE, _THERE = "__source", "__there"
# So many keys are conditions of the reader, which skips files by them; more are joined.
_MOST_CONDITIONS = 500

_BEFORE, _AFTER = 0, 1

Frames = Mapping[str, DataFrame]


class RenewedRows:
    """What the branches of a query make of the changes of their sources."""

    def __init__(self, branches: Sequence[Branch], fills: Sequence[Fill], sink: Table, checkpoint: str) -> None:
        self._branches = branches
        self._fills = fills
        self._sink = sink
        self._checkpoint = checkpoint
        inputs = [source for branch in branches for source in branch.inputs if keys_of(source.source)]
        self._numbers = {source.view: number for number, source in enumerate(inputs)}
        self._inputs = inputs

    def check(self, engine: SparkEngine) -> None:
        """Let Spark look at the query. Raises InvalidRequest for columns whose values might become one in the sink's key."""
        schemas: list[list[DataType]] = []
        for branch in self._branches:
            frames = {source.view: _empty(engine, source) for source in branch.inputs}
            rows = engine.over(frames, branch.tree)
            made = [field.dataType for field in rows.schema.fields]
            self._check_key(branch, made)
            engine.cast(engine.fill(rows, self._fills), self._sink)
            schemas.append(made)
        for given in zip(*schemas, strict=False):
            if any(not _alike(each, given[0]) for each in given):
                raise InvalidRequest(
                    f"The parts of a UNION ALL over tables whose rows change have different types, "
                    f"{', '.join(each.simpleString() for each in given)}: CAST them to one."
                )

    def _check_key(self, branch: Branch, made: Sequence[DataType]) -> None:
        types = {field.name: field.dataType for field in spark_schema(self._sink.schema.to_arrow()).fields}
        for fill in self._fills:
            if fill.name not in self._sink.schema.primary_keys or fill.position is None:
                continue
            given, taken = made[fill.position], types[fill.name]
            is_constant = isinstance(branch.tree.expressions[fill.position].unalias(), exp.Literal)
            if not (is_constant or _keeps(given, taken)):
                raise InvalidRequest(
                    f"Column {fill.name!r} of the primary key of {self._sink.identifier} is {taken.simpleString()}, the query "
                    f"gives {given.simpleString()}: different rows might become one. Use the same type."
                )

    def stream(self, read: Callable[[Input, Mapping[str, str]], DataFrame]) -> DataFrame:
        """The touched keys of all sources as a stream, each with the number of its source."""
        parts = []
        for each in self._inputs:
            number = self._numbers[each.view]
            keys = keys_of(each.source)
            given = {TOUCHED_KEYS: "true", SOURCE_NUMBER: str(number), "columns": ",".join(keys)}
            named = [column_named(key).alias(_key(number, place)) for place, key in enumerate(keys)]
            parts.append(read(each, given).select(F.lit(number).alias(_SOURCE), *named))
        return reduce(lambda some, more: some.unionByName(more, allowMissingColumns=True), parts)

    @contextmanager
    def made(self, batch: DataFrame, batch_id: int) -> Iterator[DataFrame]:
        """The changes of the sink that a micro-batch makes, with their kinds."""
        spans = batch_spans(self._checkpoint, batch_id)
        with ExitStack() as stack:
            step = _Step(batch, spans, self._numbers, stack)
            rows = [self._changes(step, branch) for branch in self._branches]
            yield reduce(DataFrame.unionByName, rows)

    def _changes(self, step: "_Step", branch: Branch) -> DataFrame:
        before, after = step.results(branch)
        fitted = step.engine.cast(step.engine.fill(after, self._fills), self._sink)
        if before is None:
            return fitted.withColumn(KIND, F.lit("+I"))
        earlier = step.engine.cast(step.engine.fill(before, self._fills), self._sink)
        return _difference(earlier, fitted, self._sink.schema.primary_keys)


class _Step:
    """A micro-batch: its sources before and after, and what of them was touched."""

    def __init__(
        self,
        batch: DataFrame,
        spans: Mapping[int, tuple[int | None, int]],
        numbers: Mapping[str, int],
        stack: ExitStack,
    ) -> None:
        session = batch.sparkSession
        self.engine = SparkEngine(lambda: session)
        self._batch = batch
        self._spans = spans
        self._numbers = numbers
        self._stack = stack

    def results(self, branch: Branch) -> tuple[DataFrame | None, DataFrame]:
        """The rows of a query that were there before and may have gone, and those that are there now."""
        if all(self._span(source)[0] is None for source in branch.inputs if source.view in self._numbers):
            # Spark asks for what a batch reads, and a consumer remembers it, when the first row is wanted.
            self._batch.isEmpty()
            return None, self._over(branch, _AFTER, branch.tree)
        if branch.restricted is not None and branch.groups is None:
            self._batch.isEmpty()
            return self._over(branch, _BEFORE, branch.tree), self._over(branch, _AFTER, branch.tree)
        touched = {branch.root: _Held(self._touched(branch), self._stack)}
        if branch.groups is None or branch.restricted is None:
            before, after = (self._over(branch, side, branch.tree, touched) for side in (_BEFORE, _AFTER))
            return before, after
        before, after = (self._over(branch, side, branch.groups, touched) for side in (_BEFORE, _AFTER))
        groups = {GROUPS: _Held(before.union(after).distinct(), self._stack).rows}
        before, after = (self._over(branch, side, branch.restricted, views=groups) for side in (_BEFORE, _AFTER))
        return before, after

    def _touched(self, branch: Branch) -> DataFrame:
        """The keys of the root that were touched, or whose rows are joined with such that were."""
        root = next(source for source in branch.inputs if source.view == branch.root)
        parts = [self._keys(root)]
        for read in branch.inputs:
            if read.view not in branch.joined or self._span(read)[0] == self._span(read)[1]:
                continue
            held = {read.view: _Held(self._keys(read).distinct(), self._stack)}
            parts += [self._over(branch, side, branch.joined[read.view], held) for side in (_BEFORE, _AFTER)]
        return reduce(DataFrame.union, parts).distinct()

    def _over(
        self,
        branch: Branch,
        side: int,
        tree: exp.Select,
        held: "Mapping[str, _Held] | None" = None,
        views: Frames | None = None,
    ) -> DataFrame:
        """A query over the sources before or after; of some views the rows with the keys that are held."""
        frames = dict(views or {})
        for read in branch.inputs:
            # Made anew for each query: Spark pushes the filters of one into what another shares with it.
            frame = self._frame(read, self._span(read)[side]) if read.view in self._numbers else self.engine.frame(read)
            frames[read.view] = held[read.view].of(frame, keys_of(read.source)) if held and read.view in held else frame
        return self.engine.over(frames, tree)

    def _keys(self, read: Input) -> DataFrame:
        number = self._numbers[read.view]
        named = [F.col(_key(number, place)).alias(key) for place, key in enumerate(keys_of(read.source))]
        return self._batch.where(F.col(_SOURCE) == number).select(*named)

    def _span(self, read: Input) -> tuple[int | None, int]:
        return self._spans[self._numbers[read.view]]

    def _frame(self, read: Input, position: int | None) -> DataFrame:
        """The rows of a source at a position, under the columns that the query was made for."""
        assert read.source.table is not None
        table = at_position(read.source.table, position)
        if table is None:
            return _empty(self.engine, read)
        return self.engine.frame(replace(read, source=replace(read.source, table=table)))


class _Held:
    """Rows that are looked up several times."""

    def __init__(self, rows: DataFrame, stack: ExitStack) -> None:
        rows = rows.persist()
        stack.callback(rows.unpersist)
        first = rows.limit(_MOST_CONDITIONS + 1).collect()
        self._few = first if len(first) <= _MOST_CONDITIONS else None
        self.rows = rows

    def of(self, frame: DataFrame, keys: Sequence[str]) -> DataFrame:
        """The rows of a frame whose keys are held."""
        held = self.rows.toDF(*[f"__held_{place}" for place in range(len(keys))])
        if self._few is not None:
            # Others may not come back from Python as they are.
            plain = [
                place
                for place, field in enumerate(self.rows.schema.fields)
                if isinstance(field.dataType, IntegralType | StringType)
            ]
            for place in plain:
                frame = frame.where(column_named(keys[place]).isin(list({row[place] for row in self._few})))
            if len(keys) == len(plain) == 1:
                return frame
        same = [column_named(key).eqNullSafe(F.col(f"__held_{place}")) for place, key in enumerate(keys)]
        return frame.join(held, reduce(Column.__and__, same), "left_semi")


def _difference(before: DataFrame, after: DataFrame, keys: Sequence[str]) -> DataFrame:
    """What makes one side of the other: -D, +U and +I; rows that are equal are left out."""
    names, fields = after.columns, after.schema.fields
    old, new = (
        frame.toDF(*[f"{side}{place}" for place in range(len(names))]).withColumn(f"{side}{_THERE}", F.lit(True))
        for side, frame in (("b", before), ("a", after))
    )
    same = [F.col(f"b{names.index(key)}").eqNullSafe(F.col(f"a{names.index(key)}")) for key in keys]
    both = old.join(new, reduce(Column.__and__, same), "full_outer")
    is_old, is_new = F.col(f"b{_THERE}").isNotNull(), F.col(f"a{_THERE}").isNotNull()
    equal = [
        F.lit(False) if _has_map(field.dataType) else F.col(f"b{place}").eqNullSafe(F.col(f"a{place}"))
        for place, field in enumerate(fields)
    ]
    both = both.where(~(is_old & is_new & reduce(Column.__and__, equal)))
    kind = F.when(~is_new, F.lit("-D")).when(is_old, F.lit("+U")).otherwise(F.lit("+I"))
    columns = [
        F.when(is_new, F.col(f"a{place}")).otherwise(F.col(f"b{place}")).alias(name) for place, name in enumerate(names)
    ]
    return both.select(*columns, kind.alias(KIND))


def _key(number: int, place: int) -> str:
    return f"__key_{number}_{place}"


def _empty(engine: SparkEngine, read: Input) -> DataFrame:
    schema = spark_schema(read.source.schema)
    names = schema.names if read.columns is None else read.columns
    return engine.session.createDataFrame([], StructType([field for field in schema.fields if field.name in names]))


def _keeps(given: DataType, taken: DataType) -> bool:
    """Whether different values of one type are different ones of another."""
    if isinstance(given, IntegralType):
        return isinstance(taken, StringType) or (isinstance(taken, IntegralType) and _width(taken) >= _width(given))
    return _alike(given, taken)


def _width(kind: IntegralType) -> int:
    return ("tinyint", "smallint", "int", "bigint").index(kind.simpleString())


def _alike(kind: DataType, other: DataType) -> bool:
    # Lengths of texts are a matter of the sink's.
    return kind == other or (isinstance(kind, StringType) and isinstance(other, StringType))


def _has_map(kind: DataType) -> bool:
    return "map<" in kind.simpleString() or isinstance(kind, MapType)
