"""Changes at random in plain Spark, and here on both engines: the same rows afterwards, or refused by name and nothing done."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from resources import Session
from resources.spark_session import start_spark
from storage import StorageError
from storage.engines.spark_types import spark_schema
from tests.resources.sql_changes import SCHEMA, Change, Changes, Oracle, rows
from tests.resources.test_sql_corpus import plain
from tests.scale import FULL, amount, blocks, seeds

pytestmark = pytest.mark.spark
_EACH = amount(10, 40)
# Of so many statements, the engine Spark runs one.
_RUN_ON_SPARK = 2 if FULL else 5


def shown(table: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(repr({name: plain(value) for name, value in row.items()}) for row in table)


def asked(run: Any) -> tuple[Any, str]:
    """What a call gives and no text, or None and what it said."""
    try:
        return run(), ""
    except Exception as error:
        if not isinstance(error, StorageError) and not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        return None, str(error).strip().splitlines()[0]


def differences(
    session: Session, changes: Sequence[Change], seed: int, place: Path, layout: dict[str, Any]
) -> tuple[list[str], Counter[str]]:
    """The changes after which the tables differ, and how many were carried out or refused."""
    keyed, partitioned = layout["keyed"], layout["partitioned"]
    keys = ["part", "id"] if partitioned else ["id"]
    tables = {"t": rows(seed, "t", 9), "u": rows(seed, "u", 6)}
    session.catalog.create_table("default.u", SCHEMA).write(tables["u"])
    oracle = Oracle(start_spark(session.settings), tables, spark_schema, str(place))
    counts: Counter[str] = Counter()
    wrong = []
    for number, change in enumerate(changes):
        expected, said = asked(lambda change=change: oracle.answer(change, **layout))
        for engine in ("duckdb", "spark") if number % _RUN_ON_SPARK == 0 else ("duckdb",):
            session.catalog.create_table(
                "default.t",
                SCHEMA,
                primary_key=keys if keyed else (),
                partition_by=["part"] if partitioned else (),
                options={"bucket": 1} if keyed else {},
            ).write(tables["t"])
            done, refusal = asked(lambda change=change, engine=engine: session.sql(change.text, engine))
            actual = session.catalog.table("default.t").to_arrow()
            session.catalog.drop_table("default.t")
            assert actual.schema.types == SCHEMA.types
            was = shown(actual.to_pylist())
            counts["statements"] += 1
            if done is None:
                counts["refused" if expected is not None else "wrong in Spark"] += 1
                if was != shown(tables["t"].to_pylist()):
                    wrong.append(f"{engine}: a refused statement changed rows: {change.text}\n  {refusal}")
                if expected is not None and engine == "spark":
                    wrong.append(f"spark refuses: {change.text}\n  {refusal}")
            elif expected is not None and was == shown(expected):
                counts["equal"] += 1
            else:
                counts["different"] += 1
                rest = said or "\n    ".join(["rows"] if expected is None else _apart(was, shown(expected)))
                wrong.append(f"{engine}: {change.text}\n  plain Spark: {rest}")
    oracle.close()
    return wrong, counts


def _apart(actual: list[str], expected: list[str]) -> list[str]:
    here, there = Counter(actual), Counter(expected)
    return [
        f"{len(actual)} rows here, {len(expected)} there",
        *[f"here  {row}" for row in list((here - there).elements())[:2]],
        *[f"there {row}" for row in list((there - here).elements())[:2]],
    ]


@pytest.mark.parametrize("chosen", blocks(seeds(1, 100, full=4), 2), ids=str)
def test_changes_mean_what_they_mean_in_plain_spark(session: Session, tmp_path: Path, chosen: Sequence[int]) -> None:
    from tests.resources.test_sql_corpus import _fresh

    for seed in chosen:
        total: Counter[str] = Counter()
        wrong = []
        for shape, (keyed, partitioned) in enumerate([(False, True), (True, False), (False, False), (True, True)]):
            if shape != seed % 4 and not FULL:
                continue
            grammar = Changes(10 * seed + shape, keyed=keyed, partitioned=partitioned)
            mismatches, counts = differences(
                _fresh(session, 10 * seed + shape),
                [grammar.change() for _ in range(_EACH)],
                seed,
                tmp_path / f"o{seed}{shape}",
                {"keyed": keyed, "partitioned": partitioned},
            )
            wrong += mismatches
            total += counts
        print(seed, dict(total))
        assert not wrong, f"seed {seed}, {dict(total)}:\n" + "\n".join(wrong)
        assert total["equal"] >= _EACH // 4
