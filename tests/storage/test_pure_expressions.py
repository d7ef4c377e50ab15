"""What a table computes when it is read: values of its own columns, and nothing that a stranger could make it do."""

import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from resources.sql.engine_dialects import DuckDbSql, SparkSql
from storage import (
    Catalog,
    ComputedColumn,
    CorruptData,
    InvalidRequest,
    RenameColumn,
    SetOptions,
    StorageError,
    Unsupported,
    Watermark,
)
from storage.sql.dialect import SnaplineSql
from storage.sql.pure_expression import parse_expression
from tests.scale import amount

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("ts", pa.timestamp("us"))])


def listed(text: str) -> list[str]:
    """What the lines of a text hold between its waves."""
    return [part for line in text.strip().splitlines() for part in line.split("~")]


PURE = listed("""
price * quantity~ts - INTERVAL '5' SECOND~ts - INTERVAL 5 SECONDS~PROCTIME()~CURRENT_TIMESTAMP~now()
CAST(ts AS TIMESTAMP(3))~TO_TIMESTAMP(FROM_UNIXTIME(id / 1000))~TO_TIMESTAMP_LTZ(id, 3)~date_format(ts, 'yyyy-MM-dd')
upper(name) || 'x'~id IS NULL~CASE WHEN id > 3 THEN 'a' ELSE 'b' END~IF(id > 3, 1, 2)~coalesce(name, 'x')~id IN (1, 2)
name LIKE 'a%'~name RLIKE 'a.*'~concat_ws('-', name, name)~substring(name, 1, 3)~floor(id / 3)~date_trunc('DAY', ts)
extract(YEAR FROM ts)~address.city~DATE '2024-01-01'~get_json_object(name, '$.a')~sha2(name, 256)
regexp_extract(name, 'a(b)', 1)~split(name, ',')[0]~date_add(ts, 3)~add_months(ts, 1)~NOT (id = 3 AND name <> 'x')
pmod(hash(id), 10)~try_cast(name AS INT)~named_struct('a', id)~TIMESTAMPADD(DAY, 3, ts)~map('a', id)~x'00ff'
decode(id, 1, 'a', 'b')~greatest(id, 3)~round(id, 2)~-id~length(name)
""")
IMPURE = listed("""
(SELECT max(content) FROM read_text('/etc/x'))~java_method('java.lang.System', 'load', 'x')~reflect('a', 'b')
try_reflect('a', 'b')~id IN (SELECT 1)~EXISTS (SELECT 1)~read_text('/x')~read_csv('/x')~read_parquet('x')~getenv('HOME')
input_file_name()~rand()~uuid()~sum(id)~count(*)~row_number() OVER ()~explode(arr)~unnest(arr)~current_setting('x')
current_user()~version()~ai_query('x', 'y')~id; DROP TABLE t~id, 3~*~t.*~id AS x~`id`(3)~IDENTIFIER('id')
transform(arr, x -> x + 1)~@x~${env:X}~:p~?~nextval('x')~aggregate(arr, 0, (a, b) -> java_method('x', 'y'))
pg_read_file('x')~CAST(id AS foo.bar)~CAST(id AS ENUM('a'))~raise_error('x')~db.java_method('x')~f.g.h(3)~COLUMNS('a')
try(java_method('x'))~query('select 1')~xpath(name, 'a')~spark_partition_id()~glob('x')~id FILTER (WHERE 1)
CURRENT_DATABASE()~if(1 = 1, java_method('x'), 2)~SELECT 1~VALUES (1)~(VALUES (1))~(FROM read_text('x'))
name LIKE (SELECT 1)~arr[(SELECT 1)]~INTERVAL (SELECT 1) DAY~MAP(SELECT 1)~ARRAY(SELECT content FROM read_text('x'))
map('a')
""")


@pytest.mark.parametrize("text", PURE)
def test_expressions_over_columns_are_understood(text: str) -> None:
    assert parse_expression(text, None, "X") is not None


@pytest.mark.parametrize("text", IMPURE)
def test_everything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises((InvalidRequest, Unsupported), match=r"^Computed column 'x' "):
        parse_expression(text, None, "Computed column 'x'")


