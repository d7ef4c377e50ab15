"""pypaimon, in an environment of its own. Prints one JSON object: seconds for each workload.

python pypaimon_side.py DIRECTORY BASE_ROWS UPSERTS UPSERT_ROWS COMMITS COMMIT_ROWS
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import workload
from pypaimon import CatalogFactory, Schema


def timed(act: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = act()
    return time.perf_counter() - start, result


def create(catalog: Any, name: str) -> Any:
    schema = Schema.from_pyarrow_schema(
        workload.COLUMNS, primary_keys=["id"], options={"bucket": str(workload.BUCKETS), "file.compression": "zstd"}
    )
    catalog.create_table(name, schema, False)
    return catalog.get_table(name)


def write(table: Any, rows: pa.Table) -> None:
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(rows)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def read(catalog: Any, columns: list[str] | None = None, low: int | None = None, high: int | None = None) -> pa.Table:
    builder = catalog.get_table("bench.t").new_read_builder()
    if low is not None:
        predicates = builder.new_predicate_builder()
        at_least = predicates.greater_or_equal("id", low)
        chosen = (
            predicates.equal("id", low)
            if high is None
            else predicates.and_predicates([at_least, predicates.less_than("id", high)])
        )
        builder = builder.with_filter(chosen)
    if columns:
        builder = builder.with_projection(columns)
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def main(directory: str, base: int, upserts: int, upsert_rows: int, commits: int, commit_rows: int) -> None:
    catalog = CatalogFactory.create({"warehouse": directory})
    catalog.create_database("bench", True)
    table = create(catalog, "bench.t")
    loaded = workload.base(base)
    changes = [workload.upsert(number, base, upsert_rows) for number in range(upserts)]
    found = {"load": timed(lambda: write(table, loaded))[0]}
    found["upserts"] = sum(timed(lambda one=one: write(table, one))[0] for one in changes)
    found["scan"], rows = timed(lambda: read(catalog))
    expected = base + upserts * (upsert_rows - upsert_rows // 2)
    assert rows.num_rows == expected, (rows.num_rows, expected)
    found["scan_2_columns"] = timed(lambda: read(catalog, ["id", "price"]))[0]
    read(catalog, low=base // 3)
    found["lookup"] = statistics.median(timed(lambda key=key: read(catalog, low=key * 1000 + 7))[0] for key in range(5))
    found["range"] = timed(lambda: read(catalog, low=base // 2, high=base // 2 + base // 100))[0]
    small = create(catalog, "bench.small")
    latencies = []
    for number in range(commits):
        rows = workload.small_commit(number, commit_rows)
        latencies.append(timed(lambda rows=rows: write(small, rows))[0])
    found["commit_first"] = statistics.median(latencies[5:25])
    found["commit_last"] = statistics.median(latencies[-20:])

    def plan() -> int:
        return len(catalog.get_table("bench.small").new_read_builder().new_scan().plan().splits())

    found["plan"] = statistics.median(timed(plan)[0] for _ in range(3))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
