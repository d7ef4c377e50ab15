"""The command line: `snapline …`. Commands on tables are made from `resources.actions`; the others are written here."""

from importlib.util import find_spec

if find_spec("click") is None:
    raise SystemExit("Error: The command line needs more than the store alone: pip install 'snapline[platform]'.")

from .program import answer, main
from .root import cli

__all__ = ["answer", "cli", "main"]