EVIL = [
    "x') , EVIL('y",
    "yyyy\\') EVIL(1",
    "$[\"a'') EVIL(1\"]",
    '$.a"] EVIL(',
    "%Y'') EVIL(",
    "DAY) EVIL(",
    "x''y EVIL(",
    "a*/EVIL(",
    "''''EVIL(",
    "EVIL(",
]
SPECIAL = listed("""
INTERVAL {q} DAY~ts - INTERVAL {q} SECOND~INTERVAL {q}~CAST(ts AS {q})~CAST(ts AS STRING FORMAT {q})~`{v}`~x'{v}'
EXTRACT({q} FROM ts)~EXTRACT({q}, ts)~ts AT TIME ZONE {q}~{q} LIKE {q} ESCAPE {q}~TRIM({q} FROM ts)~ts:a.{v}~ts:`{v}`
ts[{q}]~DATE {q}~TIMESTAMP {q}~named_struct({q}, 1)~POSITION({q} IN ts)~OVERLAY(ts PLACING {q} FROM 1)~1 /* {v} */
1 -- {v}~`a`.`{v}`~r'{v}'~ts::{v}~STRUCT(1 AS `{v}`)~map({q}, {q})~ts RLIKE {q}~SUBSTRING(ts FROM {q})
CONVERT(ts USING {v})~trunc(ts, {q})~date_add(ts, INTERVAL {q} DAY)~timestampadd({v}, 1, ts)~dateadd({v}, 1, ts)
date_trunc({q}, ts)~timestampdiff({q}, ts, ts)
""")


def _forged(chosen: list[str]) -> Iterator[str]:
    parser = SnaplineSql().parser()
    for value in chosen:
        escaped = value.replace("\\", "\\\\")
        quoted = "'" + escaped.replace("'", "''") + "'"
        for form in SPECIAL:
            yield form.format(q=quoted, v=value)
        for name in sorted({*parser.FUNCTIONS, *parser.FUNCTION_PARSERS}):
            for arguments in (quoted, f"ts, {quoted}", f"{quoted}, ts", f"ts, {quoted}, ts", f"ts, ts, {quoted}"):
                yield f"{name}({arguments})"


def test_no_text_in_an_expression_becomes_a_word_of_the_engines_statement() -> None:
    """Texts become units, formats and paths on their way to an engine: wherever that is, they stay in their quotes."""
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    chosen, understood = random.Random().sample(EVIL, amount(2, len(EVIL), full=len(EVIL))), 0
    for text in _forged(chosen):
        try:
            tree = parse_expression(text, None, "X")
        except StorageError:
            continue
        understood += 1
        for dialect in (SparkSql, DuckDbSql):
            try:
                written = tree.sql(dialect=dialect)
            except (StorageError, AttributeError, LookupError, SqlglotError):
                continue
            for token in dialect().tokenize(written):
                inside = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
                assert inside or "EVIL" not in token.text, f"{text} is {written} in {dialect.__name__}"
    assert understood > 400 * len(chosen)


def test_an_expression_is_checked_when_it_is_given(tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path))
    for text in ("reflect('a', 'b')", "(SELECT 1)", "nope + 1"):
        for given in (
            {"computed_columns": [ComputedColumn("x", text, "STRING")]},
            {"watermark": Watermark("ts", text)},
            {"options": {"schema.7.name": "x", "schema.7.expr": text}},
        ):
            with pytest.raises((InvalidRequest, Unsupported), match=r"not allowed in a table|which is not there"):
                catalog.create_table("a.t", SCHEMA, **given)  # type: ignore[arg-type]
    assert not catalog.exists("a.t")
    table = catalog.create_table("a.t", SCHEMA, computed_columns=[ComputedColumn("x", "id + 1", "BIGINT")])
    assert [column.name for column in table.computed_columns] == ["x"]
    with pytest.raises(Unsupported, match=r"java_method\(\)"):
        table.alter(SetOptions({"schema.3.expr": "java_method('a', 'b')"}))
    with pytest.raises(InvalidRequest, match="needs the column 'id'"):
        table.alter(RenameColumn("id", "number"))
    table.alter(SetOptions({}, ["schema.3.expr", "schema.3.name", "schema.3.data-type"]), RenameColumn("id", "number"))


def test_an_expression_of_somebody_elses_file_is_checked_when_it_is_read(tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path))
    catalog.create_table("a.t", SCHEMA, computed_columns=[ComputedColumn("x", "id + 1", "BIGINT")])
    path = tmp_path / "a.db/t/schema/schema-0"
    value = json.loads(path.read_text())
    for key, text, error in (
        ("schema.3.expr", "reflect('a', 'b')", Unsupported),
        ("schema.3.expr", "id +", CorruptData),
        ("schema.watermark.0.strategy.expr", "(SELECT 1)", Unsupported),
        ("schema.3.expr", "(" * 5000, CorruptData),
    ):
        options = {
            **value["options"],
            "schema.watermark.0.rowtime": "ts",
            "schema.watermark.0.strategy.expr": "ts",
            key: text,
        }
        path.write_text(json.dumps({k: entry for k, entry in {**value, "options": options}.items() if "crc" not in k}))
        table = Catalog(str(tmp_path)).table("a.t")
        with pytest.raises(error, match=r"Table a\.t cannot be read by SQL, nothing of it was run"):
            _ = table.computed_columns
        # What is stored can be read, and the owner can mend it.
        assert table.to_arrow().num_rows == 0
    table.alter(SetOptions({"bucket": "-1"}))
    table = table.alter(SetOptions({}, [key for key in table.schema.options if key.startswith("schema.")]))
    assert table.computed_columns == []
