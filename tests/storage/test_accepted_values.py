"""Options that are accepted without effect have values of a type as well."""

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, SetOptions
from storage.accepted_values import TYPED
from storage.known_options import ACCEPTED, accepted_for
from storage.option_checks import check_table_options

# Prefixes, names, time zones and the like: any text.
_OF_ANY_TEXT = {
    "changelog-file.compression",
    "changelog-file.prefix",
    "changelog-file.stats-mode",
    "commit.user-prefix",
    "data-file.prefix",
    "lookup.merge-buffer-size",
    "metastore.tag-to-partition",
    "metastore.tag-to-partition.preview",
    "sink.operator-uid.suffix",
    "sink.watermark-time-zone",
    "sink.writer-refresh-detectors",
    "source.operator-uid.suffix",
    "spill-compression",
}


def test_every_accepted_option_has_a_type_or_takes_any_text() -> None:
    assert {key for key in ACCEPTED if not key.endswith("*")} - set(TYPED) == _OF_ANY_TEXT
    assert all(accepted_for(key) for key in TYPED)


@pytest.mark.parametrize("key", TYPED)
def test_a_value_that_is_not_of_the_options_type_is_refused(key: str) -> None:
    for text in ("lots of it", "-3", ""):
        with pytest.raises(InvalidRequest, match=key.replace(".", r"\.")):
            check_table_options({key: text}, "t")


def test_values_of_the_right_type_are_taken_and_those_of_others_stay(tmp_path: object) -> None:
    given = {
        "page-size": "64 kb",
        "sink.parallelism": "4",
        "write-buffer-spillable": "TRUE",
        "sort-engine": "loser-tree",
        "continuous.discovery-interval": "10 s",
        "sink.writer-cpu": "1.5",
        "compaction.offpeak.start.hour": "-1",
        "compaction.offpeak-ratio": "0",
    }
    table = Catalog(str(tmp_path)).create_table("a.t", pa.schema([("id", pa.int64())]), options=given)
    assert given.items() <= table.schema.options.items()
    with pytest.raises(InvalidRequest, match="'lots' is not a size"):
        table.alter(SetOptions({"page-size": "lots"}))
    check_table_options({"page-size": "lots", "sink.parallelism": "2"}, "t", before={"page-size": "lots"})
