"""Metadata beside a table by which readers of Iceberg see its rows, as Paimon's option `metadata.iceberg.storage` asks for."""
