"""Runs in pyiceberg's environment: reads Iceberg tables as it is told on standard input, one JSON object a line.

Asked: `{"reader": "pyiceberg" | "duckdb", "metadata": …, "where": …, "snapshot": …, "tag": …, "file": …}`, where `metadata` is a
directory with `metadata/version-hint.text`. It writes the rows to the file as an Arrow IPC file, and answers `{"files": n}`,
the number of data files that pyiceberg would read, or `{"error": …}`.
"""

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa
from pyiceberg.table import StaticTable

_EXTENSIONS = [
    next(Path(module.__file__ or "").parent.rglob("*.duckdb_extension"))
    for module in (duckdb_extension_avro, duckdb_extension_iceberg)
]


def with_pyiceberg(asked: dict[str, Any]) -> tuple[pa.Table, int]:
    table = StaticTable.from_metadata(asked["metadata"])
    number = asked["snapshot"]
    if asked["tag"] is not None:
        number = table.metadata.refs[asked["tag"]].snapshot_id
    scan = table.scan(row_filter=asked["where"] or "True", snapshot_id=number)
    return scan.to_arrow(), len(list(scan.plan_files()))


def with_duckdb(asked: dict[str, Any]) -> tuple[pa.Table, int]:
    connection = duckdb.connect()
    for path in _EXTENSIONS:
        connection.execute(f"LOAD '{path}'")
    connection.execute("SET TimeZone = 'UTC'")
    version = (Path(asked["metadata"]) / "metadata" / "version-hint.text").read_text()
    source = f"iceberg_scan('{asked['metadata']}/metadata/v{version}.metadata.json'"
    source += ")" if asked["snapshot"] is None else f", snapshot_from_id={asked['snapshot']}::UBIGINT)"
    where = f" WHERE {asked['where']}" if asked["where"] else ""
    return connection.execute(f"SELECT * FROM {source}{where}").to_arrow_table(), -1


for line in sys.stdin:
    asked = json.loads(line)
    try:
        rows, files = (with_pyiceberg if asked["reader"] == "pyiceberg" else with_duckdb)(asked)
        with pa.ipc.new_file(asked["file"], rows.schema) as file:
            file.write_table(rows)
        answer: dict[str, Any] = {"files": files}
    except BaseException as error:
        answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-1500:]}
    print(json.dumps(answer), flush=True)
