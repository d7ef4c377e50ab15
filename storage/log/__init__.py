"""A copy of a table's changes in a system such as Kafka: the snapshot comes first, the log follows it."""
