"""How assets are partitioned. A partition key is the value of a partition column, and the name of the tag it becomes."""

import dagster as dg

# The data is about the year 2013.
months = dg.MonthlyPartitionsDefinition(start_date="2013-01", end_date="2014-01", fmt="%Y-%m")
