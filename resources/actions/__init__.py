"""Each operation on tables once: `snapline …` and `CALL sys.*` are made from what is registered here.

Packages of others add actions of their own: see docs/extending.md.
"""

from . import branch_sets, branches, consumers, lineage, logs, partitions, snapshots, tables, tags
from .action import ACTIONS, Action, Given, Parameter, Procedure, Reach, action, procedures
from .extensions import load_extensions
from .kinds import Kind
from .outcome import Outcome
from .sentences import counted

load_extensions()

__all__ = [
    "ACTIONS",
    "Action",
    "Given",
    "Kind",
    "Outcome",
    "Parameter",
    "Procedure",
    "Reach",
    "action",
    "branch_sets",
    "branches",
    "consumers",
    "counted",
    "lineage",
    "logs",
    "partitions",
    "procedures",
    "snapshots",
    "tables",
    "tags",
]
