"""The command line: `snapline …`. Commands on tables are made from `resources.actions`; the others are written here."""

from .program import answer, main
from .root import cli

__all__ = ["answer", "cli", "main"]
