"""Rows of a query as files for others: Parquet, CSV or JSON, below the directories that whoever runs the platform allows."""

from .destination import Destination, destination
from .export_format import ExportFormat, export_format
from .written_file import write_file

__all__ = ["Destination", "ExportFormat", "destination", "export_format", "write_file"]
