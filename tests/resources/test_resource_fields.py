"""A field that a resource does not have is refused, with the one that may be meant."""

import pytest

from resources import SparkResource, TablesResource
from storage import InvalidRequest

pytestmark = pytest.mark.dagster


def test_misspelt_fields_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"TablesResource has no field 'warehous'\. Did you mean 'warehouse'"):
        TablesResource(spark=SparkResource(), warehous="x")
    with pytest.raises(InvalidRequest, match=r"SparkResource has no field 'mastr'\. Did you mean 'master'"):
        SparkResource(mastr="local[7]")
    assert TablesResource(spark=SparkResource(master="local[1]"), warehouse="x").warehouse == "x"
