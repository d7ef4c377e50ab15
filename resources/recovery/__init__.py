"""A bad day, repaired: plan, branch, correct, backfill, compare, publish or drop."""

from .plan import Mode, PlannedTable, RecoveryPlan, bad_snapshot, plan_recovery
from .record import RecoveryRecord, TableRecord
from .stages import Recovery

__all__ = [
    "Mode",
    "PlannedTable",
    "Recovery",
    "RecoveryPlan",
    "RecoveryRecord",
    "TableRecord",
    "bad_snapshot",
    "plan_recovery",
]
