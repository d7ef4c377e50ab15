"""TPC-H for tests and benchmarks: the queries, the keys of the tables, and how the data is made."""

import subprocess
import sys
from pathlib import Path

QUERIES = Path(__file__).parent / "fixtures" / "tpch" / "queries.sql"
KEYS = {
    "customer": ["c_custkey"],
    "lineitem": ["l_orderkey", "l_linenumber"],
    "nation": ["n_nationkey"],
    "orders": ["o_orderkey"],
    "part": ["p_partkey"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "region": ["r_regionkey"],
    "supplier": ["s_suppkey"],
}


def generate(scale: str, directory: Path) -> None:
    """Write a Parquet file for each table."""
    tool = Path(sys.executable).parent / "tpchgen-cli"
    subprocess.run([tool, "parquet", "-s", scale, f"--output-dir={directory}"], check=True, capture_output=True)
