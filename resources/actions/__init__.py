"""Each operation on tables once: `snapline …` and `CALL sys.*` are made from what is registered here."""

from . import branch_sets, branches, consumers, lineage, partitions, snapshots, tables, tags
from .action import ACTIONS, Action, Parameter, Procedure, Reach, procedures
from .kinds import Kind
from .outcome import Outcome

__all__ = [
    "ACTIONS",
    "Action",
    "Kind",
    "Outcome",
    "Parameter",
    "Procedure",
    "Reach",
    "branch_sets",
    "branches",
    "consumers",
    "lineage",
    "partitions",
    "procedures",
    "snapshots",
    "tables",
    "tags",
]
