"""Runs in pypaimon's environment: reads the tables that it is told on standard input, one JSON object a line.

Asked: `{"warehouse": …, "table": …, "options": …, "file": …}`.
It writes the rows to the file as an Arrow IPC file, and answers `{}`, or `{"error": …}`.
"""

import json
import sys
import traceback

import pyarrow as pa
from pypaimon import CatalogFactory


def read(warehouse: str, name: str, options: dict[str, str], path: str) -> None:
    table = CatalogFactory.create({"warehouse": warehouse}).get_table(name).copy(options)
    builder = table.new_read_builder()
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    with pa.ipc.new_file(path, rows.schema) as file:
        file.write_table(rows)


for line in sys.stdin:
    asked = json.loads(line)
    try:
        read(asked["warehouse"], asked["table"], asked["options"], asked["file"])
        answer = {}
    except BaseException as error:
        answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-1500:]}
    print(json.dumps(answer), flush=True)
