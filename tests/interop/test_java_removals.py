"""`partial-update.remove-record-on-sequence-group`: a -D that is not late in a named group removes the row, as in Java, whoever
writes and compacts.
"""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest
from tests import scale
from tests.interop.java_paimon import VERSION, JavaPaimon
from tests.interop.test_java_merges import Merges

pytestmark = [
    pytest.mark.pypaimon_differs("It knows no removals by sequence groups."),
    pytest.mark.skipif(
        VERSION != "1.4.2", reason="older versions keep other values of a row that was removed, or know no removals"
    ),
]

REMOVING = "partial-update.remove-record-on-sequence-group"
SEEDS = scale.seeds(4, 2000, full=200)


class Removals(Merges):
    """Two groups, ordered by g and s, of which one or both remove rows."""

    def _options(self) -> dict[str, str]:
        chance = self.random
        options = {
            "bucket": "1",
            "rowkind.field": "op",
            "merge-engine": "partial-update",
            "changelog-producer": "lookup",
        }
        if chance.random() < 0.4:
            options |= {"changelog-producer": "none", "force-lookup": "true"}
        options["file.format"] = chance.choice(["parquet", "orc", "avro"])
        options |= {
            "fields.g.sequence-group": "n,a",
            "fields.s.sequence-group": "b",
            REMOVING: chance.choice(["g", "s", "g,s"]),
        }
        for name, function in (("n", "sum"), ("a", "last_non_null_value"), ("b", "last_value")):
            if chance.random() < 0.4:
                options[f"fields.{name}.aggregate-function"] = function
        self.engine = "partial-update groups"
        self.takes_deletes = self.is_the_twin_s = True
        return options

    def rows(self, ids: Iterable[int], *, first: bool = False) -> pa.Table:
        """As there. Where a row has values of a group and no order of it, Java shows them or not, by what else is in the bucket:
        first rows, and deletes, whose values stay, have all orders. Nor is there a -U, which Java takes values of where it is the
        first row of a key that it merges (decision 0020): here keys go.
        """
        rows = super().rows(ids, first=first).to_pylist()
        for row in rows:
            row["op"] = "+U" if row["op"] == "-U" else row["op"]
            if first or row["op"] == "-D":
                row |= {name: self.random.randrange(5) if row[name] is None else row[name] for name in ("g", "s")}
        return pa.Table.from_pylist(rows, self.ours.schema.to_arrow())


@pytest.mark.parametrize("chosen", scale.blocks(SEEDS, 6), ids=str)
def test_removals_are_java_s_whoever_writes(chosen: list[int], java: JavaPaimon, tmp_path: Path) -> None:
    scale.try_seeds(lambda seed, directory: Removals(seed, directory, java).run(), chosen, tmp_path)


SCHEMA = pa.schema([("id", pa.int32()), ("g", pa.int32()), ("n", pa.int32()), ("t", pa.string())])
OPTIONS = {"bucket": "1", "merge-engine": "partial-update", "fields.g.sequence-group": "n", REMOVING: "g"}


def test_only_what_orders_a_group_removes_rows(catalog: Catalog) -> None:
    with pytest.raises(InvalidRequest, match=r"'n', which orders no sequence group\. Those that do: g"):
        catalog.create_table("m.t", SCHEMA, primary_key=["id"], options=OPTIONS | {REMOVING: "n"})
    with pytest.raises(InvalidRequest, match="exclude each other"):
        catalog.create_table("m.t", SCHEMA, primary_key=["id"], options=OPTIONS | {"ignore-delete": "true"})
